"""N-gram drafters in the engine: without a draft, lossless, and as a replay predicts."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.errors import UsageError
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import NgramSimple
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.models import Rollback
from spectui.trace.ngrams import NGRAM_COSTS, replay_ngrams
from spectui.trace.record import Recording
from spectui.tune.forecast import Forecaster
from spectui.tune.loading import Loader
from spectui.tune.space import SearchSpace
from spectui.tune.tracing import CostsMeasured, OutputRecorded, PromptProbed, TracingEvent
from tests.support.engine import ENDLESS, MAX_DRAFT, assert_lossless, small_context, speculation
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures",)

PROMPT = (88, 102, 126, 263, 261, 109, 271) * 4
SIZES = ((1, 1), (1, 6), (2, 4), (3, 16), (4, 8))
SAMPLING = {
    "greedy": SamplingConfig(temp=0.0),
    "endless": ENDLESS,
    "seeded": SamplingConfig(temp=0.7, seed=11, ignore_eos=True),
}


def ngrams(size_n: int, size_m: int) -> Speculation:
    return Speculation(NgramSimple(size_n=size_n, size_m=size_m))


@pytest.fixture(scope="module")
def engine(tiny: TinyPath) -> Iterator[Engine]:
    """With a target alone."""
    with Engine() as started:
        started.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=MAX_DRAFT)
        yield started


@pytest.mark.parametrize("sampling", SAMPLING.values(), ids=SAMPLING)
def test_the_output_is_the_targets_and_the_counts_are_those_of_a_replay(
    engine: Engine, sampling: SamplingConfig
) -> None:
    command = Generate(prompt=PROMPT, n_predict=120, sampling=sampling, reuse_prompt=True)
    plain = engine.generate(command)
    recording = Recording(
        id="x",
        category="code",
        prompt=PROMPT,
        output=plain.tokens,
        stop=plain.stop,
        n_predict=command.n_predict,
        n_ctx=512,
        chains={},
        rollback=Rollback.TRUNCATE,
    )
    totals = replay_ngrams((recording,), [ngrams(*sizes) for sizes in SIZES])
    assert sum(total.n_drafted for total in totals) > 0
    for total in totals:
        wanted = replace(command, speculation=total.speculation)
        result = engine.generate(wanted)
        assert_lossless(engine, command, plain, result)
        for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections"):
            assert getattr(total, name) == getattr(result.counters, name), total.speculation


def test_a_lookup_is_no_step_and_takes_draft_time(engine: Engine) -> None:
    command = Generate(prompt=PROMPT, n_predict=120, sampling=ENDLESS, speculation=ngrams(1, 4))
    counters = engine.generate(command).counters
    assert counters.n_drafted > 0
    assert (counters.n_steps, counters.chain_s) == (0, 0.0)
    assert 0 < counters.times.draft_s < counters.times.total_s


def test_a_chat_may_change_its_drafter(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    prompt: tuple[int, ...] = PROMPT
    for drafter in (speculation(4), ngrams(2, 8), None, ngrams(1, 3), speculation(2)):
        turn = Generate(
            prompt=prompt, n_predict=12, sampling=ENDLESS, speculation=drafter, conversation=True
        )
        answer = engine.generate(turn)
        alone = replace(turn, speculation=None, conversation=False)
        assert_lossless(engine, alone, engine.generate(alone), answer)
        prompt = (*prompt, *answer.tokens, *PROMPT[:3])
    engine.unload_draft()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (ngrams(5, 4), "size_n 5 is above size_m 4, so every draft would be dropped"),
        (ngrams(4, MAX_DRAFT + 1), "more than the 16 tokens"),
        (ngrams(1, 0), "at least 1"),
    ],
)
def test_sizes_that_draft_nothing_or_do_not_fit_are_refused(
    engine: Engine, setting: Speculation, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        engine.generate(Generate(prompt=PROMPT, speculation=setting))


def test_a_forecast_needs_no_draft(engine: Engine) -> None:
    items = tuple(
        WorkItem(id=f"p{shift}", category="code", tokens=PROMPT[shift:]) for shift in range(3)
    )
    workload = Workload(items=items, n_predict=60, sampling=ENDLESS)
    space = SearchSpace(drafts=(), max_draft=8)
    loader = Loader(engine, ())
    forecaster = Forecaster(workload, loader, space, n_ctx=512, rollback=Rollback.TRUNCATE)
    # 60 tokens in half of their time, and two and a half times for the costs, on four prompts.
    assert forecaster.seconds(2, 60, 10.0, 0.0) == pytest.approx(2 * 6 * 3.0)
    assert forecaster.seconds(8, 60, 10.0, 0.0) == pytest.approx(8 * 6 * 0.5 + 4 * 6 * 2.5)
    n_tokens = sum(len(item.tokens) for item in workload.items) / len(workload.items)
    reading_s = forecaster.seconds(1, 60, 10.0, 0.5) - 6 * 3.0
    assert reading_s == pytest.approx(0.5 * n_tokens)
    events: list[TracingEvent] = []
    found = forecaster.run(3, 60, events.append)
    kinds = [*[OutputRecorded] * 3, *[PromptProbed] * 3, CostsMeasured]
    assert [type(event) for event in events] == kinds
    assert forecaster.n_steps(3) == len(kinds)
    measured = events[-1]
    assert isinstance(measured, CostsMeasured)
    assert measured.draft == NGRAM_COSTS
    # Real rounds of many lengths were measured, without a chain.
    assert len(measured.costs.lengths) > 3
    assert measured.costs.lengths[-1] <= 8
    assert measured.costs.step_s == 0.0
    assert measured.costs.verify_s[0] > 0
    assert {one.arm.speculation for one in found.forecasts} == set(space.ngrams())
    assert all(one.speedup > 0 for one in found.forecasts)
