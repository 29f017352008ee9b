"""Rounds of a streamed answer: what was drafted, accepted and emitted, and how long it took."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from spectui.server.replies import Timings

STREAMED = {"stream": True, "timings_per_token": True}
"""Fields of a request whose answer tells its rounds."""
_DATA = b"data:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of an answer; without a draft, one token."""

    n_drafted: int
    n_accepted: int
    n_emitted: int
    """Tokens accepted and one more, unless the text ends within them."""
    seconds: float


class _Chunk(msgspec.Struct):
    timings: Timings


def read_rounds(content: bytes) -> tuple[Round, ...]:
    """Read the rounds of an answer that was asked for with ``STREAMED``.

    Raises:
        msgspec.MsgspecError: it tells no times, or is no such answer.
    """
    lines = content.splitlines()
    chunks = [line.removeprefix(_DATA) for line in lines if line.startswith(_DATA)]
    if not chunks:
        raise msgspec.ValidationError("it is no stream")
    return tuple(_rounds([msgspec.json.decode(chunk, type=_Chunk).timings for chunk in chunks]))


def _rounds(timings: Sequence[Timings]) -> Iterator[Round]:
    # The first token comes with the prompt.
    before, n_before = Timings(predicted_n=1, predicted_ms=0.0, prompt_ms=0.0), 1
    # All tokens of a round come at one time.
    for after in {one.predicted_ms: one for one in timings if one.predicted_n > 1}.values():
        n_accepted = after.n_accepted - before.n_accepted
        n_drafted = after.n_drafted - before.n_drafted
        # Tokens that end within a character are withheld: those at the end of a round are counted
        # with the next one's, and of a round that has no others nothing is told.
        n_rounds = max(1, after.predicted_n - n_before - n_accepted)
        seconds = (after.predicted_ms - before.predicted_ms) / 1000 / n_rounds
        for n in range(n_rounds):
            accepted = n_accepted if n == n_rounds - 1 else 0
            yield Round(
                n_drafted=(n_drafted + n) // n_rounds,
                n_accepted=accepted,
                n_emitted=min(accepted + 1, timings[-1].predicted_n - n_before),
                seconds=seconds,
            )
            n_before += accepted + 1
        before = after
