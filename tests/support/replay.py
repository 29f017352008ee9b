"""Scripted pairs, and their traces."""

from dataclasses import dataclass

from hypothesis import strategies as st

from spectui.options.setup import SamplingConfig
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import Drafter
from spectui.speculative.models import Outputs, Rollback
from spectui.trace.chains import record_chains
from spectui.trace.costs import Costs
from spectui.trace.record import Chains, ModelIdentity, Recording, Trace
from spectui.trace.replay import Grid
from tests.support.scripted import (
    EOG,
    Choose,
    Propose,
    ScriptedDraft,
    ScriptedTarget,
    Stream,
    hashed_draft,
    hashed_target,
    mix,
)

DEPTH = 6


@dataclass(frozen=True, kw_only=True)
class Scene:
    choose: Choose
    propose: Propose
    prompt: tuple[int, ...]
    n_ctx: int
    n_predict: int
    seed: int | None
    """Of the target's sampling, None for greedy."""
    rollback: Rollback = Rollback.TRUNCATE

    def target(self, n_snapshots: int = 0) -> ScriptedTarget:
        stream = None if self.seed is None else Stream(self.choose, self.seed)
        return ScriptedTarget(
            self.n_ctx,
            self.choose,
            eog=EOG,
            stream=stream,
            rollback=self.rollback,
            n_snapshots=n_snapshots,
        )

    def draft(self) -> ScriptedDraft:
        return ScriptedDraft(self.n_ctx, self.propose)

    def reading(self) -> ScriptedDraft:
        """The draft, which has read the prompt."""
        draft = self.draft()
        draft.decode(self.prompt, Outputs.LAST)
        return draft


SCENE = Scene(
    choose=hashed_target(1),
    propose=hashed_draft(hashed_target(1), 1, agreement=0.5),
    prompt=(1, 2),
    n_ctx=60,
    n_predict=10,
    seed=None,
)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    choose = hashed_target(draw(st.integers(0, 999)), eog_rate=draw(st.sampled_from([0.0, 0.05])))
    n_prompt = draw(st.integers(1, 6))
    return Scene(
        choose=choose,
        propose=hashed_draft(
            choose, draw(st.integers(0, 999)), agreement=draw(st.sampled_from([0.0, 0.6, 0.9, 1.0]))
        ),
        prompt=tuple(range(1, n_prompt + 1)),
        n_ctx=draw(st.integers(n_prompt + 2, 60)),
        n_predict=draw(st.sampled_from([-1, 1, 2, 5, 24, 40])),
        seed=draw(st.none() | st.integers(0, 99)),
        rollback=draw(st.sampled_from(Rollback)),
    )


@st.composite
def repetitive_scenes(draw: st.DrawFn) -> Scene:
    """Texts that mostly go on as they did after the same two tokens before."""
    seed, eog_rate = draw(st.integers(0, 999)), draw(st.sampled_from([0.0, 0.02]))
    surprising, n_words = draw(st.sampled_from([0.0, 0.05, 0.3])), draw(st.integers(2, 8))
    surprise = hashed_target(seed, eog_rate=eog_rate)

    def choose(prefix: tuple[int, ...]) -> int:
        if mix(prefix, "surprise", seed) < surprising * 2**32:
            return surprise(prefix)
        return 1 + mix(prefix[-2:], "habit", seed) % n_words

    n_prompt = draw(st.integers(1, 30))
    return Scene(
        choose=choose,
        propose=hashed_draft(choose, seed, agreement=0.5),
        prompt=tuple(1 + index % (n_words + 1) for index in range(n_prompt)),
        n_ctx=draw(st.integers(n_prompt + 2, 120)),
        n_predict=draw(st.sampled_from([-1, 1, 2, 24, 60])),
        seed=draw(st.none() | st.integers(0, 99)),
        rollback=draw(st.sampled_from(Rollback)),
    )


FLOORS = st.sampled_from([0.0, 0.3, 0.5, 2.0])
"""Least ``draft_p_min`` above 0 that chains answer for."""


def covered(grid: Grid, floor: float) -> Grid:
    """The settings of a grid that chains with a floor answer for."""
    return grid._replace(draft_p_min=tuple(p for p in grid.draft_p_min if not 0 < p < floor))


def record(scene: Scene, floor: float = 0.0) -> tuple[Recording, Chains]:
    target = scene.target()
    decoder = Decoder(target, Drafter(), n_predict=scene.n_predict, clock=lambda: 0.0)
    output = [decoder.start(scene.prompt)]
    for finished in decoder.rounds(output[0]):
        output += finished.tokens
    chains = record_chains(scene.reading(), output, depth=DEPTH, floor=floor)
    assert decoder.stop is not None
    recording = Recording(
        id="x",
        category="code",
        prompt=scene.prompt,
        output=tuple(output),
        stop=decoder.stop,
        n_predict=scene.n_predict,
        n_ctx=scene.n_ctx,
        chains={"draft": chains},
        rollback=scene.rollback,
    )
    return recording, chains


TARGET = ModelIdentity(file="target.gguf", arch="llama", n_params=10, size_bytes=40, n_vocab=24)
DRAFT = ModelIdentity(file="draft.gguf", arch="llama", n_params=1, size_bytes=4, n_vocab=24)
COSTS = Costs(
    n_past=100.0,
    lengths=(0, 1, 2, 4, 6),
    verify_s=(0.05, 0.052, 0.055, 0.06, 0.08),
    verify_growth_s=(0.000005, 0.000006, 0.000007, 0.000009, 0.000012),
    again_s=(0.004, 0.005, 0.006, 0.007, 0.008),
    again_growth_s=(0.0, 0.000001, 0.000002, 0.000003, 0.000004),
    step_s=0.005,
    step_growth_s=0.000001,
    token_s=0.0005,
    fixed_s=0.0002,
    off_s=0.049,
    rollback_s=0.0001,
    rollback_token_s=0.00002,
    off_growth_s=0.000005,
)


def trace_of(*recordings: Recording) -> Trace:
    return Trace(
        spectui="0.1.0",
        recorded="2026-11-21T10:00:00Z",
        machine="m",
        llama_cpp=("0.3.36", "b1"),
        target=TARGET,
        drafts={"draft": DRAFT},
        sampling=SamplingConfig(temp=0.0),
        costs={"draft": COSTS},
        has_text=True,
        recordings=recordings,
    )
