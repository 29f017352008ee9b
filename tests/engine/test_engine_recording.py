"""What the engine counts is what replays predict: of recorded chains, and of n-grams."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from spectui.engine.commands import Generate, LoadTarget, RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import BadInputError, UsageError
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.models import Rollback
from spectui.trace.fit import fit_costs
from spectui.trace.ngrams import NGRAM_COSTS, replay_settings
from spectui.trace.record import Chains, Recording
from spectui.trace.replay import Grid, replay_grid
from spectui.tune.candidates import Loader
from spectui.tune.forecaster import Forecaster
from spectui.tune.probing import probe_costs
from spectui.tune.space import SearchSpace
from tests.support.engine import (
    ENDLESS,
    MAX_DRAFT,
    assert_lossless,
    local_engine,
    small_context,
    speculation,
)
from tests.support.models import CLOSE_DRAFT, OTHER, ROUGH_DRAFT, TARGET, TinyPath
from tests.support.search import target_of

pytest_plugins = ("tests.support.fixtures",)

PROMPT = (88, 102, 126, 263, 261, 109, 271)
REPEATED = PROMPT * 4
DEPTH = 12
GRID = Grid(draft_max=(1, 3, 12), draft_min=(0, 2), draft_p_min=(0.0, 0.3, 0.9))
DRAFTS = {"itself": TARGET, "close": CLOSE_DRAFT, "rough": ROUGH_DRAFT, "unrelated": OTHER}
SAMPLING = {
    "greedy": SamplingConfig(temp=0.0),
    "endless": ENDLESS,
    "seeded": SamplingConfig(temp=0.7, seed=11, ignore_eos=True),
}


@pytest.fixture(scope="module")
def engine(tiny: TinyPath) -> Iterator[Engine]:
    """With a target and a close draft."""
    with local_engine() as started:
        started.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)),
                context=small_context(),
                max_draft=MAX_DRAFT,
            )
        )
        started.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        yield started


def recording_of(command: Generate, plain: GenerationResult, **chains: Chains) -> Recording:
    return Recording(
        id="x",
        category="code",
        prompt=command.prompt,
        output=plain.tokens,
        stop=plain.stop,
        n_predict=command.n_predict,
        n_ctx=512,
        chains=chains,
        rollback=Rollback.TRUNCATE,
    )


def assert_predicts(engine: Engine, command: Generate, grid: Grid = GRID) -> None:
    plain = engine.generate(command)
    asked = RecordChains(prompt=command.prompt, output=plain.tokens, depth=DEPTH)
    recording = recording_of(command, plain, draft=engine.record_chains(asked).chains)
    replayed = replay_grid([recording], "draft", grid)
    counts = {
        "n_rounds": replayed.n_rounds,
        "n_drafted": replayed.whole.drafted,
        "n_accepted": replayed.whole.accepted,
        "n_rejections": replayed.n_rejections,
        "n_steps": replayed.n_steps,
    }
    for index, config in enumerate(grid.settings(mtp=False)):
        drafting = replace(command, speculation=Speculation(config))
        result = engine.generate(drafting)
        assert result.tokens == recording.output
        counters = result.counters
        for name, predicted in counts.items():
            assert predicted[index] == getattr(counters, name), (name, config)


# Where all or nothing is accepted, another text has no other rounds.
@pytest.mark.parametrize(
    ("draft", "sampling"),
    [
        *product(("close",), SAMPLING),
        *(
            pytest.param("rough", sampling, marks=pytest.mark.ci, id=f"rough-{sampling}")
            for sampling in SAMPLING
        ),
        ("itself", "greedy"),
        ("unrelated", "seeded"),
    ],
)
def test_a_recording_predicts_every_setting(
    engine: Engine, tiny: TinyPath, draft: str, sampling: str
) -> None:
    engine.load_draft(ModelOptions(path=tiny(DRAFTS[draft])))
    command = Generate(prompt=PROMPT, n_predict=48, sampling=SAMPLING[sampling])
    assert_predicts(engine, command)


def test_a_full_context_is_predicted(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    command = Generate(prompt=PROMPT * 70, n_predict=-1, sampling=ENDLESS)
    assert_predicts(engine, command)


def test_what_cannot_be_recorded_or_drafted_is_refused(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    with pytest.raises(BadInputError, match="raise -c"):
        engine.record_chains(RecordChains(prompt=PROMPT, output=(1,) * 510, depth=4))
    engine.unload_draft()
    with pytest.raises(UsageError, match="no draft is loaded"):
        engine.record_chains(RecordChains(prompt=PROMPT, output=(1,), depth=4))
    for setting, reason in (
        (ngrams(5, 4), "size_n 5 is above size_m 4, so every draft would be dropped"),
        (ngrams(4, MAX_DRAFT + 1), "more than the 16 tokens"),
    ):
        with pytest.raises(UsageError, match=reason):
            engine.generate(Generate(prompt=PROMPT, speculation=setting))


def ngrams(size_n: int, size_m: int) -> Speculation:
    return Speculation(NgramSimple(size_n=size_n, size_m=size_m))


@pytest.mark.parametrize("sampling", SAMPLING.values(), ids=SAMPLING)
def test_the_output_is_the_targets_and_the_counts_are_those_of_a_replay(
    engine: Engine, sampling: SamplingConfig
) -> None:
    command = Generate(prompt=REPEATED, n_predict=120, sampling=sampling, reuse_prompt=True)
    plain = engine.generate(command)
    sizes = ((1, 1), (1, 6), (2, 4), (3, 16), (4, 8))
    totals = replay_settings((recording_of(command, plain),), [ngrams(*one) for one in sizes])
    assert sum(total.n_drafted for total in totals) > 0
    for total in totals:
        wanted = replace(command, speculation=total.speculation)
        result = engine.generate(wanted)
        assert_lossless(engine, command, plain, result)
        for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections"):
            assert getattr(total, name) == getattr(result.counters, name), total.speculation


def test_a_lookup_is_no_step_and_takes_draft_time(engine: Engine) -> None:
    command = Generate(prompt=REPEATED, n_predict=120, sampling=ENDLESS, speculation=ngrams(1, 4))
    counters = engine.generate(command).counters
    assert counters.n_drafted > 0
    assert (counters.n_steps, counters.chain_s) == (0, 0.0)
    assert 0 < counters.times.draft_s < counters.times.total_s


def test_a_chat_may_change_its_drafter(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    prompt: tuple[int, ...] = REPEATED
    for drafter in (speculation(4), ngrams(2, 8), None, ngrams(1, 3), speculation(2)):
        turn = Generate(
            prompt=prompt, n_predict=12, sampling=ENDLESS, speculation=drafter, conversation=True
        )
        answer = engine.generate(turn)
        alone = replace(turn, speculation=None, conversation=False)
        assert_lossless(engine, alone, engine.generate(alone), answer)
        prompt = (*prompt, *answer.tokens, *REPEATED[:3])
    engine.unload_draft()


def test_rounds_to_be_measured_draft_beyond_the_end_of_the_answer(
    engine: Engine, tiny: TinyPath
) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    command = Generate(prompt=REPEATED, n_predict=4, sampling=ENDLESS, speculation=speculation(12))
    assert next(one.n_drafted for one in engine.generate(command).rounds) == 2
    measured = engine.generate(replace(command, draft_lengths=(12,)))
    assert next(one.n_drafted for one in measured.rounds) == 12
    engine.unload_draft()


def test_a_probe_tells_what_rounds_and_the_target_alone_cost(
    engine: Engine, tiny: TinyPath
) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    items = tuple(WorkItem(id=f"p{n}", category="code", tokens=REPEATED[n:]) for n in range(3))
    for seed in range(8):
        probed = probe_costs(engine, ENDLESS, DraftSimple(draft_max=16), items, seed=seed)
        assert probed is not None
        costs = fit_costs(probed)
        assert costs.lengths[-1] == 16
        assert 0 < costs.off_s <= costs.verify_s[0] + costs.token_s + costs.fixed_s
    engine.unload_draft()


def test_a_forecast_needs_no_draft(engine: Engine) -> None:
    items = tuple(
        WorkItem(id=f"p{shift}", category="code", tokens=REPEATED[shift:]) for shift in range(3)
    )
    workload = Workload(items=items, n_predict=60, sampling=ENDLESS)
    space = SearchSpace(drafts=(), max_draft=8)
    loader = Loader(engine, ())
    forecaster = Forecaster(workload, loader, space, target=target_of())
    # Answers of 60 tokens in half of their time; 32 tokens of two at least for the costs.
    assert forecaster.seconds(2, 60, 10.0, 0.0) == pytest.approx(2 * 6 * 0.5 + 2 * 3.2 * 1.3)
    assert forecaster.seconds(8, 60, 10.0, 0.0) == pytest.approx(8 * 6 * 0.5 + 2 * 3.2 * 1.3)
    n_tokens = sum(len(item.tokens) for item in workload.items) / len(workload.items)
    reading_s = forecaster.seconds(1, 60, 10.0, 0.5) - (6 * 0.5 + 3.2 * 1.3)
    assert reading_s == pytest.approx(0.5 * n_tokens)
    events: list[str] = []
    found = forecaster.run(3, 60, events.append)
    kinds = [*["of the target"] * 3, *["rounds of every length"] * 3, "what rounds cost"]
    assert all(kind in event for kind, event in zip(kinds, events, strict=True))
    assert forecaster.n_steps(3) == len(kinds)
    costs = found.costs[NGRAM_COSTS]
    # Real rounds of many lengths were measured, without a chain.
    assert len(costs.lengths) > 3
    assert costs.lengths[-1] <= 8
    assert costs.step_s == 0.0
    assert costs.verify_s[0] > 0
    assert {one.arm.speculation for one in found.forecasts} == set(space.ngrams())
    assert all(one.speedup > 0 for one in found.forecasts)
