"""Forgetting rejected tokens: every way that llama.cpp has, for targets and drafts alike."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engine.commands import Generate, LoadTarget
from spectui.errors import CancelledError, DoesNotFitError
from spectui.llama.breakdown import memory_breakdown
from spectui.llama.context import Context
from spectui.llama.model import Model
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.models import Outputs, Rollback
from tests.support.architectures import write_lfm2
from tests.support.engine import ARCHITECTURES, ENDLESS, MAX_DRAFT, assert_lossless, local_engine
from tests.support.models import Tiny

NOISE = 0.05
"""Batches of another size move logits of up to 20 by a thousandth; a wrong state by units."""
N_SNAPSHOTS = 8
N_BEFORE = 320
"""More tokens than a layer with a window has room for: it has forgotten some."""
LONG = ContextOptions(ctx_size=1024, batch_size=64, ubatch_size=64, threads=1)
WRITERS: dict[str, Callable[[Tiny, Path], None]] = {
    **{name: write for name, write in ARCHITECTURES.items() if name != "qwen35"},
    "lfm2-window": partial(write_lfm2, window=32),
}
ATTENTION_ONLY = ("llama", "cohere2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target and a draft that is often wrong, of every architecture."""
    found = tmp_path_factory.mktemp("rollback")
    for name, write in WRITERS.items():
        write(Tiny(), found / f"{name}.gguf")
        write(Tiny(noise=0.1), found / f"{name}-draft.gguf")
    return found


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A context that is played with, and one to compare it with."""

    context: Context
    fresh: Context
    has_window: bool

    def expected(self, tokens: tuple[int, ...]) -> np.ndarray:
        """Logits after ``tokens`` of a context that has seen nothing else."""
        self.fresh.clear()
        self.fresh.decode(tokens, Outputs.LAST)
        return self.fresh.logits(0).copy()


CASES = [("llama", 0), ("cohere2", 0), ("mamba", 0), ("lfm2", 0), ("lfm2", N_SNAPSHOTS)]
CASES += [("lfm2-window", 0), ("lfm2-window", N_SNAPSHOTS)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def opened(folder: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    name, n_snapshots = request.param
    with (
        Model(ModelOptions(path=folder / f"{name}.gguf")) as model,
        Context(model, LONG, max_outputs=16, n_snapshots=n_snapshots) as context,
        Context(model, replace(LONG, swa_full=True), max_outputs=16) as fresh,
    ):
        assert context.rollback is kind(name, n_snapshots)
        assert context.n_past == 0
        has_window = name in ("cohere2", "lfm2-window")
        yield Opened(context=context, fresh=fresh, has_window=has_window)


def kind(name: str, n_snapshots: int) -> Rollback:
    if name in ATTENTION_ONLY:
        return Rollback.TRUNCATE
    return Rollback.SNAPSHOT if n_snapshots else Rollback.CHECKPOINT


def text_of(n: int) -> tuple[int, ...]:
    return tuple(5 + 7 * index % 190 for index in range(n))


steps = st.tuples(
    st.lists(st.integers(5, 200), min_size=1, max_size=12), st.booleans(), st.integers(0, 14)
)


@given(n_before=st.sampled_from((0, N_BEFORE)), rounds=st.lists(steps, min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_what_is_left_is_what_a_fresh_context_would_hold(
    opened: Opened, n_before: int, rounds: list[tuple[list[int], bool, int]]
) -> None:
    context = opened.context
    context.clear()
    # Only a window moves on; and the state of a random recurrent model overflows in a long text.
    if n_before and opened.has_window:
        context.decode(text_of(n_before), Outputs.NONE)
    for tokens, is_marked, n_forgotten in rounds:
        if is_marked:
            context.mark()
        context.decode(tokens, Outputs.LAST)
        context.truncate(max(0, context.n_past - n_forgotten))
        kept = tuple(context.tokens)
        context.decode((7,), Outputs.LAST)
        assert context.tokens == [*kept, 7]
        assert np.allclose(context.logits(0), opened.expected((*kept, 7)), atol=NOISE)


@pytest.mark.parametrize("is_aborted", [False, True])
def test_a_decode_that_ends_early_leaves_a_beginning_that_can_be_gone_on_from(
    opened: Opened, *, is_aborted: bool
) -> None:
    context = opened.context
    context.clear()
    n_before, text = (10, text_of(30)) if is_aborted else (40, text_of(N_BEFORE + 40))
    context.decode(text[:n_before], Outputs.LAST)
    context.mark()
    if is_aborted:
        opened.context.model.abort.set()
        with pytest.raises(CancelledError):
            context.decode(text[n_before:], Outputs.LAST)
        opened.context.model.abort.clear()
    else:
        # The last token is none: what came before it in other pieces has been decoded by then.
        with pytest.raises(DoesNotFitError):
            context.decode((*text[n_before:], 1 << 20), Outputs.NONE)
    n_past, n_kept = context.n_past, n_before + 10
    assert tuple(context.tokens) == text[:n_past]
    context.decode((*text[n_past:n_kept], 7), Outputs.LAST)
    assert np.allclose(context.logits(0), opened.expected((*text[:n_kept], 7)), atol=NOISE)


def test_a_saved_state_comes_back_whatever_was_marked_since(opened: Opened) -> None:
    context = opened.context
    context.clear()
    context.decode((10, 11, 12), Outputs.LAST)
    state = context.save()
    context.mark()
    context.decode((13, 14), Outputs.LAST)
    context.restore(state, (10, 11, 12))
    context.decode((15, 16), Outputs.LAST)
    context.truncate(4)
    context.decode((17,), Outputs.LAST)
    assert np.allclose(context.logits(0), opened.expected((10, 11, 12, 15, 17)), atol=NOISE)
    # Of a restored cache all is read again that its window lacks; far back costs time alone.
    context.clear()
    text = text_of(N_BEFORE + 100)
    context.decode(text, Outputs.NONE)
    context.restore(context.save(), text)
    context.truncate(60)
    context.decode((7,), Outputs.LAST)
    assert np.allclose(context.logits(0), opened.expected((*text[:60], 7)), atol=NOISE)


def a_segment(context: Context) -> np.ndarray:
    """Logits of 20 tokens and of rounds that accept a part of their draft."""
    found = []
    for token in range(30, 50):
        context.decode((token,), Outputs.ALL)
        found.append(context.logits(0).copy())
    for token in range(50, 100, 5):
        n_past = context.n_past
        context.mark()
        context.decode(range(token, token + 6), Outputs.ALL)
        found += [context.logits(index).copy() for index in range(6)]
        context.truncate(n_past + token % 6 + 1)
    return np.array(found)


@pytest.mark.parametrize("n_before", [1, 10, 170, N_BEFORE])
def test_what_was_decoded_ahead_and_forgotten_moves_no_bit_of_what_follows(
    opened: Opened, n_before: int
) -> None:
    context = opened.context

    def decoded(n_ahead: int) -> np.ndarray:
        context.clear()
        context.decode(text_of(n_before), Outputs.NONE)
        for _ in range(2):
            context.mark()
            for token in text_of(n_ahead):
                context.decode((token,), Outputs.LAST)
            context.truncate(n_before)
        return a_segment(context)

    assert context.n_ahead >= LONG.ubatch_size
    expected = decoded(0)
    for n_ahead in (1, 17, LONG.ubatch_size):
        assert (decoded(n_ahead) == expected).all()


PAIRS = [(target, draft, 3) for target in WRITERS for draft in dict.fromkeys(("llama", target))]
PAIRS += [("llama", "mamba", 3), ("lfm2", "cohere2", 3)]
# And with so long a prompt that windows have moved on.
PAIRS += [("llama", "cohere2", 50), ("lfm2-window", "lfm2-window", 50)]


@pytest.mark.parametrize(("target", "draft", "n_times"), PAIRS)
def test_output_is_the_targets_own_for_every_pair(
    folder: Path, target: str, draft: str, n_times: int
) -> None:
    prompt = (88, 102, 126, 263, 261, 109, 271) * n_times
    with local_engine() as engine:
        loaded = engine.load_target(
            LoadTarget(
                options=ModelOptions(path=folder / f"{target}.gguf"),
                context=LONG,
                max_draft=MAX_DRAFT,
            )
        )
        drafting = engine.load_draft(ModelOptions(path=folder / f"{draft}-draft.gguf"))
        # As in llama-server: without MTP layers nobody keeps snapshots.
        assert loaded.rollback is kind(target, n_snapshots=0)
        assert drafting.rollback is kind(draft, n_snapshots=0)
        command = Generate(prompt=prompt, n_predict=60, sampling=ENDLESS, reuse_prompt=True)
        plain = engine.generate(command)
        counted = Counters()
        for draft_max, p_min in ((1, 0.0), (4, 0.0), (16, 0.3)):
            speculation = Speculation(DraftSimple(draft_max=draft_max, draft_p_min=p_min))
            other = engine.generate(replace(command, speculation=speculation))
            assert_lossless(engine, command, plain, other)
            counted += other.counters
        assert counted.n_drafted > 0
        # Saving a state is a part of the rollback, where one is saved.
        assert (counted.mark_s > 0) is (loaded.rollback is not Rollback.TRUNCATE)
        assert counted.times.rollback_s >= counted.mark_s


def test_a_window_takes_less_memory_and_all_of_it_as_much_as_asked_for(folder: Path) -> None:
    with Model(ModelOptions(path=folder / "cohere2.gguf")) as model:
        sizes = []
        for swa_full in (False, True):
            options = replace(LONG, swa_full=swa_full)
            with Context(model, options, max_outputs=1) as context:
                sizes.append(
                    sum(share.cache_bytes for _device, share in memory_breakdown(context.c))
                )
    # Half of the layers slide, over 32 of 1024 tokens, and have cells for a micro-batch beside
    # them, in steps of 256.
    assert sizes[0] == sizes[1] * (1 + 256 / 1024) / 2
