"""Replay of settings on recordings: what each would have drafted, had accepted, and taken."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spectui.options.drafters import DraftMtp, DraftSimple, Model
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Tally
from spectui.speculative.decoder import Stop, draft_cap
from spectui.speculative.models import can_forget
from spectui.trace.costs import Costs, Count, Prices, Vector
from spectui.trace.record import Chains, Recording, Tail, spread_out

_Ints = npt.NDArray[np.int64]

N_PARTS = 4
"""Parts that an answer is replayed in, so that some of its text can choose for the rest."""


class Grid(NamedTuple):
    """Every combination of three lists."""

    draft_max: tuple[int, ...]
    draft_min: tuple[int, ...] = (0,)
    draft_p_min: tuple[float, ...] = (0.0,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_p_min, n_max, n_min)."""
        return len(self.draft_p_min), len(self.draft_max), len(self.draft_min)

    def settings(self, *, mtp: bool) -> Iterator[DraftSimple | DraftMtp]:
        """Settings of a draft model, or of MTP layers, in the order of a replay's arrays."""
        drafter = DraftMtp if mtp else DraftSimple
        for p_min, longest, shortest in product(self.draft_p_min, self.draft_max, self.draft_min):
            yield drafter(draft_max=longest, draft_min=shortest, draft_p_min=p_min)


class Parts(NamedTuple):
    """Tokens and seconds, such as of answers with one setting by the parts that rounds begin in."""

    tokens: Vector
    """Emitted."""
    drafted: Vector
    accepted: Vector
    seconds: Vector
    """NaN without costs."""


def part_ends(n_decoded: int) -> tuple[int, ...]:
    """[n_parts]: positions of an answer where its parts end."""
    return tuple(round(n_decoded * (part + 1) / N_PARTS) for part in range(N_PARTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Tally):
    """Result of one setting on all recordings."""

    draft: str | None
    """Name of the draft model; None for an n-gram drafter."""
    speculation: Speculation
    """Settings of the draft model or the MTP layers if there is a draft."""
    n_decoded: int
    """Tokens that rounds emit."""
    off_s: float | None
    """Seconds of the target alone; None without costs."""
    parts: Parts = field(compare=False, repr=False)
    """The same by parts of the answers, [n_answers, n_parts]; seconds are NaN without costs."""

    @property
    def model(self) -> Model:
        """Options of the draft model or the MTP layers.

        Raises:
            ValueError: there is none.
        """
        model = self.speculation.model
        if model is None:
            raise ValueError(f"{self.speculation.own.kind} has no draft model")
        return model

    @property
    def seconds(self) -> float | None:
        """Seconds of all rounds; None without costs."""
        seconds = float(self.parts.seconds.sum())
        return None if math.isnan(seconds) else seconds

    @property
    def tokens_per_s(self) -> float | None:
        """Predicted decode throughput, None without costs."""
        return self.n_decoded / self.seconds if self.seconds else None

    @property
    def speedup(self) -> float | None:
        """Predicted throughput over the target's alone, None without costs."""
        return self.off_s / self.seconds if self.off_s and self.seconds else None


class Outcome(NamedTuple):
    """Outcomes of rounds that begin at one position: numbers, or arrays of one shape."""

    drafted: Count
    accepted: Count
    emitted: Count
    wrong: Count
    """Whether it ends in a mismatch."""
    redone: Count
    """Whether the target had to redo it."""


class Replay:
    """Counts and seconds of settings on recordings. All arrays end in [n_settings]."""

    def __init__(
        self, recordings: Sequence[Recording], prices: Prices | None, n_settings: int
    ) -> None:
        """Begin with no rounds.

        Args:
            recordings: outputs of the target.
            prices: prices of a round; None for no seconds.
            n_settings: settings that are replayed together.
        """
        self._recordings = recordings
        self._begins = [(len(one.prompt), part_ends(one.n_decoded)) for one in recordings]
        self._prices = prices
        self.n_rounds = np.zeros(n_settings, np.int64)
        self.counts = np.zeros((3, n_settings), np.int64)
        self.n_rejections, self.n_redone, self.n_steps = self.counts
        self.parts = np.zeros((4, len(recordings), N_PARTS, n_settings))
        """[4, n_recordings, n_parts, n_settings]: as ``Parts``."""
        if prices is None:
            self.parts[3] = np.nan

    def add(self, answer: int, position: int, here: Count, steps: Count, outcome: Outcome) -> None:
        """Count the rounds that begin at a position.

        Args:
            answer: number of the recording.
            position: of its output.
            here: settings whose rounds these are, without repetition.
            steps: decodes of the draft's chain in each.
            outcome: of each.
        """
        drafted, accepted, emitted, wrong, redone = outcome
        n_prompt, ends = self._begins[answer]
        seconds: Count = np.nan
        if self._prices is not None:
            price = self._prices.at(n_prompt + position)
            seconds = price.seconds(steps, drafted, accepted, emitted, wrong)
        self.n_rounds[here] += 1
        counts = wrong, redone, steps
        for row, more in zip(self.counts, counts, strict=True):
            row[here] += more
        part, sums = bisect_right(ends, position), (emitted, drafted, accepted, seconds)
        for of_parts, more in zip(self.parts, sums, strict=True):
            of_parts[answer, part, here] += more

    @property
    def whole(self) -> Parts:
        """Sums over the recordings: [n_settings]."""
        return Parts(*self.parts.sum(axis=(1, 2)))

    def totals(
        self, draft: str | None, settings: Iterable[Speculation], costs: Costs | None
    ) -> tuple[Total, ...]:
        """A total for each setting that was replayed.

        Args:
            draft: name of the draft model; None for n-gram drafters.
            settings: that were replayed.
            costs: costs of rounds, for the seconds of the target alone.
        """
        n_decoded = sum(recording.n_decoded for recording in self._recordings)
        off_s = None if costs is None else off_seconds(self._recordings, costs)
        whole = self.whole
        return tuple(
            Total(
                draft=draft,
                speculation=setting,
                n_rounds=int(self.n_rounds[index]),
                n_drafted=int(whole.drafted[index]),
                n_accepted=int(whole.accepted[index]),
                n_rejections=int(self.n_rejections[index]),
                n_redone=int(self.n_redone[index]),
                n_decoded=n_decoded,
                off_s=off_s,
                parts=Parts(*self.parts[..., index]),
            )
            for index, setting in enumerate(settings)
        )


def replay_trace(
    recordings: Sequence[Recording], draft: str, grid: Grid, costs: Costs | None = None
) -> tuple[Total, ...]:
    """Replay ``grid`` with one draft on every recording.

    Args:
        recordings: recordings of a trace, all with this draft's chains.
        draft: its name.
        grid: settings to try.
        costs: costs of rounds with this draft, for the seconds.

    Returns:
        A total per setting, in the order of ``grid.settings``.

    Raises:
        ValueError: the chains do not answer for a setting.
    """
    depth = max(recording.chains[draft].depth for recording in recordings)
    prices = None if costs is None else costs.prices(depth)
    replay = replay_grid(recordings, draft, grid, prices=prices)
    is_mtp = any(recording.chains[draft].mtp_layers for recording in recordings)
    settings = map(Speculation, grid.settings(mtp=is_mtp))
    return replay.totals(draft, settings, costs)


def replay_grid(
    recordings: Sequence[Recording],
    draft: str,
    grid: Grid,
    *,
    prices: Prices | None = None,
    cumulative: bool = False,
) -> Replay:
    """Replay every setting of ``grid``: the whole grid walks along each output together.

    At each position the settings that stand there do their round, and the others wait. Counts are
    exact: those of ``Decoder`` over the same tokens.

    Args:
        recordings: outputs of the target, all with the draft's chains.
        draft: name of the draft.
        grid: settings to try.
        prices: prices of a round, for the seconds.
        cumulative: ``draft_p_min`` is the floor of the product of a draft's probabilities, none of
            which is below the floor of the chains; llama.cpp's is that of each.

    Raises:
        ValueError: the chains do not answer for a setting.
        ValueError: the chains belong to another output.
    """
    of_p_min, of_max, of_min = np.indices(grid.shape).reshape(3, -1)
    p_min = np.array(grid.draft_p_min, np.float32)
    longest, shortest = np.array(grid.draft_max)[of_max], np.array(grid.draft_min)[of_min]
    replay = Replay(recordings, prices, len(longest))
    for answer, recording in enumerate(recordings):
        chains = recording.chains[draft]
        check_covered(grid._replace(draft_p_min=()) if cumulative else grid, chains)
        rounds = Rounds(recording, chains)
        floors = ascending_floors(rounds.rows, chains, cumulative=cumulative)
        begins = np.zeros(len(longest), np.int64)
        for position in range(recording.n_decoded):
            here = np.flatnonzero(begins == position)
            cap, most = rounds.bounds(position)
            bound = np.minimum(longest[here], most)
            sure = chains.depth - np.searchsorted(floors[position], p_min)
            chain = np.minimum(sure[of_p_min[here]], bound)
            steps = (chain + (chain < bound)) * (cap > 0)
            drafted = np.minimum(chain, cap) * (chain >= shortest[here])
            outcome = rounds.outcome(position, drafted)
            replay.add(answer, position, here, steps, outcome)
            begins[here] += outcome.emitted
    return replay


def check_covered(grid: Grid, chains: Chains) -> None:
    """Refuse settings that ``chains`` do not answer for.

    Raises:
        ValueError: a ``draft_max`` is longer than the chains, or below 1; a ``draft_p_min`` is
            above 0 and below their floor. No command asks for such settings.
    """
    is_long = not 1 <= min(grid.draft_max) <= max(grid.draft_max) <= chains.depth
    if is_long or any(0 < p_min < chains.floor for p_min in grid.draft_p_min):
        known = f"{chains.depth} tokens, with draft_p_min 0 or from {chains.floor:g} on"
        raise ValueError(f"{grid} was not recorded, but drafts of up to {known}")


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
        n_ctx, n_past = self._recording.n_ctx, self.n_past(position)
        n_remaining = self._recording.n_wanted - (position + 1)
        cap = max(0, draft_cap(n_ctx=n_ctx, n_past=n_past, n_remaining=n_remaining))
        # MTP layers draft as if context and budget were endless; their draft is cut afterwards.
        room = n_ctx - n_past if self._is_mtp else cap
        return min(cap, self._depth), min(room, self._longest)

    def outcome(self, position: int, drafted: _Ints) -> Outcome:
        """Outcomes of rounds that begin at a position, by the tokens of their drafts."""
        run = self._runs[position]
        accepted = np.minimum(drafted, run)
        emitted = accepted + 1
        wrong = accepted < drafted
        if self._ends_inside(position):
            # As ``accept``: the end of the text counts as accepted in the last place only, and
            # nothing is emitted after it.
            at_end = drafted >= run
            emitted -= at_end
            accepted -= drafted > run
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


def off_part_seconds(recordings: Sequence[Recording], part_tokens: Vector, costs: Costs) -> Vector:
    """[n_recordings, n_parts]: of the target alone for as many tokens of each part.

    Args:
        recordings: recordings of a trace.
        part_tokens: [n_recordings, n_parts].
        costs: costs that have the target alone.
    """
    after = part_tokens.cumsum(axis=1)
    first = np.array([[len(one.prompt)] for one in recordings])
    # Depths are consecutive, so that their mean is that of the first and the last.
    depth = first + (2 * after - part_tokens - 1) / 2
    found: Vector = costs.off_seconds(part_tokens, depth)
    return found


def off_seconds(recordings: Sequence[Recording], costs: Costs) -> float:
    """Seconds of the target alone for the tokens of all recordings."""
    n_decoded = np.array([one.n_decoded for one in recordings], float)
    return float(off_part_seconds(recordings, n_decoded[:, None], costs).sum())
