"""Prompts that continue others: what is kept of those is gone on from, and changes nothing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import Event, GenerationResult, PromptEvaluated
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from tests.support.engine import ARCHITECTURES, ENDLESS, engine_with, local_worker

NGRAM = NgramSimple(size_n=3, size_m=6)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine_with(architecture, tmp_path_factory.mktemp(architecture)) as started:
        yield started


def drafting(architecture: str) -> list[Speculation | None]:
    own = Speculation(DraftMtp(draft_max=3) if architecture == "qwen35" else DraftSimple())
    return [None, own, Speculation(NGRAM), own.after([NGRAM])]


def generated(
    engine: Engine, command: Generate
) -> tuple[tuple[tuple[int, ...], Counters, bytes], int]:
    """All that a generation brings but its times, with the bits of the last logits; and the tokens
    of the prompt that were not evaluated.
    """
    found: list[Event] = []
    engine.on_event = found.append
    result: GenerationResult = engine.generate(command)
    target = local_worker(engine).models.target
    logits = [np.array(target.logits(row)) for row in range(target.n_outputs)]
    (told,) = [event for event in found if isinstance(event, PromptEvaluated)]
    counters = replace(result.counters, times=RoundTimes(), chain_s=0.0, mark_s=0.0)
    return (result.tokens, counters, b"".join(map(np.ndarray.tobytes, logits))), (told.n_reused)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("n_prefix", "n_rest"), [(20, 1), (64, 64), (150, 50)])
def test_going_on_from_a_kept_prompt_changes_no_bit(
    engine: Engine, architecture: str, number: int, n_prefix: int, n_rest: int
) -> None:
    text = tuple((7 * n * n + 3 * n + number) % 200 + 20 for n in range(n_prefix + n_rest))
    speculation = drafting(architecture)[number]
    command = Generate(
        prompt=text,
        n_predict=12,
        sampling=ENDLESS,
        speculation=speculation,
        n_prefix=n_prefix,
        reuse_prompt=True,
    )
    store = local_worker(engine).models.prompts
    store.clear()
    fresh, n_reused = generated(engine, command)
    assert n_reused == 0
    store.clear()
    engine.generate(replace(command, prompt=text[:n_prefix], n_prefix=0))
    assert generated(engine, command) == (fresh, n_prefix)
    assert generated(engine, command) == (fresh, n_prefix + n_rest)
