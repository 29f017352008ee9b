"""Driving the engine in tests: short configurations, and a hook on the engine's own thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spectui.engine.commands import Generate, LoadTarget, ProbeMargin
from spectui.engine.driver import Engine
from spectui.engine.events import Event, GenerationResult
from spectui.engine.thread import EngineThread
from spectui.engine.worker import LocalWorker
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from tests.support.architectures import write_cohere2, write_lfm2, write_mamba, write_qwen35
from tests.support.models import Tiny, write_tiny

MAX_DRAFT = 16
ENDLESS = SamplingConfig(temp=0.0, ignore_eos=True)


def small_context(ctx_size: int = 512) -> ContextOptions:
    """One thread: tests share the machine, and tiny models gain nothing from more."""
    return ContextOptions(ctx_size=ctx_size, threads=1)


def load_target(path: Path, ctx_size: int = 512) -> LoadTarget:
    options = ModelOptions(path=path)
    return LoadTarget(options=options, context=small_context(ctx_size), max_draft=MAX_DRAFT)


def drafting(draft_max: int, draft_min: int = 0, draft_p_min: float = 0.0) -> DraftSimple:
    return DraftSimple(draft_max=draft_max, draft_min=draft_min, draft_p_min=draft_p_min)


def speculation(draft_max: int, draft_min: int = 0, draft_p_min: float = 0.0) -> Speculation:
    return Speculation(drafting(draft_max, draft_min, draft_p_min))


def assert_lossless(
    engine: Engine, command: Generate, plain: GenerationResult, other: GenerationResult
) -> None:
    """Require equal output, but for a choice that the target itself cannot make reliably."""
    if other.tokens == plain.tokens:
        assert other.stop is plain.stop
        return
    pairs = zip(plain.tokens, other.tokens, strict=False)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    assert position is not None, "one output is the beginning of the other"
    continuation = plain.tokens[:position]
    probed = engine.probe_margin(ProbeMargin(prompt=command.prompt, continuation=continuation))
    assert probed.margin <= 2 * probed.noise, f"lost at token {position}: {probed}"


def local_engine(
    on_event: Callable[[Event], None] = lambda _event: None,
) -> Engine:
    """An engine whose models are in this process, whose parts a test may set or watch."""
    return Engine(on_event, worker=LocalWorker())


def local_worker(engine: Engine | EngineThread) -> LocalWorker:
    thread = engine._thread if isinstance(engine, Engine) else engine
    if not isinstance(thread._worker, LocalWorker):
        pytest.skip("its models are in another process")
    return thread._worker


def have_models_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands load their models in this process, whose parts a test may set or watch."""
    monkeypatch.setattr("spectui.cli.session.ProcessWorker", LocalWorker)


SMALL_BATCH = ContextOptions(ctx_size=512, batch_size=64, ubatch_size=64, threads=1)
"""Prompts take several batches, and a layer with a window makes room as the text grows."""
ARCHITECTURES: dict[str, Callable[[Tiny, Path], None]] = {
    "llama": write_tiny,
    "cohere2": write_cohere2,
    "mamba": write_mamba,
    "lfm2": write_lfm2,
    "qwen35": write_qwen35,
}


@contextmanager
def engine_with(architecture: str, folder: Path) -> Iterator[Engine]:
    """With a target and, but for one that drafts for itself, a draft that is often wrong."""
    write, is_mtp = ARCHITECTURES[architecture], architecture == "qwen35"
    write(Tiny(), folder / "target.gguf")
    with local_engine() as started:
        options = ModelOptions(path=folder / "target.gguf")
        started.load_target(
            LoadTarget(options=options, context=SMALL_BATCH, max_draft=MAX_DRAFT, mtp=is_mtp)
        )
        if not is_mtp:
            write(Tiny(noise=0.1), folder / "draft.gguf")
            started.load_draft(ModelOptions(path=folder / "draft.gguf"))
        yield started
