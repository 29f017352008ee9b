"""Replay of a draft model: what every setting of a grid would have drafted and had accepted.

The whole grid walks along the output together. At each position the settings that stand there do
their round, and the others wait. Counts are small integers in arrays, so that a position costs
some nanoseconds per setting.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spectui.errors import UsageError
from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.speculative.decoder import Stop, draft_cap
from spectui.speculative.models import can_forget
from spectui.trace.costs import Prices, Vector
from spectui.trace.record import Chains, Recording, Tail, spread_out

Counts = npt.NDArray[np.uint32]
"""[n_p_min, n_max, n_min]"""
Seconds = npt.NDArray[np.float64]
"""[n_p_min, n_max, n_min]"""
_Flags = npt.NDArray[np.bool_]
_Small = npt.NDArray[np.uint8]

N_PARTS = 4
"""Parts that an answer is replayed in, so that some of its text can choose for the rest."""


COUNTS = (
    *("n_rounds", "n_drafted", "n_accepted", "n_rejections", "n_before_mismatch", "n_redone"),
    "n_steps",
)
"""Counts of ``Replayed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Every combination of three lists."""

    draft_max: tuple[int, ...]
    draft_min: tuple[int, ...] = (0,)
    draft_p_min: tuple[float, ...] = (0.0,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_p_min, n_max, n_min), as all arrays of a replay."""
        return len(self.draft_p_min), len(self.draft_max), len(self.draft_min)

    def settings(self, *, mtp: bool) -> Iterator[DraftSimple | DraftMtp]:
        """Settings of a draft model, or of MTP layers, in the order of the flattened arrays."""
        drafter = DraftMtp if mtp else DraftSimple
        for p_min, longest, shortest in product(self.draft_p_min, self.draft_max, self.draft_min):
            yield drafter(draft_max=longest, draft_min=shortest, draft_p_min=p_min)


class Parts(NamedTuple):
    """Answers with one setting, by the parts that their rounds begin in: [n_answers, n_parts]."""

    tokens: Vector
    """Emitted."""
    drafted: Vector
    accepted: Vector
    seconds: Vector
    """NaN without costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Results of a grid on one recording. All arrays are [n_p_min, n_max, n_min]."""

    n_rounds: Counts
    n_drafted: Counts
    n_accepted: Counts
    n_rejections: Counts
    """Rounds that ended in a mismatch."""
    n_before_mismatch: Counts
    """Accepted tokens of those rounds."""
    n_redone: Counts
    """Rounds that the target had to redo."""
    n_steps: Counts
    """Decodes of the draft chain."""
    batches: Counts | None
    """[depth + 1, n_p_min, n_max, n_min]: rounds by drafted tokens; None if not asked for."""
    parts: Seconds
    """[n_parts, 4, n_p_min, n_max, n_min]: as ``Parts``, of each part of the answer."""

    @property
    def seconds(self) -> Seconds:
        """Seconds of the whole answer; NaN without prices."""
        seconds: Seconds = self.parts[:, -1].sum(axis=0)
        return seconds


def part_ends(n_decoded: int) -> tuple[int, ...]:
    """[n_parts]: positions of an answer where its parts end."""
    return tuple(round(n_decoded * (part + 1) / N_PARTS) for part in range(N_PARTS))


def replay_grid(
    recording: Recording,
    chains: Chains,
    grid: Grid,
    *,
    prices: Prices | None = None,
    batches: bool = False,
    cumulative: bool = False,
) -> Replayed:
    """Replay every setting of ``grid``.

    Counts are exact: those of ``Decoder`` over the same tokens.

    Args:
        recording: the target's output.
        chains: chains of the draft, for this output.
        grid: settings to try.
        prices: prices of a round, for ``seconds``.
        batches: also count rounds by the length of their draft.
        cumulative: ``draft_p_min`` is the floor of the product of a draft's probabilities, none of
            which is below the floor of ``chains``; llama.cpp's is that of each.

    Raises:
        UsageError: the chains do not answer for a setting.
        ValueError: the chains belong to another output.
    """
    check_covered(replace(grid, draft_p_min=()) if cumulative else grid, chains)
    return _Walk(recording, chains, grid, prices, with_batches=batches, cumulative=cumulative).run()


def check_covered(grid: Grid, chains: Chains) -> None:
    """Refuse settings that ``chains`` do not answer for.

    Raises:
        UsageError: a ``draft_max`` is longer than the chains, or below 1; a ``draft_p_min`` is
            above 0 and below their floor.
    """
    if any(0 < p_min < chains.floor for p_min in grid.draft_p_min):
        raise UsageError(
            f"this recording answers for draft_p_min 0 and from {chains.floor:g} on; record a trace"
        )
    if not grid.draft_max or min(grid.draft_max) < 1:
        raise UsageError("draft_max must be at least 1; to run without a draft, give no draft")
    if max(grid.draft_max) > chains.depth:
        raise UsageError(
            f"draft_max {max(grid.draft_max)} is longer than the {chains.depth} tokens that this "
            "trace was recorded for; record it again with a larger --draft-max"
        )


class Outcome(NamedTuple):
    """Outcomes of rounds that begin at one position, for drafts of several lengths.

    All have one shape, and are 0 where no round begins.
    """

    drafted: _Small
    accepted: _Small
    emitted: _Small
    wrong: _Flags
    """Whether it ends in a mismatch."""
    redone: _Flags
    """Whether the target had to redo it."""


class Rounds:
    """Rounds of one output with drafts of any length: their bounds and outcomes."""

    def __init__(self, recording: Recording, chains: Chains) -> None:
        """Spread the chains out.

        Args:
            recording: the target's output.
            chains: chains of the draft, for this output.

        Raises:
            ValueError: the chains belong to another output.
        """
        self._recording = recording
        self._runs, self.rows = spread_out(recording.output, chains)
        self._depth = chains.depth
        self._longest = chains.longest
        self._is_mtp = chains.mtp_layers > 0
        # MTP layers draft no more than there are snapshots.
        self._redoes = not can_forget(recording.rollback, 1, int(self._is_mtp))

    def n_past(self, position: int) -> int:
        """Tokens in the cache when a round begins at a position."""
        return len(self._recording.prompt) + position

    def bounds(self, position: int) -> tuple[int, int]:
        """The most tokens of a round's draft, and the longest chain behind it."""
        recording = self._recording
        n_output, n_past = len(recording.output), self.n_past(position)
        # An output that was cut off is replayed as if no more had been asked for.
        n_predict = n_output if recording.stop is Stop.CANCELLED else recording.n_predict
        cap = draft_cap(
            n_ctx=recording.n_ctx, n_past=n_past, n_remaining=n_predict - (position + 1)
        )
        cap = max(0, cap)
        # MTP layers draft as if context and budget were endless; their draft is cut afterwards.
        room = recording.n_ctx - n_past if self._is_mtp else cap
        return min(cap, self._depth), min(room, self._longest)

    def outcome(self, position: int, drafted: _Small, here: _Flags) -> Outcome:
        """Outcome of rounds that begin at a position.

        Args:
            position: of the output.
            drafted: tokens of the drafts; 0 where no round begins.
            here: whether one begins.
        """
        run = min(self._runs[position], self._depth)
        accepted = np.minimum(drafted, np.uint8(run))
        emitted = accepted + here
        wrong = accepted < drafted
        if self._ends_inside(position):
            # As ``accept``: the end of the text counts as accepted in the last place only, and
            # nothing is emitted after it.
            at_end = (drafted >= run) & here
            emitted -= at_end
            accepted -= (drafted > run) & here
            wrong &= ~at_end
        redone = wrong & self._redoes
        if self._redoes and self._recording.stop is Stop.END_OF_GENERATION:
            # Nothing follows the end of the text, which the target wanted in place of a draft's.
            redone &= accepted != len(self._recording.output) - 2 - position
        emitted += redone
        return Outcome(drafted, accepted, emitted, wrong, redone)

    def _ends_inside(self, position: int) -> bool:
        """Whether a long enough draft from here would hold the end of the text, and be right."""
        recording = self._recording
        n_left = len(recording.output) - 1 - position
        ends = recording.stop is Stop.END_OF_GENERATION
        return ends and self._runs[position] == n_left <= self._depth


class _Walk:
    """One grid on its way along one output."""

    def __init__(
        self,
        recording: Recording,
        chains: Chains,
        grid: Grid,
        prices: Prices | None,
        *,
        with_batches: bool,
        cumulative: bool,
    ) -> None:
        self._n_decoded = recording.n_decoded
        self._prices = prices
        self._rounds_of = Rounds(recording, chains)
        self._floors = ascending_floors(self._rounds_of.rows, chains, cumulative=cumulative)
        self._depth = chains.depth
        self._p_min = np.asarray(grid.draft_p_min, np.float32)
        self._max = np.asarray(grid.draft_max, np.uint8)[None, :, None]
        self._min = np.asarray(grid.draft_min, np.uint32).clip(0, 255).astype(np.uint8)
        # Sixteen bits where they suffice: twice as many settings per instruction.
        enough = len(recording.output) * (chains.depth + 1) < np.iinfo(np.uint16).max
        dtype = np.uint16 if enough else np.uint32
        self._next = np.zeros(grid.shape, dtype)
        self._counts = {name: np.zeros(grid.shape, dtype) for name in COUNTS}
        self._batches = np.zeros((chains.depth + 1, *grid.shape), dtype) if with_batches else None
        self._seconds = np.full(grid.shape, np.nan if prices is None else 0.0)
        self._at_ends: list[Seconds] = []
        """[4, n_p_min, n_max, n_min]: sums of ``Parts``, at the beginning and each part's end."""

    def run(self) -> Replayed:
        begin = 0
        self._end_part()
        for end in part_ends(self._n_decoded):
            for position in range(begin, end):
                self._step(position)
            begin = end
            self._end_part()
        return Replayed(
            **{name: count.astype(np.uint32) for name, count in self._counts.items()},
            batches=None if self._batches is None else self._batches.astype(np.uint32),
            parts=np.diff(self._at_ends, axis=0),
        )

    def _end_part(self) -> None:
        counts = (self._next, self._counts["n_drafted"], self._counts["n_accepted"])
        self._at_ends.append(np.array((*counts, self._seconds), np.float64))

    def _step(self, position: int) -> None:
        here: _Flags = self._next == position
        cap, most = self._rounds_of.bounds(position)
        longest = np.minimum(self._max, most).astype(np.uint8)
        confident = self._depth - np.searchsorted(self._floors[position], self._p_min)
        chain = np.minimum(confident.astype(np.uint8)[:, None, None], longest)
        steps = (chain + (chain < longest)).astype(np.uint8) if cap > 0 else np.zeros_like(chain)
        drafted = np.minimum(chain, np.uint8(cap)) * (chain >= self._min) * here
        outcome = self._rounds_of.outcome(position, drafted, here)
        self._count(here, steps * here, outcome)
        if self._prices is not None:
            price = self._prices.at(self._rounds_of.n_past(position))
            self._seconds += price.seconds(steps, *outcome[:4]) * here

    def _count(self, here: _Flags, steps: _Small, outcome: Outcome) -> None:
        drafted, accepted, emitted, wrong, redone = outcome
        counts = here, drafted, accepted, wrong, accepted * wrong, redone, steps
        for sums, more in zip(self._counts.values(), counts, strict=True):
            np.add(sums, more, out=sums)
        self._next += emitted
        if self._batches is not None:
            for length in range(self._depth + 1):
                self._batches[length] += here & (drafted == length)


def ascending_floors(
    rows: Sequence[Tail], chains: Chains, *, cumulative: bool = False
) -> npt.NDArray[np.float32]:
    """[n_output, depth]: lowest probability up to each place of a chain, longest chain first.

    A chain goes on as long as no token is below the floor, so its length under ``draft_p_min`` is
    the number of entries that are not below it.

    Args:
        rows: [n_output]: each position's chain.
        chains: of which they are.
        cumulative: the product of the probabilities up to each place in place of the lowest one;
            no token is below the floor of ``chains``.
    """
    found = np.full((len(rows), chains.depth), chains.unknown, np.float32)
    for row, chain in zip(found, rows, strict=True):
        row[: len(chain.probabilities)] = chain.probabilities
    least = np.minimum.accumulate(found, axis=1)
    if cumulative:
        together = np.multiply.accumulate(np.abs(found), axis=1)
        least = np.where(least < chains.floor, np.float32(chains.unknown), together)
    return np.ascontiguousarray(least[:, ::-1])
