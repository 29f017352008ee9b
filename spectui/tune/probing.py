"""Measuring what rounds cost: generations in which every round drafts another number of tokens."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import uncancelled
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DrafterSetting
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round
from spectui.trace.fit import Observed, Probed

_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 254)
"""Between these a curve is taken to be straight; 32 is where llama.cpp's offload begins."""
N_TOKENS = 32
"""Tokens of each prompt: fewer would leave lengths with a round or two, and more would tell what
the next prompt does as well."""
_REPEATS = 64
"""Repetitions of all lengths, in random order: more rounds than any probe runs."""
_ALONE = 3
"""Rounds in a row that draft nothing, somewhere among all lengths: but for the first, they cost
what tokens of the target alone do, which every speedup is over."""
_FIRST = (0, 0)
"""Lengths before all others: the first round of a text is left out, so that the shortest text has
one of the target alone, and drafts behind it."""


@dataclass(eq=False)
class CostProbe:
    """Measures the loaded models on prompts of a workload."""

    engine: Engine
    """Has loaded the target, and the draft that drafts."""
    workload: Workload
    """How to sample."""
    _: KW_ONLY
    drafter: DrafterSetting
    """Drafts, with its longest draft to be measured."""
    seed: int = 0
    """Seed of the order of lengths."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - an order of measurements needs no secrets

    def run(
        self, items: Iterable[WorkItem], on_probed: Callable[[WorkItem], None] = lambda _item: None
    ) -> Probed | None:
        """Measure on each of ``items``.

        Args:
            items: prompts.
            on_probed: called with each prompt that is done.

        Returns:
            The rounds; None if every text ended before a round drafted anything.

        Raises:
            CancelledError: it was stopped.
        """
        observed: list[Observed] = []
        for group, item in enumerate(items):
            # The first round after a prompt is slower than the rest.
            rounds = again_after_a_death(partial(self._rounds_of, item, self._lengths()))
            found = observed_rounds(rounds, len(item.tokens), group)[1:]
            # A text that ended before has nothing to compare.
            if any(one.round.n_drafted for one in found):
                observed += found
            on_probed(item)
        return observed if any(one.is_alone for one in observed) else None

    def _lengths(self) -> tuple[int, ...]:
        lengths = [length for length in _LENGTHS if length < self.drafter.longest] + [
            self.drafter.longest
        ]
        shuffled = [self._random.sample(lengths, len(lengths)) for _ in range(_REPEATS)]
        for block in shuffled:
            at = self._random.randint(1, len(block))
            block[at:at] = [0] * _ALONE
        return *_FIRST, *(length for block in shuffled for length in block)

    def _rounds_of(self, item: WorkItem, lengths: tuple[int, ...]) -> Sequence[Round]:
        result = self.engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=N_TOKENS,
                sampling=self.workload.sampling,
                speculation=Speculation(self.drafter),
                draft_lengths=lengths,
                reuse_prompt=True,
            )
        )
        return uncancelled(result).rounds


def observed_rounds(rounds: Sequence[Round], n_prompt: int, group: int) -> list[Observed]:
    """Rounds with the depth at which each began.

    Args:
        rounds: rounds of one generation.
        n_prompt: tokens of its prompt.
        group: its number.
    """
    found = list[Observed]()
    n_past = n_prompt
    for one in rounds:
        is_repeat = bool(found) and found[-1].round.n_drafted == one.n_drafted
        found.append(Observed(group=group, n_past=n_past, round=one, is_repeat=is_repeat))
        n_past += len(one.tokens)
    return found
