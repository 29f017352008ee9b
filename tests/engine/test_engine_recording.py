"""Recorded chains predict what the engine counts, on tiny random models and on real ones."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from spectui.engine.commands import Generate, RecordChains
from spectui.engine.driver import Engine
from spectui.errors import BadInputError, UsageError
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.models import Rollback
from spectui.trace.grid import Grid, replay_grid
from spectui.trace.record import Recording
from tests.support.engine import ENDLESS, MAX_DRAFT, small_context
from tests.support.models import CLOSE_DRAFT, OTHER, ROUGH_DRAFT, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures",)
pytestmark = pytest.mark.slow

PROMPT = (88, 102, 126, 263, 261, 109, 271)
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
    with Engine() as started:
        started.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=MAX_DRAFT)
        started.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        yield started


def recorded(engine: Engine, command: Generate, depth: int = DEPTH) -> Recording:
    plain = engine.generate(command)
    told = engine.record_chains(
        RecordChains(prompt=command.prompt, output=plain.tokens, depth=depth)
    )
    return Recording(
        id="x",
        category="code",
        prompt=command.prompt,
        output=plain.tokens,
        stop=plain.stop,
        n_predict=command.n_predict,
        n_ctx=512,
        chains={"draft": told.chains},
        rollback=Rollback.TRUNCATE,
    )


def assert_predicts(engine: Engine, command: Generate, grid: Grid = GRID) -> None:
    recording = recorded(engine, command)
    replayed = replay_grid(recording, recording.chains["draft"], grid)
    for index, config in enumerate(grid.settings(mtp=False)):
        drafting = replace(command, speculation=Speculation(config))
        result = engine.generate(drafting)
        assert result.tokens == recording.output
        counters = result.counters
        for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections", "n_steps"):
            predicted = getattr(replayed, name).flat[index]
            assert predicted == getattr(counters, name), (name, config)


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


def test_a_recording_leaves_the_chat_alone(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    turn = Generate(prompt=PROMPT, n_predict=10, sampling=ENDLESS, conversation=True)
    first = engine.generate(turn)
    engine.record_chains(RecordChains(prompt=PROMPT, output=first.tokens, depth=4))
    longer = replace(turn, prompt=(*PROMPT, *first.tokens))
    again = engine.generate(longer)
    assert again.tokens == engine.generate(replace(longer, conversation=False)).tokens


def test_what_cannot_be_recorded_is_refused(engine: Engine, tiny: TinyPath) -> None:
    engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    for command, error, reason in (
        (RecordChains(prompt=PROMPT, output=(), depth=4), BadInputError, "generate one first"),
        (RecordChains(prompt=PROMPT, output=(1,), depth=0), UsageError, "takes 1 to 254"),
        (RecordChains(prompt=PROMPT, output=(1,), depth=255), UsageError, "takes 1 to 254"),
        (RecordChains(prompt=PROMPT, output=(1,) * 510, depth=4), BadInputError, "raise -c"),
    ):
        with pytest.raises(error, match=reason):
            engine.record_chains(command)
    engine.unload_draft()
    with pytest.raises(UsageError, match="no draft is loaded"):
        engine.record_chains(RecordChains(prompt=PROMPT, output=(1,), depth=4))
