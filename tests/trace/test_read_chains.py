"""Chains that are read in batches are those that are recorded token by token."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import CancelledError
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import Drafter
from spectui.speculative.models import Outputs, Row
from spectui.trace.chains import can_read, read_chains, record_chains
from spectui.trace.record import Chains
from tests.support.replay import FLOORS, SCENE, Scene, scenes
from tests.support.scripted import DisciplineError, Prefix, Propose, ScriptedDraft


class ScriptedBatchedDraft(ScriptedDraft):
    """Holds several sequences, and counts their cells."""

    def __init__(
        self, n_ctx: int, propose: Propose, *, n_sequences: int, max_outputs: int = 4
    ) -> None:
        super().__init__(n_ctx, propose)
        self.n_cells = n_ctx
        self.n_sequences = n_sequences
        self.max_outputs = max_outputs
        self._others: dict[int, list[int]] = {}
        self._n_shared: dict[int, int] = {}
        self.n_rows: list[int] = []

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        if outputs is Outputs.ALL and len(tokens) > self.max_outputs:
            raise DisciplineError(f"logits of {len(tokens)} tokens")
        super().decode(tokens, outputs)

    def copy_to(self, sequence: int, n_past: int) -> None:
        if not 1 <= sequence < self.n_sequences or sequence in self._others:
            raise DisciplineError(f"sequence {sequence} cannot begin")
        self._others[sequence] = self.tokens[:n_past]
        self._n_shared[sequence] = n_past

    def drop(self, sequence: int) -> None:
        del self._others[sequence], self._n_shared[sequence]

    def decode_each(self, rows: Sequence[Row]) -> None:
        found: list[Prefix] = []
        for row in rows:
            text = self._others[row.sequence]
            if row.position != len(text) or row.position >= self.n_ctx:
                raise DisciplineError(f"position {row.position} after {len(text)} tokens")
            text.append(row.token)
            found.append(tuple(text))
        n_own = sum(len(text) - self._n_shared[one] for one, text in self._others.items())
        if self.n_past + n_own > self.n_cells:
            raise DisciplineError(f"{self.n_past} and {n_own} cells of {self.n_cells}")
        if len({row.sequence for row in rows}) != len(rows):
            raise DisciplineError("two tokens of a sequence in a batch")
        self._outputs = tuple(found)
        self.n_rows.append(len(rows))

    def tops(self) -> list[tuple[int, float]]:
        return [self._propose(output) for output in self._outputs]

    def chances(self, tokens: Sequence[int]) -> list[float]:
        return [
            p if token == top else 0.0 for token, (top, p) in zip(tokens, self.tops(), strict=False)
        ]


def written(scene: Scene) -> list[int]:
    decoder = Decoder(scene.target(), Drafter(), n_predict=scene.n_predict, clock=lambda: 0.0)
    output = [decoder.start(scene.prompt)]
    for finished in decoder.rounds(output[0]):
        output += finished.tokens
    return output


def _coming(chains: Chains, output: Sequence[int]) -> Iterator[tuple[int, float, int]]:
    yield from zip(chains.tokens, chains.probabilities, output[1:], strict=False)


@given(
    scenes(),
    st.integers(1, 8),
    FLOORS,
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from([1, 4, 100]),
)
def test_what_is_read_is_what_is_recorded(
    scene: Scene, depth: int, floor: float, n_sequences: int, max_outputs: int
) -> None:
    output = written(scene)
    draft = ScriptedBatchedDraft(
        scene.n_ctx, scene.propose, n_sequences=n_sequences, max_outputs=max_outputs
    )
    if not can_read(draft, len(scene.prompt) + len(output), depth):
        return
    draft.decode(scene.prompt, Outputs.LAST)
    chains = read_chains(draft, output, depth=depth, floor=floor)
    recorded = record_chains(scene.reading(), output, depth=depth, floor=floor)
    assert replace(chains, of_output=()) == recorded
    right = [p if token == coming else 0.0 for token, p, coming in _coming(chains, output)]
    assert list(chains.of_output) == [*right, 0.0]
    assert draft.tokens == [*scene.prompt, *output]
    assert draft._others == {}


def test_several_tails_are_decoded_at_once() -> None:
    output = written(SCENE)
    for n_sequences, n_at_once in ((2, 1), (4, 3), (100, 4)):
        draft = ScriptedBatchedDraft(
            SCENE.n_ctx, SCENE.propose, n_sequences=n_sequences, max_outputs=5
        )
        draft.decode(SCENE.prompt, Outputs.LAST)
        read_chains(draft, output, depth=6)
        # The prompt, and ten tokens five at once.
        assert draft.n_decodes == 3
        assert max(draft.n_rows) == n_at_once


@pytest.mark.parametrize(("n_sequences", "n_text"), [(1, 10), (8, 55)])
def test_a_draft_without_room_is_not_read(n_sequences: int, n_text: int) -> None:
    draft = ScriptedBatchedDraft(60, SCENE.propose, n_sequences=n_sequences)
    assert not can_read(draft, n_text, 6)


@pytest.mark.parametrize("n_asked", [1, 2, 3])
def test_reading_can_be_cancelled(n_asked: int) -> None:
    output = written(SCENE)
    calls = itertools.count(1)

    def check() -> None:
        if next(calls) == n_asked:
            raise CancelledError("stopped")

    draft = ScriptedBatchedDraft(SCENE.n_ctx, SCENE.propose, n_sequences=8, max_outputs=5)
    draft.decode(SCENE.prompt, Outputs.LAST)
    with pytest.raises(CancelledError):
        read_chains(draft, output, depth=6, check=check)
    assert draft._others == {}
