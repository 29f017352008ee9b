"""Scripted models for the speculative loop: exact, fast, and strict about how they are driven.

Both implement the protocols of ``spectui.speculative.models``. What they answer is a function of
their whole cache, so that a wrong token anywhere in it changes the output, and any use that the
native models would punish (or silently get wrong) raises ``DisciplineError``.
"""

import hashlib
import random
from collections.abc import Callable, Sequence

from spectui.speculative.models import Outputs, Rollback, can_forget

Prefix = tuple[int, ...]
Choose = Callable[[Prefix], int]
Propose = Callable[[Prefix], tuple[int, float]]

N_VOCAB = 24
"""Small enough that wrong guesses are sometimes right by chance, as real ones are."""
EOG = 0
_SCALE = 1 << 32


class DisciplineError(AssertionError):
    """The loop used a model in a way that it must not."""


class ScriptedSequence:
    """A cache that holds its tokens, and the prefixes whose outputs were asked for."""

    def __init__(self, n_ctx: int) -> None:
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self.n_decodes = 0
        self.n_decoded_tokens = 0
        self.marked_at = 0
        self._outputs: tuple[Prefix, ...] = ()

    @property
    def n_past(self) -> int:
        return len(self.tokens)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        if not tokens:
            raise DisciplineError("a decode of no tokens")
        if self.n_past + len(tokens) > self.n_ctx:
            raise DisciplineError(
                f"{len(tokens)} tokens after {self.n_past} overflow a context of {self.n_ctx}"
            )
        start = self.n_past
        self.tokens += tokens
        self.n_decodes += 1
        self.n_decoded_tokens += len(tokens)
        first = {Outputs.ALL: start, Outputs.LAST: self.n_past - 1, Outputs.NONE: self.n_past}[
            outputs
        ]
        self._outputs = tuple(tuple(self.tokens[: end + 1]) for end in range(first, self.n_past))

    def mark(self) -> None:
        self.marked_at = self.n_past

    def truncate(self, n_past: int) -> None:
        if not 0 <= n_past <= self.n_past:
            raise DisciplineError(f"truncated from {self.n_past} tokens to {n_past}")
        del self.tokens[n_past:]
        self._outputs = ()

    def output(self, index: int) -> Prefix:
        """Return the prefix whose next token output ``index`` of the last decode predicts."""
        if not 0 <= index < len(self._outputs):
            raise DisciplineError(f"output {index} of {len(self._outputs)} was never asked for")
        return self._outputs[index]


class ScriptedTarget(ScriptedSequence):
    """Chooses by ``choose``; with a ``stream``, one draw per sample decides as well."""

    def __init__(
        self,
        n_ctx: int,
        choose: Choose,
        *,
        eog: int | None = EOG,
        stream: "Stream | None" = None,
        rollback: Rollback = Rollback.TRUNCATE,
        n_snapshots: int = 0,
    ) -> None:
        super().__init__(n_ctx)
        self._choose = choose
        self._eog = eog
        self._stream = stream
        self._next_output = 0
        self._rollback = rollback
        self._n_snapshots = n_snapshots
        self._n_sampled = 0
        """Tokens of the text that were sampled: of a batch that is redone the last one is new."""

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        super().decode(tokens, outputs)
        self._next_output = 0

    def can_forget(self, n_tokens: int) -> bool:
        return can_forget(self._rollback, n_tokens, self._n_snapshots)

    def truncate(self, n_past: int) -> None:
        n_rejected = self.n_past - n_past
        if not self.can_forget(n_rejected) and self.marked_at is None:
            raise DisciplineError(f"{n_rejected} tokens cannot be forgotten, and no mark was set")
        super().truncate(n_past)

    def sample(self, output: int) -> int:
        is_redone = self.n_past - len(self._outputs) + 1 + output <= self._n_sampled
        if is_redone or (output != self._next_output and output + 1 != len(self._outputs)):
            raise DisciplineError(f"output {output} was sampled, {self._next_output} was next")
        self._n_sampled = self.n_past - len(self._outputs) + 1 + output
        self._next_output += 1
        prefix = self.output(output)
        return self._choose(prefix) if self._stream is None else self._stream.draw(prefix)

    def is_eog(self, token: int) -> bool:
        return token == self._eog


class ScriptedDraft(ScriptedSequence):
    def __init__(self, n_ctx: int, propose: Propose) -> None:
        super().__init__(n_ctx)
        self._propose = propose

    def top(self) -> tuple[int, float]:
        if len(self._outputs) != 1:
            raise DisciplineError("the draft's top token was asked for without one output")
        return self._propose(self.output(0))


class Stream:
    """A seeded sampler: every draw advances it, so one too many changes all that follows."""

    def __init__(self, choose: Choose, seed: int) -> None:
        self._choose = choose
        self._random = random.Random(seed)  # noqa: S311 - a test needs no secrets

    def draw(self, prefix: Prefix) -> int:
        likely, number = self._random.random() < 0.6, self._random.randrange(_SCALE)
        return self._choose(prefix) if likely else mix(prefix, "draw", number) % N_VOCAB


def mix(prefix: Prefix, *salt: object) -> int:
    text = repr((prefix, salt)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "little")


def hashed_target(seed: int, *, eog_rate: float = 0.0) -> Choose:
    """Choose pseudo-randomly among all tokens but EOG, and EOG with ``eog_rate``."""

    def choose(prefix: Prefix) -> int:
        if mix(prefix, "end", seed) < eog_rate * _SCALE:
            return EOG
        return 1 + mix(prefix, "target", seed) % (N_VOCAB - 1)

    return choose


def hashed_draft(target: Choose, seed: int, *, agreement: float, grid: int = 16) -> Propose:
    """Agree with ``target`` with a probability; give probabilities that are multiples of 1/grid."""

    def propose(prefix: Prefix) -> tuple[int, float]:
        token = target(prefix)
        if mix(prefix, "agree", seed) >= agreement * _SCALE:
            token = (token + 1 + mix(prefix, "draft", seed) % (N_VOCAB - 1)) % N_VOCAB
        return token, (1 + mix(prefix, "p", seed) % grid) / grid

    return propose


def scripted_target(start: int, tokens: Sequence[int]) -> Choose:
    """Choose ``tokens`` one after the other once the prefix has ``start`` tokens."""
    return lambda prefix: tokens[len(prefix) - start]


def scripted_draft(start: int, pairs: Sequence[tuple[int, float]]) -> Propose:
    """Propose (token, probability) ``pairs`` by position, from a prefix of ``start`` tokens on."""
    return lambda prefix: pairs[len(prefix) - start]


class FakeClock:
    """Advances by another whole number of seconds on every reading: sums are exact."""

    def __init__(self) -> None:
        self.now = 0.0
        self._step = 0

    def __call__(self) -> float:
        self._step = (self._step * 7 + 3) % 11
        self.now += self._step
        return self.now
