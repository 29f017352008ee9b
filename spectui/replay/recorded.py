"""Models that say what was recorded: any drafter can run along them, and none is loaded."""

from collections.abc import Sequence

from spectui.replay.trace import Chains, Recording, spread
from spectui.speculative.counters import Round
from spectui.speculative.decoder import Decoder, Stop
from spectui.speculative.drafters import Drafter, float32
from spectui.speculative.models import Outputs
from spectui.speculative.rollback import can_forget


class RecordedTarget:
    """Implements ``TargetModel`` for the one output that a recording holds."""

    def __init__(self, recording: Recording, *, n_snapshots: int) -> None:
        """Hold the prompt; what follows it is known.

        Args:
            recording: of a target.
            n_snapshots: of its state, that it may go back to where it has any.
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
        """As the recorded target."""
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
        self._proposals = spread(recording.output, chains)
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
        proposals = self._proposals
        if step >= len(proposals.tokens[position]):
            # As the grid has it: where a chain was cut off, it ended below every floor.
            return -1, -1.0
        # Written with nine digits, and compared in single precision.
        probability = float32(proposals.probabilities[position][step])
        return proposals.tokens[position][step], probability


def run_along(recording: Recording, drafter: Drafter, *, n_snapshots: int) -> list[Round]:
    """Rounds of a generation of this output with ``drafter``, exactly; their times mean nothing.

    Args:
        recording: of a target.
        drafter: any.
        n_snapshots: of the target's state, that it may go back to where it has any.
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
