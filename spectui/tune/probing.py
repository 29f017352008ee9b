"""Measuring what rounds cost: generations in which every round drafts another number of tokens."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import CommandRestarted, Event, RoundFinished
from spectui.errors import CancelledError
from spectui.measure.backend import again_after_a_death
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DrafterSetting
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round
from spectui.speculative.decoder import Stop
from spectui.trace.fit import Observed, ObservedOff, Probed

_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 254)
"""Between these a curve is taken to be straight; 32 is where llama.cpp's offload begins."""
_REPEATS = 64
"""Repetitions of all lengths, in random order: more rounds than any probe runs."""
_OFF_TOKENS = 16


@dataclass(eq=False)
class CostProbe:
    """Measures the loaded models on prompts of a workload."""

    engine: Engine
    """Has loaded the target, and the draft that drafts."""
    workload: Workload
    """How far to decode, and how to sample."""
    _: KW_ONLY
    drafter: DrafterSetting
    """Drafts, with its longest draft to be measured."""
    seed: int = 0
    """Seed of the order of lengths."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - an order of measurements needs no secrets
        self._rounds: list[Round] = []

    def run(
        self, items: Iterable[WorkItem], on_probed: Callable[[WorkItem], None] = lambda _item: None
    ) -> Probed | None:
        """Measure on each of ``items``, and the target alone right before and after it.

        Args:
            items: prompts.
            on_probed: told of each that is done.

        Returns:
            What was measured; None if every text ended before a round drafted anything.

        Raises:
            CancelledError: it was stopped.
        """
        observed: list[Observed] = []
        off: list[ObservedOff] = []
        for group, item in enumerate(items):
            n_prompt = len(item.tokens)
            before = self._rounds_of(item, None)
            # The first round after a prompt is slower than the rest.
            found = observed_rounds(self._rounds_of(item, self._lengths()), n_prompt, group)[1:]
            after = self._rounds_of(item, None)
            if min(len(before), len(after)) > 1 and found:
                off += [observed_off(group, n_prompt, rounds) for rounds in (before, after)]
                observed += found
            on_probed(item)
        if not any(one.round.n_drafted for one in observed):
            return None
        return Probed(observed=observed, off=off)

    def _rounds_of(self, item: WorkItem, lengths: tuple[int, ...] | None) -> list[Round]:
        listener = self.engine.on_event
        self.engine.on_event = self._listen
        try:
            again_after_a_death(lambda: self._generate(item, lengths))
        finally:
            self.engine.on_event = listener
        return self._rounds

    def _listen(self, event: Event) -> None:
        match event:
            case RoundFinished(round=finished):
                self._rounds.append(finished)
            case CommandRestarted():
                # It gave way to a chat: its rounds so far have a pause beside them.
                self._rounds.clear()
            case _:
                pass

    def _lengths(self) -> tuple[int, ...]:
        lengths = [length for length in _LENGTHS if length < self.drafter.longest] + [
            self.drafter.longest
        ]
        shuffled = [self._random.sample(lengths, len(lengths)) for _ in range(_REPEATS)]
        return tuple(length for block in shuffled for length in block)

    def _generate(self, item: WorkItem, lengths: tuple[int, ...] | None) -> None:
        self._rounds = []
        result = self.engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=_OFF_TOKENS if lengths is None else self.workload.n_predict,
                sampling=self.workload.sampling,
                speculation=None if lengths is None else Speculation(self.drafter),
                draft_lengths=lengths or (),
                reuse_prompt=True,
            )
        )
        if result.stop is Stop.CANCELLED:
            raise CancelledError("the measurement was cancelled")


def observed_off(group: int, n_prompt: int, rounds: Sequence[Round]) -> ObservedOff:
    """Observed time per token of the target alone, without its first round.

    Args:
        group: the generation with drafts that it was run next to.
        n_prompt: tokens of the prompt.
        rounds: rounds of the generation, two at least.
    """
    steady = rounds[1:]
    return ObservedOff(
        group=group,
        n_past=n_prompt + 1 + len(steady) / 2,
        token_s=sum(one.times.total_s for one in steady) / len(steady),
    )


def observed_rounds(rounds: Sequence[Round], n_prompt: int, group: int) -> list[Observed]:
    """Rounds with the depth at which each began.

    Args:
        rounds: rounds of one generation.
        n_prompt: tokens of its prompt.
        group: its number.
    """
    found = []
    n_past = n_prompt
    for one in rounds:
        found.append(Observed(group=group, n_past=n_past, round=one))
        n_past += len(one.tokens)
    return found
