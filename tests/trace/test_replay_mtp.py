"""Replay of a target's MTP layers, whose chains are no part of each other, against the loop."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.options.drafters import MTP_KIND, DraftMtp, NgramSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, count
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import ChainedDrafter
from spectui.speculative.models import Outputs, usable_snapshots
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter
from spectui.trace.chains import record_own_chains
from spectui.trace.file import check_trace
from spectui.trace.ngrams import replay_settings
from spectui.trace.record import Chains, Recording, bare, spread_out
from spectui.trace.replay import Grid, replay_grid, replay_trace
from tests.support.replay import (
    COSTS,
    DEPTH,
    FLOORS,
    SCENE,
    Scene,
    covered,
    record,
    repetitive_scenes,
    scenes,
)
from tests.support.replay import trace_of as trace_of_draft
from tests.support.scripted import N_VOCAB, ScriptedDraft, mix

GRID = Grid(draft_max=(1, 2, 4, DEPTH), draft_min=(0, 2, 3), draft_p_min=(0.0, 0.3, 0.6))
COUNTS = ("n_rounds", "n_drafted", "n_accepted", "n_rejections", "n_redone")
N_LAYERS = st.sampled_from([1, 3])
AHEAD = NgramSimple(size_n=1, size_m=3)


class ScriptedMtp(ScriptedDraft):
    """Says something else where it goes on from itself than where the target was before it."""

    n_steps = 0

    def mark(self) -> None:
        super().mark()
        self.n_steps = 0

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        super().decode(tokens, outputs)
        self.n_steps += outputs is Outputs.LAST

    def top(self) -> tuple[int, float]:
        token, probability = super().top()
        if self.n_steps > 1 and mix(self.output(0), "own", self.n_steps) % 3 == 0:
            return (token + self.n_steps) % N_VOCAB, probability / 2
        return token, probability


def layers_of(scene: Scene) -> ScriptedMtp:
    return ScriptedMtp(scene.n_ctx, scene.propose)


def record_mtp(scene: Scene, n_layers: int, floor: float = 0.0) -> tuple[Recording, Chains]:
    recording, _ = record(scene)
    target, layers = scene.target(), layers_of(scene)
    target.decode(scene.prompt, Outputs.LAST)
    layers.decode(scene.prompt, Outputs.NONE)
    chains = record_own_chains(
        target, layers, recording.output, depth=DEPTH, floor=floor, n_layers=n_layers
    )
    assert target.n_past == layers.n_past == len(scene.prompt) + len(recording.output) - 1
    return replace(recording, chains={MTP_KIND: chains}), chains


def run(scene: Scene, config: Speculation, n_layers: int) -> list[Round]:
    assert config.model is not None
    ngrams = [ngram_drafter(one) for one in config.ahead]
    mtp = MtpDrafter(layers_of(scene), config.model, lambda: 0.0, n_layers=n_layers)
    drafter = ChainedDrafter((*ngrams, mtp))
    decoder = Decoder(
        scene.target(usable_snapshots(config)),
        drafter,
        n_predict=scene.n_predict,
        clock=lambda: 0.0,
    )
    return list(decoder.rounds(decoder.start(scene.prompt)))


@settings(max_examples=60, deadline=None)
@given(scene=scenes(), n_layers=N_LAYERS, floor=FLOORS)
def test_every_setting_is_replayed_exactly(scene: Scene, n_layers: int, floor: float) -> None:
    recording, _chains = record_mtp(scene, n_layers, floor)
    grid = covered(GRID, floor)
    steps = replay_grid([recording], MTP_KIND, grid).n_steps
    for index, total in enumerate(replay_trace((recording,), MTP_KIND, grid)):
        assert total.speculation.is_mtp
        counted = count(run(scene, total.speculation, n_layers))
        for name in COUNTS:
            assert getattr(total, name) == getattr(counted, name), (name, total.speculation)
        assert steps[index] == counted.n_steps


@settings(max_examples=40, deadline=None)
@given(scene=repetitive_scenes(), n_layers=N_LAYERS, floor=st.sampled_from([0.0, 0.3]))
def test_behind_an_ngram_drafter_as_well(scene: Scene, n_layers: int, floor: float) -> None:
    recording, _chains = record_mtp(scene, n_layers, floor)
    own = (Speculation(DraftMtp(draft_max=n, draft_p_min=0.3)) for n in (1, DEPTH))
    for total in replay_settings(
        (recording,), [one.after((AHEAD,)) for one in own], draft=MTP_KIND
    ):
        counted = count(run(scene, total.speculation, n_layers))
        for name in COUNTS:
            assert getattr(total, name) == getattr(counted, name), (name, total.speculation)


@settings(max_examples=30, deadline=None)
@given(scene=scenes(), n_layers=N_LAYERS)
def test_a_setting_alone_takes_the_time_that_it_takes_in_a_grid(
    scene: Scene, n_layers: int
) -> None:
    recording, _chains = record_mtp(scene, n_layers)
    totals = replay_trace((recording,), MTP_KIND, GRID, COSTS)
    alone = replay_settings(
        (recording,), [one.speculation for one in totals], COSTS, draft=MTP_KIND
    )
    for one, other in zip(totals, alone, strict=True):
        assert one.seconds == pytest.approx(other.seconds)


def test_a_trace_keeps_them_without_text_and_refuses_what_cannot_be() -> None:
    recording, chains = record_mtp(SCENE, 1)
    drafts = trace_of_draft().drafts
    trace = replace(
        trace_of_draft(recording), drafts={MTP_KIND: drafts["draft"]}, costs={MTP_KIND: COSTS}
    )
    kept = bare(trace)
    check_trace(kept)
    renumbered = kept.recordings[0]
    runs = spread_out(recording.output, chains)[0]
    assert spread_out(renumbered.output, renumbered.chains[MTP_KIND])[0] == runs
    _recording, of_three = record_mtp(SCENE, 3)
    assert (of_three.depth, of_three.longest) == (DEPTH, 3)
    assert all(len(tail.tokens) == 2 for tail in of_three.tails)
    wrong = replace(chains, tails=chains.tails[1:])
    broken = replace(recording, chains={MTP_KIND: wrong})
    with pytest.raises(ValueError, match="another output"):
        check_trace(replace(trace, recordings=(broken,)))
