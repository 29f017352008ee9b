"""Speculation at depth: the race's leader against off behind prompts of other lengths.

What a token of the target costs grows with the text before it, and so does a round; and a draft may
guess worse behind much text. Prompts of the race are lengthened with the others before them, so
that what follows them is the same kind of text at every depth. The few prompts of a depth may gain
more or less than all do, at any depth: so they are compared with themselves in the race, and the
race's gain changes by that factor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from spectui.documents import Json, Known, or_reason
from spectui.engine.events import GenerationResult
from spectui.format import counted
from spectui.measure.measurer import (
    NO_ROUNDS,
    NOTHING_DRAFTED,
    Pair,
    measurements,
    steady,
    throughput,
    total_counters,
)
from spectui.measure.reading import PromptTimes, is_covered, prompt_times
from spectui.measure.requests import Request, requests_of
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import FEWEST_CHANGED, changed, paired_speedup
from spectui.measure.workload import WorkItem, with_length
from spectui.options.request import RequestShape
from spectui.speculative.counters import Counters
from spectui.tune.events import RunsStarted
from spectui.tune.pace import Pace
from spectui.tune.race import Standing
from spectui.tune.setup import SearchSetup

_MOST = 4
"""Prompts of a depth, at most."""
_SHARE = 1 / 3
"""Part of the time budget that is kept for depths, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The leader against off behind prompts of one length."""

    n_tokens: int
    """Length of the prompts; 0 for those of the race as they are."""
    pairs: tuple[Pair, ...]
    speedup: Speedup
    """Speedup of decoding, for all prompts of the race."""
    prompts: Known[PromptTimes]
    repeats_text: bool = False
    """Whether the prompts have too little text for that length, so that it stands there twice."""

    @property
    def length(self) -> float:
        """Tokens of its prompts, of those of the race their median."""
        return self.n_tokens or median(len(pair.item.tokens) for pair in self.pairs)

    @property
    def token_s(self) -> float:
        """Seconds of a token of the target alone."""
        return 1 / (throughput([pair.baseline for pair in self.pairs]) or float("inf"))

    @property
    def counters(self) -> Counters:
        """Counts of the rounds."""
        return total_counters([pair.speculative for pair in self.pairs])

    @property
    def round_s(self) -> float | None:
        """Seconds of a round; None where their number is not known."""
        n_rounds = self.counters.known_rounds
        decode_s = sum(pair.speculative.decode_s for pair in self.pairs)
        return decode_s / n_rounds if n_rounds else None

    @property
    def n_prompt(self) -> int:
        """Tokens of its longest prompt."""
        return max(len(pair.item.tokens) for pair in self.pairs)

    def document(self) -> Json:
        """The depth in documents."""
        times, n = self.prompts.value, self.n_prompt
        seconds = None if times is None else {"off": times.off.seconds(n), "on": times.on_s(n)}
        return {
            "depth": self.n_tokens,
            "n_prompts": len({pair.item.id for pair in self.pairs}),
            **self.speedup.document(),
            **or_reason("acceptance_rate", self.counters.acceptance_rate, NOTHING_DRAFTED),
            "token_s": self.token_s,
            **or_reason("round_s", self.round_s, NO_ROUNDS),
            **or_reason("prompt_s", seconds, self.prompts.reason or ""),
            "repeats_text": self.repeats_text,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """All depths that were measured, and what was left out."""

    found: tuple[Depth, ...] = ()
    """By length."""
    left_out: tuple[int, ...] = ()
    """Lengths for which there was no time."""
    min_gain: float = 0.0
    """Least gain with which speculation is worth it."""

    @property
    def limit(self) -> int | None:
        """Depth beyond which decoding gains less than that, between measured ones.

        None where it gains as much at every depth, or at none.
        """
        bound = 1 + self.min_gain
        for before, after in pairwise(self.found):
            high, low = before.speedup.estimate, after.speedup.estimate
            if high >= bound > low:
                share = (high - bound) / (high - low)
                return round(before.length + share * (after.length - before.length))
        return None

    def at(self, n_tokens: int) -> Depth | None:
        """Measurements at a length."""
        return next((one for one in self.found if one.n_tokens == n_tokens), None)

    def document(self) -> Json:
        """The depths in documents."""
        no_limit = "it pays at every measured depth, or at none"
        return {
            "depths": [one.document() for one in self.found],
            **or_reason("depth_limit", self.limit, no_limit),
            "depths_left_out": list(self.left_out),
        }


@dataclass(eq=False)
class DepthRuns:
    """Measures depths after a race. Use it once."""

    setup: SearchSetup
    """Setup of the search, with the depths and the requests that were asked for."""
    pace: Pace
    """Time keeper of the search."""
    on_decoded: Callable[[WorkItem, GenerationResult], None]
    """Told of every prompt."""

    def __post_init__(self) -> None:
        longest = max((len(one.tokens) for one in self.setup.workload.items), default=0)
        wanted = {n for n in self.setup.depths if n}
        wanted |= {
            one.n_prompt for one in self.setup.requests if not is_covered(one.n_prompt, longest)
        }
        self._lengths = sorted(wanted)
        self._found: list[Depth] = []
        self._left_out: list[int] = []

    def reserve(self, block_s: float) -> None:
        """Keep the race from taking all of the time; ``block_s`` seconds decode a prompt twice.

        The shorter lengths come first. For one that would take too much nothing is kept: it is
        measured only if the race leaves time for it.
        """
        kept_s, most_s = 0.0, _SHARE * (self.pace.budget_s or 0.0)
        for n_tokens in self._lengths:
            needed_s = self._seconds(n_tokens, FEWEST_CHANGED, block_s)
            if kept_s + needed_s <= most_s:
                kept_s += needed_s
        self.pace.reserved_s = kept_s

    def run(self, leader: Standing) -> None:
        """Measure the leader at every length for which there is time. May be interrupted."""
        self.pace.reserved_s, race = 0.0, leader.speedup
        if race is None:
            return
        if self.setup.depths:
            times = raced_times(leader)
            self._found.append(Depth(n_tokens=0, pairs=leader.pairs, speedup=race, prompts=times))
        runs = [run for pair in leader.pairs for run in (pair.baseline, pair.speculative)]
        block_s = 2 * sum(run.decode_s for run in runs) / len(runs)
        for n_tokens in self._lengths:
            left_s, choices = self.pace.left_s, (_MOST, FEWEST_CHANGED)
            fitting = (n for n in choices if self._seconds(n_tokens, n, block_s) <= left_s)
            n_prompts = next(fitting, 0)
            if n_prompts:
                self._measure(leader, race, n_tokens, n_prompts)
            else:
                self._left_out.append(n_tokens)

    def _measure(self, leader: Standing, race: Speedup, n_tokens: int, n_prompts: int) -> None:
        setup, speculation = self.setup, leader.arm.speculation
        decoded = [pair.item for pair in leader.pairs if pair.has_decoded]
        raced = list({item.id: item for item in decoded}.values())
        # All prompts, those of the race first and as they are there.
        names = {item.id for item in raced}
        text = (*raced, *(one for one in setup.workload.items if one.id not in names))
        lengthened = with_length(replace(setup.workload, items=text), n_tokens)
        items, pairs = lengthened.items[:n_prompts], list[Pair]()
        on = f"{counted(len(items), 'prompt')} of {n_tokens:,} tokens"
        what = f"measuring {leader.arm.label} against off on {on}"
        setup.on_event(RunsStarted(text=what, arm=leader.arm, n_runs=len(items)))
        setup.loader.load(leader.arm.draft)
        began_s = self.pace.took_s
        for pair in setup.measurer.pairs(items, speculation):
            pairs.append(pair)
            self.on_decoded(pair.item, pair.speculative)
            # A token of a long prompt takes longer than those that the estimate rests on.
            if (self.pace.took_s - began_s) / len(pairs) > self.pace.left_s:
                break
        found, names = steady(pairs), {item.id for item in items}
        before = [pair for pair in leader.pairs if pair.item.id in names]
        deep, own = measurements(found), measurements(before)
        if not {one.prompt_id for one in deep} & {one.prompt_id for one in own}:
            self._left_out.append(n_tokens)
            return
        self._found.append(
            Depth(
                n_tokens=n_tokens,
                pairs=found,
                speedup=deep_speedup(race, deep, own),
                prompts=prompt_times(found, reads=leader.arm.reader is not None),
                repeats_text=sum(len(item.tokens) for item in text) < n_tokens,
            )
        )

    def _seconds(self, n_tokens: int, n_prompts: int, block_s: float) -> float:
        """Estimate of a depth: its prompts are new to target and draft.

        Servers evaluate them without the draft as well.
        """
        measurer = self.setup.measurer
        n_readings = 1 if measurer.n_beside_off is None else 2
        return n_prompts * (n_readings * n_tokens * measurer.prompt_token_s + block_s)

    def conclude(self) -> Depths:
        """The measurements so far, also after an interrupt."""
        return Depths(
            found=tuple(sorted(self._found, key=lambda one: one.length)),
            left_out=tuple(self._left_out),
            min_gain=self.setup.min_gain,
        )


def deep_speedup(
    race: Speedup, deep: Sequence[PairedMeasurement], own: Sequence[PairedMeasurement]
) -> Speedup:
    """The race's speedup at a depth: times what some of its prompts gain there over what they did.

    Args:
        race: of all prompts.
        deep: the prompts at depth.
        own: the same prompts in the race.
    """
    names = {one.prompt_id for one in deep} & {one.prompt_id for one in own}
    found = changed(race, deep, own)
    return replace(
        found,
        n_prompts=len(names),
        n_timed=None,
        ceiling=_ceiling(
            race,
            *(paired_speedup([o for o in each if o.prompt_id in names]) for each in (deep, own)),
        ),
    )


def _ceiling(race: Speedup, deep: Speedup, own: Speedup) -> float | None:
    """The most that all prompts can gain at depth, by what some of them can there and could."""
    if race.ceiling is None or deep.ceiling is None or own.ceiling is None:
        return None
    return max(1.0, race.ceiling * deep.ceiling / own.ceiling)


def raced_times(leader: Standing) -> Known[PromptTimes]:
    """Seconds of prompts with the leader of a race."""
    reads = leader.arm.reader is not None
    return prompt_times(leader.pairs, apart=leader.apart, reads=reads)


NOT_CONFIRMED = Known[tuple[Request, ...]](None, "no setting was confirmed")


def raced_requests(
    leader: Standing, shapes: Sequence[RequestShape], depths: Depths
) -> Known[tuple[Request, ...]]:
    """Requests with the leader: at the depth of their prompts, where that was measured.

    Args:
        leader: of the race.
        shapes: lengths of the requests.
        depths: what was measured at depth.
    """
    race = leader.speedup
    if race is None:
        return NOT_CONFIRMED
    found = list[Request]()
    for shape in shapes:
        deep = depths.at(shape.n_prompt)
        speedup, pairs, times = race, leader.pairs, raced_times(leader)
        if deep is not None:
            # Drafts find text that repeats: that may cost a gain, and not show one.
            known = [deep.speedup, *([race] if deep.repeats_text else [])]
            speedup, pairs = min(known, key=lambda one: one.estimate), deep.pairs
            times = times if deep.prompts.value is None else deep.prompts
        one = requests_of([shape], speedup, pairs, times)
        if one.value is None:
            return one
        repeats = deep is not None and deep.repeats_text
        found += [replace(each, is_covered=each.is_covered and not repeats) for each in one.value]
    return Known(tuple(found))
