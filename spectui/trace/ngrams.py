"""Replay of n-gram drafters, alone or asked before a draft model.

Alone they need no more than the text, so every trace answers for all of them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from spectui.errors import UsageError
from spectui.options.drafters import ModelDrafter
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, RoundEnd
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import ChainedDrafter, Drafter, DraftModelDrafter, float32
from spectui.speculative.models import Outputs, can_forget, usable_snapshots
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter
from spectui.trace.costs import Costs, Prices
from spectui.trace.grid import N_PARTS, Grid, Parts, check_covered, part_ends
from spectui.trace.record import Chains, Recording, spread_out
from spectui.trace.replay import Total, mean_past, off_seconds

NGRAM_COSTS = "ngram"
"""Among a trace's costs, those of rounds that no model drafts for."""


def ngram_costs(costs: Mapping[str, Costs]) -> Costs | None:
    """Return the costs of rounds with an n-gram drafter.

    Args:
        costs: costs of rounds in a trace, by draft.

    Returns:
        Those that were measured without a model or else, since verifying is the target's work
        alone, with the first draft; less all drafting. None where nothing was measured.
    """
    measured = costs.get(NGRAM_COSTS) or next(iter(costs.values()), None)
    return None if measured is None else measured.without_draft()


def costs_beside(costs: Mapping[str, Costs], draft: str | None) -> Costs | None:
    """Costs of rounds with a draft model, None for an n-gram drafter; None where not measured."""
    return ngram_costs(costs) if draft is None else costs.get(draft)


def hashes_tokens(speculation: Speculation) -> bool:
    """Tell whether an n-gram drafter keeps tokens in slots by their numbers.

    Two n-grams in one slot are rare, but then drafts depend on it. So such drafters can only be
    replayed exactly on the vocabulary's own tokens, which a trace without text does not have.
    """
    return any(one.hashes_tokens for one in speculation.ngrams)


def replay_ngrams(
    recordings: Sequence[Recording], settings: Iterable[Speculation], costs: Costs | None = None
) -> tuple[Total, ...]:
    """Replay n-gram settings on every recording.

    Counts are exact.

    Args:
        recordings: recordings of a trace; chains are not needed.
        settings: settings to try.
        costs: what rounds without a draft model cost, for the seconds. Drafts longer than the
            longest that was measured are taken to go on along the last line.

    Returns:
        A total per setting, in their order.

    Raises:
        UsageError: a setting drafts with a model.
    """
    found = []
    for setting in settings:
        if setting.model is not None:
            raise UsageError("this setting drafts with a model; replay it with the model's chains")
        found.append(_total(recordings, setting, None, costs))
    return tuple(found)


def replay_chained(
    recordings: Sequence[Recording],
    draft: str,
    settings: Iterable[Speculation],
    costs: Costs | None = None,
) -> tuple[Total, ...]:
    """Replay settings of a draft model with n-gram drafters ahead of it on every recording.

    Counts are exact.

    Args:
        recordings: recordings of a trace, all with this draft's chains.
        draft: its name.
        settings: settings to try.
        costs: what rounds with this draft cost, for the seconds. Whoever drafts, the target
            verifies and the draft model follows; only its own chains take a chain's time.

    Returns:
        A total per setting, in their order.

    Raises:
        UsageError: the chains do not answer for a setting.
    """
    found = []
    for setting in settings:
        for recording in recordings:
            check_covered(_covering(setting), recording.chains[draft])
        found.append(_total(recordings, setting, draft, costs))
    return tuple(found)


def _covering(setting: Speculation) -> Grid:
    """The numbers that a recording has to answer for."""
    model = setting.model
    p_min = 0.0 if model is None else model.draft_p_min
    return Grid(draft_max=(setting.own.longest,), draft_p_min=(p_min,))


def _total(
    recordings: Sequence[Recording],
    speculation: Speculation,
    draft: str | None,
    costs: Costs | None,
) -> Total:
    walks = [
        run_along(
            recording,
            _drafter(recording, speculation, draft),
            n_snapshots=usable_snapshots(speculation),
        )
        for recording in recordings
    ]
    rounds = list(chain.from_iterable(walks))
    mismatches = [one for one in rounds if one.end is RoundEnd.MISMATCH]
    batches = [0] * (speculation.longest + 1)
    for one in rounds:
        batches[one.n_drafted] += 1
    prices = None if costs is None else costs.prices(len(batches) - 1)
    return Total(
        draft=draft,
        speculation=speculation,
        n_rounds=len(rounds),
        n_drafted=sum(one.n_drafted for one in rounds),
        n_accepted=sum(one.n_accepted for one in rounds),
        n_rejections=len(mismatches),
        n_before_mismatch=sum(one.n_accepted for one in mismatches),
        n_redone=sum(one.is_redone for one in rounds),
        batches=tuple(batches),
        n_decoded=sum(recording.n_decoded for recording in recordings),
        mean_past=mean_past(recordings),
        off_s=None if costs is None else sum(off_seconds(recordings, costs)),
        parts=_parts(recordings, walks, prices),
    )


def _drafter(recording: Recording, speculation: Speculation, draft: str | None) -> Drafter:
    drafters = [ngram_drafter(one) for one in speculation.ngrams]
    own = speculation.model
    if draft is None or own is None:
        return drafters[0] if len(drafters) == 1 else ChainedDrafter(drafters)
    return ChainedDrafter((*drafters, _own_drafter(recording, own, draft)))


def _own_drafter(recording: Recording, own: ModelDrafter, draft: str) -> Drafter:
    chains = recording.chains[draft]
    # Of the time that passes here nothing is kept.
    given = RecordedDraft(recording, chains), own, lambda: 0.0
    if chains.mtp_layers:
        return MtpDrafter(*given, n_layers=chains.mtp_layers)
    return DraftModelDrafter(*given)


def _parts(
    recordings: Sequence[Recording], walks: Sequence[Sequence[Round]], prices: Prices | None
) -> Parts:
    found = np.zeros((4, len(recordings), N_PARTS))
    for row, (recording, rounds) in enumerate(zip(recordings, walks, strict=True)):
        ends, n_prompt, position = part_ends(recording.n_decoded), len(recording.prompt), 0
        for one in rounds:
            n_emitted = len(one.tokens)
            seconds = np.nan if prices is None else float(prices.of(one, n_prompt + position))
            place = row, bisect_right(ends, position)
            found[:, *place] += (n_emitted, one.n_drafted, one.n_accepted, seconds)
            position += n_emitted
    return Parts(*found)


class RecordedTarget:
    """Implements ``TargetModel`` for the one output that a recording holds."""

    def __init__(self, recording: Recording, *, n_snapshots: int) -> None:
        """Hold the prompt; what follows it is known.

        Args:
            recording: recording of a target.
            n_snapshots: snapshots of its state, that it may go back to where it has any.
        """
        self._rollback = recording.rollback
        self._n_snapshots = n_snapshots
        self._text = (*recording.prompt, *recording.output)
        self._ends = recording.stop is Stop.END_OF_GENERATION
        self._first_output = len(recording.prompt)
        self.n_ctx = recording.n_ctx
        self.n_past = len(recording.prompt)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Append tokens, drafted ones among them."""
        first = 1 if outputs is Outputs.ALL else len(tokens)
        self._first_output = self.n_past + first
        self.n_past += len(tokens)

    def mark(self) -> None:
        """Every position is as near as any other."""

    def truncate(self, n_past: int) -> None:
        """Forget all but the first ``n_past`` tokens."""
        self.n_past = n_past

    def sample(self, output: int) -> int:
        """The recorded token there."""
        return self._text[self._first_output + output]

    def can_forget(self, n_tokens: int) -> bool:
        """Whether the recorded target could forget ``n_tokens``."""
        return can_forget(self._rollback, n_tokens, self._n_snapshots)

    def is_eog(self, token: int) -> bool:
        """Whether the recording ended with ``token``: had it come before, it had ended there."""
        return self._ends and token == self._text[-1]


class RecordedDraft:
    """Implements ``DraftModel`` for the chains that a recording holds.

    It relies on chains beginning with a mark, as those of ``draft_chain`` do.
    """

    def __init__(self, recording: Recording, chains: Chains) -> None:
        """Hold the prompt; chains after every output token are known.

        Raises:
            ValueError: the chains belong to another output.
        """
        _runs, self._rows = spread_out(recording.output, chains)
        self._unknown = chains.unknown
        self._n_prompt = len(recording.prompt)
        self._marked = False
        self._began = 0
        """Tokens that were held when the chain had taken in the last emitted one."""
        self.n_ctx = recording.n_ctx
        self.n_past = len(recording.prompt)

    def mark(self) -> None:
        """A chain begins with the next decode."""
        self._marked = True

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:  # noqa: ARG002 - the protocol's
        """Append tokens."""
        self.n_past += len(tokens)
        if self._marked:
            self._began, self._marked = self.n_past, False

    def truncate(self, n_past: int) -> None:
        """Forget all but the first ``n_past`` tokens."""
        self.n_past = n_past

    def top(self) -> tuple[int, float]:
        """Next token of the chain, and its probability."""
        position, step = self._began - self._n_prompt - 1, self.n_past - self._began
        row = self._rows[position]
        if step >= len(row.tokens):
            return -1, self._unknown
        # Written with nine digits, and compared in single precision.
        return row.tokens[step], float32(row.probabilities[step])


def run_along(recording: Recording, drafter: Drafter, *, n_snapshots: int) -> list[Round]:
    """Rounds of a generation of this output with ``drafter``, exactly; their times mean nothing.

    Args:
        recording: recording of a target.
        drafter: any.
        n_snapshots: snapshots of the target's state, that it may go back to where it has any.
    """
    # An output that was cut off is replayed as if no more had been asked for.
    is_cut = recording.stop is Stop.CANCELLED
    decoder = Decoder(
        RecordedTarget(recording, n_snapshots=n_snapshots),
        drafter,
        n_predict=len(recording.output) if is_cut else recording.n_predict,
        clock=lambda: 0.0,
    )
    return list(decoder.rounds(decoder.start(recording.prompt)))
