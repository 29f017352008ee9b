"""Prompts that continue others: what is kept of those is gone on from, and changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import Event, GenerationResult, PromptEvaluated
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from tests.support.architectures import write_cohere2, write_lfm2, write_mamba, write_qwen35
from tests.support.engine import ENDLESS, MAX_DRAFT, local_worker
from tests.support.models import Tiny, write_tiny

WRITERS: dict[str, Callable[[Tiny, Path], None]] = {
    "llama": write_tiny,
    "cohere2": write_cohere2,
    "mamba": write_mamba,
    "lfm2": write_lfm2,
    "qwen35": write_qwen35,
}
SMALL_BATCH = ContextOptions(ctx_size=512, batch_size=64, ubatch_size=64, threads=1)
"""Prompts take several batches, and a layer with a window makes room."""
NGRAM = NgramSimple(size_n=3, size_m=6)


@pytest.fixture(scope="module", params=WRITERS)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """With a target and, but for one that drafts for itself, a draft that is often wrong."""
    folder, write = tmp_path_factory.mktemp(architecture), WRITERS[architecture]
    write(Tiny(), folder / "target.gguf")
    is_mtp = architecture == "qwen35"
    with Engine() as started:
        options = ModelOptions(path=folder / "target.gguf")
        started.load_target(options, SMALL_BATCH, max_draft=MAX_DRAFT, mtp=is_mtp)
        if not is_mtp:
            write(Tiny(noise=0.1), folder / "draft.gguf")
            started.load_draft(ModelOptions(path=folder / "draft.gguf"))
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
