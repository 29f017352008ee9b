"""Rules of draft length, replayed on recorded text, and a bound that none of them can beat.

The bound knows the text: each round drafts what makes the whole answer cheapest. No rule knows as
much, so the bound is loose. A rule's rounds are counted and priced as those of a setting in
``replay``. It drafts no more tokens than were recorded, and begins anew with an answer where its
program does so with a request.

Left out are rules that need more than probabilities and accepted tokens of earlier rounds:
SGLang's ``ThroughputAwareAdaptiveController``, which drafts longer from time to time to learn
more; ik_llama.cpp's restart of its tuner after 30 slow rounds in a row; heads that are trained to
predict acceptance (SpecDec++, arXiv 2405.19715; DSpark, arXiv 2607.05147). The tables of vLLM and
MLC-LLM choose by the number of requests at once: for one request they are a fixed length. Also left
out are the rules of transformers, which drafts for no llama-server.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from spectui.options.drafters import ModelDrafter
from spectui.speculative.drafters import float32
from spectui.trace.costs import Costs, Prices
from spectui.trace.record import Recording
from spectui.trace.replay import Grid, Rounds, ascending_floors, replay_grid


class Setting(NamedTuple):
    """The setting of a round's draft."""

    draft_max: int
    draft_p_min: float = 0.0
    draft_min: int = 0


class Done(NamedTuple):
    """A round that has been run."""

    n_drafted: int
    n_accepted: int
    tokens_per_s: float
    """0 where nothing was drafted."""


Rule = Generator[Setting, Done | None, None]
"""Yields the setting of each round, and is sent the round; None where an answer begins."""


def _averaged(most: int, p_min: float) -> Rule:
    """The moving average of accepted tokens, 2 at first; a draft that was right adds 1 to it.

    llama.cpp's forks of LaurentZuijdwijk and halo-box, ``--spec-draft-adaptive``:
    ``common_speculative_impl::adaptive_n_draft`` and ``update_acc_ema``.
    """
    mean = 2.0
    while True:
        mean = min(mean, most)
        length = max(1, int(mean + 0.5))
        done = yield Setting(length, p_min)
        if done is None:
            mean = 2.0
        elif done.n_drafted:
            mean += 1.0 if done.n_accepted >= length else 0.25 * (done.n_accepted - mean)


def _bucket(most: int, p_min: float) -> Rule:
    """From 3 tokens on, one more or less where a surplus or a lack of accepted ones has added up.

    llama.cpp's pull request 27210, ``draft-mtp-adaptive``: ``common_speculative_adaptive``.
    """
    length = least = min(3, most)
    level = middle = max(20, 4 * length)
    while True:
        done = yield Setting(length, p_min)
        before = length
        if done is None:
            length, level = least, max(20, 4 * least)
        elif done.n_drafted:
            lack = length - done.n_accepted
            level += max(1, done.n_accepted - 1) if lack <= 0 else -lack
            length += (level >= middle + 20 and length < most) - (level <= 0 and length > least)
            level = min(max(level, 0), middle + 20)
        if length != before:
            level = middle = max(20, 4 * length)


def _tiers(most: int, p_min: float) -> Rule:
    """1, 3, 5 or 7 tokens by the moving average of accepted ones, looked at every five rounds.

    SGLang, ``AdaptiveStepSlot`` with its defaults for one request at once. It goes on from answer
    to answer.
    """
    lengths = [length for length in (1, 3, 5, 7) if length <= most]
    at, n_rounds = len(lengths) // 2, 0
    mean = lengths[at] - 1.0
    while True:
        done = yield Setting(lengths[at], p_min)
        if not (done and done.n_drafted):
            continue
        mean += 0.2 * (done.n_accepted - mean)
        n_rounds += 1
        if n_rounds <= 10 or n_rounds % 5:  # noqa: PLR2004 - its warm-up and interval
            continue
        before = at
        while at > 0 and mean <= lengths[at - 1] - 0.75:
            at -= 1
        while at >= before and at + 1 < len(lengths) and mean > lengths[at] - 0.5:
            at += 1


def _autotune(most: int, floor: float) -> Rule:
    """The value of each number that gave most tokens per second, and 15 times in 100 another one.

    ik_llama.cpp, ``--spec-autotune``: ``spec_tuner``, which goes on from answer to answer. Values
    of ``draft_p_min`` that were not recorded are left out.
    """
    p_mins = [p_min for p_min in (0.095 * step for step in range(11)) if not 0 < p_min < floor]
    values: tuple[Sequence[float], ...] = range(1, most + 1), p_mins, range(7)
    means = [[(0.0, 0)] * len(one) for one in values]
    dice = Random(0)  # noqa: S311 - no secret
    while True:
        chosen = [
            dice.randrange(len(one)) if dice.random() < 0.15 else one.index(max(one))  # noqa: PLR2004 - its epsilon
            for one in means
        ]
        longest, p_min, shortest = (one[at] for one, at in zip(values, chosen, strict=True))
        setting = Setting(int(longest), p_min, min(int(shortest), int(longest)))
        while (done := (yield setting)) is None:
            # An answer begins: it has not been tried yet.
            pass
        if done.n_drafted:
            for one, at in zip(means, chosen, strict=True):
                mean, n = one[at]
                one[at] = mean + (done.tokens_per_s - mean) / (n + 1), n + 1


AUTOTUNE, CUMULATIVE = "--spec-autotune", "cumulative p_min"
RULES: Mapping[str, Callable[[int, float], Rule]] = {
    "--spec-draft-adaptive": _averaged,
    "draft-mtp-adaptive": _bucket,
    "SGLang's adaptive steps": _tiers,
    AUTOTUNE: _autotune,
}
"""Rules, by the most that they draft and ``draft_p_min``; ``AUTOTUNE`` by the least of it above 0.
``CUMULATIVE`` is replayed as a grid."""
_PRODUCTS = tuple(step / 20 for step in range(1, 20))
"""Values of ``draft_p_min`` for ``CUMULATIVE``."""


class Round(NamedTuple):
    """A round that may begin at one position of an answer."""

    cap: int
    """Most tokens of its draft."""
    longest: int
    """Most tokens of its chain."""
    floors: list[float]
    """[depth]: as of ``ascending_floors``."""
    accepted: list[int]
    """[depth + 1]: by the length of its draft, as the next two."""
    emitted: list[int]
    seconds: list[float]
    """Without its chain."""
    chain_s: list[float]
    """[depth + 1]: a chain of so many decodes."""


def rounds_of(recording: Recording, draft: str, prices: Prices) -> list[Round]:
    """[n_decoded]: the rounds that may begin in a recorded answer, with prices of its depth."""
    chains = recording.chains[draft]
    rounds = Rounds(recording, chains)
    floors = ascending_floors(rounds.rows, chains)
    lengths = np.arange(chains.depth + 1)
    found = []
    for position in range(recording.n_decoded):
        outcome = rounds.outcome(position, lengths)
        price = prices.at(rounds.n_past(position))
        found.append(
            Round(
                *rounds.bounds(position),
                floors[position].tolist(),
                outcome.accepted.tolist(),
                outcome.emitted.tolist(),
                price.seconds(0, *outcome[:4]).tolist(),
                price.chain.tolist(),
            )
        )
    return found


def least_seconds(answer: Sequence[Round]) -> float:
    """Seconds of an answer whose every draft has the length that makes them least.

    Exact, backwards from the end: what is left to do depends on the position alone. A draft takes
    as many decodes of its chain as it has tokens, where a rule may take more.
    """
    left_s = [0.0] * (len(answer) + 1)
    for position in reversed(range(len(answer))):
        one = answer[position]
        left_s[position] = min(
            one.seconds[length] + one.chain_s[length] + left_s[position + one.emitted[length]]
            for length in range(min(one.cap, one.longest) + 1)
        )
    return left_s[0]


def run_rule(answers: Sequence[Sequence[Round]], rule: Rule) -> float:
    """Seconds of all answers with a rule, one after the other."""
    seconds = 0.0
    for answer in answers:
        setting = rule.send(None)
        position = 0
        while position < len(answer):
            one = answer[position]
            n_steps, length = _draft(one, setting)
            round_s = one.seconds[length] + one.chain_s[n_steps]
            tokens_per_s = one.emitted[length] / round_s if length else 0.0
            setting = rule.send(Done(length, one.accepted[length], tokens_per_s))
            seconds += round_s
            position += one.emitted[length]
    return seconds


def _draft(one: Round, setting: Setting) -> tuple[int, int]:
    """Decodes of a round's chain, and tokens of its draft, as ``draft_chain`` has them."""
    if one.cap <= 0:
        return 0, 0
    longest = min(setting.draft_max, one.longest)
    sure = len(one.floors) - bisect_left(one.floors, float32(setting.draft_p_min))
    n_steps = min(sure + 1, longest)
    length = min(sure, longest)
    return n_steps, min(length, one.cap) if length >= setting.draft_min else 0


class Policy(NamedTuple):
    """A rule with the numbers that were best for it on the recorded text."""

    rule: str
    draft_max: int
    draft_p_min: float | None
    """None where the rule chooses it."""
    seconds: float

    @property
    def text(self) -> str:
        """The rule and its numbers."""
        floor = f", draft_p_min {self.draft_p_min:g}" if self.draft_p_min else ""
        return f"{self.rule}: draft_max {self.draft_max}{floor}"


class Policies(NamedTuple):
    """Rules of draft length on the recorded text."""

    least_s: float
    """Seconds that no rule can beat."""
    rules: tuple[Policy, ...]
    """Fastest first."""


def replay_policies(
    recordings: Sequence[Recording], draft: str, costs: Costs, fixed: ModelDrafter
) -> Policies:
    """Replay all rules, each with the numbers that are best for it, and find their bound.

    Args:
        recordings: recordings of a trace, all with this draft's chains.
        draft: its name.
        costs: costs of rounds with this draft.
        fixed: the best fixed setting; rules are also tried with its ``draft_max`` and
            ``draft_p_min`` as their bounds.
    """
    chains = [recording.chains[draft] for recording in recordings]
    longest, floor = min(one.longest for one in chains), max(one.floor for one in chains)
    prices = costs.prices(max(one.depth for one in chains))
    answers = [rounds_of(recording, draft, prices) for recording in recordings]
    ceilings = sorted({min(fixed.draft_max, longest), longest})
    bounds = list(product(ceilings, sorted({0.0, fixed.draft_p_min})))
    found = list[Policy]()
    for name, rule in RULES.items():
        for most, p_min in [(longest, floor)] if name == AUTOTUNE else bounds:
            seconds = run_rule(answers, rule(most, p_min))
            found.append(Policy(name, most, None if name == AUTOTUNE else p_min, seconds))
    if floor <= 1:
        grid = Grid(draft_max=tuple(range(1, longest + 1)), draft_p_min=_PRODUCTS)
        found.append(_cumulative(recordings, draft, grid, prices))
    best: dict[str, Policy] = {}
    for policy in sorted(found, key=lambda one: one.seconds):
        best.setdefault(policy.rule, policy)
    return Policies(sum(map(least_seconds, answers)), tuple(best.values()))


def _cumulative(recordings: Sequence[Recording], draft: str, grid: Grid, prices: Prices) -> Policy:
    """The best of ``grid`` where a draft ends as soon as the product of its probabilities is low.

    So ends a draft of llama.cpp's feature request 25096. Here it also ends at a token whose
    probability is below the floor of the chains.
    """
    replay = replay_grid(recordings, draft, grid, prices=prices, cumulative=True)
    seconds = replay.whole.seconds
    best = list(grid.settings(mtp=False))[seconds.argmin()]
    return Policy(CUMULATIVE, best.draft_max, best.draft_p_min, float(seconds.min()))
