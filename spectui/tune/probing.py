"""Measuring what rounds cost: generations in which every round drafts another number of tokens."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import uncancelled
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DrafterSetting
from spectui.options.setup import SamplingConfig
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


def probe_costs(
    engine: Engine,
    sampling: SamplingConfig,
    drafter: DrafterSetting,
    items: Iterable[WorkItem],
    on_probed: Callable[[WorkItem], None] = lambda _item: None,
    *,
    seed: int = 0,
) -> Probed | None:
    """Measure the loaded models on prompts.

    Args:
        engine: has loaded the target, and the draft that drafts.
        sampling: how answers are sampled.
        drafter: drafts, with its longest draft to be measured.
        items: the prompts.
        on_probed: called with each prompt that is done.
        seed: of the order of lengths.

    Returns:
        The rounds; None if every text ended before a round drafted anything.

    Raises:
        CancelledError: it was stopped.
    """
    dice = Random(seed)  # noqa: S311 - an order of measurements needs no secrets
    observed: list[Observed] = []
    for group, item in enumerate(items):
        command = Generate(
            prompt=item.tokens,
            n_predict=N_TOKENS,
            sampling=sampling,
            speculation=Speculation(drafter),
            draft_lengths=_lengths(drafter.longest, dice),
            reuse_prompt=True,
        )
        result = uncancelled(again_after_a_death(partial(engine.generate, command)))
        # The first round after a prompt is slower than the rest.
        found = observed_rounds(result.rounds, len(item.tokens), group)[1:]
        # A text that ended before has nothing to compare.
        if any(one.round.n_drafted for one in found):
            observed += found
        on_probed(item)
    return observed if any(one.is_alone for one in observed) else None


def _lengths(longest: int, dice: Random) -> tuple[int, ...]:
    """Lengths of the drafts of a generation, one after the other."""
    lengths = [*(length for length in _LENGTHS if length < longest), longest]
    shuffled = [dice.sample(lengths, len(lengths)) for _ in range(_REPEATS)]
    for block in shuffled:
        at = dice.randint(1, len(block))
        block[at:at] = [0] * _ALONE
    return *_FIRST, *(length for block in shuffled for length in block)


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
