"""Replay of n-gram drafters, alone or ahead of a draft model.

Alone they need no more than the text, so every trace answers for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence

from spectui.options.speculation import Speculation
from spectui.speculative.counters import RoundEnd
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import ChainedDrafter, Drafter, DraftModelDrafter, float32
from spectui.speculative.models import Outputs, can_forget, usable_snapshots
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter
from spectui.trace.costs import Costs
from spectui.trace.record import Chains, Recording, spread_out
from spectui.trace.replay import Grid, Outcome, Replay, Total, check_covered

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


def hashes_tokens(speculation: Speculation) -> bool:
    """Tell whether an n-gram drafter keeps tokens in slots by their numbers.

    Two n-grams in one slot are rare, but then drafts depend on it. So such drafters can only be
    replayed exactly on the vocabulary's own tokens, which a trace without text does not have.
    """
    return any(one.hashes_tokens for one in speculation.ngrams)


def replay_settings(
    recordings: Sequence[Recording],
    settings: Iterable[Speculation],
    costs: Costs | None = None,
    *,
    draft: str | None = None,
) -> tuple[Total, ...]:
    """Replay settings of n-gram drafters, alone or ahead of a draft model, on every recording.

    Counts are exact: a ``Decoder`` runs along each output.

    Args:
        recordings: recordings of a trace, all with the draft's chains.
        settings: settings to try.
        costs: costs of rounds with this draft, for the seconds; without one, of rounds with n-gram
            drafters. The target verifies every draft and the draft model follows it, but only the
            model's own chains take a chain's time. Costs of longer drafts than were measured are
            extrapolated from the last two.
        draft: name of the draft model; None where n-gram drafters are alone, which need no chains.

    Returns:
        A total per setting, in their order.

    Raises:
        ValueError: the chains do not answer for a setting.
    """
    found = list[Total]()
    for setting in settings:
        if (own := setting.model) is not None and draft is not None:
            grid = Grid(draft_max=(own.longest,), draft_p_min=(own.draft_p_min,))
            for recording in recordings:
                check_covered(grid, recording.chains[draft])
        prices = None if costs is None else costs.prices(setting.longest)
        replay = Replay(recordings, prices, 1)
        for answer, recording in enumerate(recordings):
            drafter, position = _drafter(recording, setting, draft), 0
            decoder = decoder_along(recording, drafter, n_snapshots=usable_snapshots(setting))
            for one in decoder.rounds(decoder.start(recording.prompt)):
                n_emitted, is_wrong = len(one.tokens), one.end is RoundEnd.MISMATCH
                counts = one.n_drafted, one.n_accepted, n_emitted, is_wrong, one.is_redone
                replay.add(answer, position, 0, one.n_steps, Outcome(*counts))
                position += n_emitted
        found += replay.totals(draft, (setting,), costs)
    return tuple(found)


def _drafter(recording: Recording, setting: Speculation, draft: str | None) -> Drafter:
    ngrams = [ngram_drafter(one) for one in setting.ngrams]
    if draft is None or setting.model is None:
        return ChainedDrafter(ngrams)
    chains = recording.chains[draft]
    # The clock stands still: times of a replay mean nothing.
    parts = RecordedDraft(recording, chains), setting.model, lambda: 0.0
    if chains.mtp_layers:
        return ChainedDrafter((*ngrams, MtpDrafter(*parts, n_layers=chains.mtp_layers)))
    return ChainedDrafter((*ngrams, DraftModelDrafter(*parts)))


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


def decoder_along(recording: Recording, drafter: Drafter, *, n_snapshots: int) -> Decoder:
    """A decoder that generates this output with ``drafter``, exactly; its times mean nothing.

    Args:
        recording: recording of a target.
        drafter: any.
        n_snapshots: snapshots of the target's state, that it may go back to where it has any.
    """
    target = RecordedTarget(recording, n_snapshots=n_snapshots)
    return Decoder(target, drafter, n_predict=recording.n_wanted, clock=lambda: 0.0)
