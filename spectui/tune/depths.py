"""Speculation at depth: the race's leader against off behind prompts as long as those of requests.

What a token of the target costs grows with the text before it, and so does a round; and a draft may
guess worse behind much text. Prompts of the race are lengthened with the others before them, so
that what follows them is the same kind of text at every depth. The few prompts of a depth may gain
more or less than all do, at any depth: so they are compared with themselves in the race, and the
race's gain changes by that factor.
"""

from dataclasses import dataclass, replace

from spectui.documents import Known
from spectui.format import counted
from spectui.measure.measurer import Pair, measurements, steady
from spectui.measure.reading import PromptTimes, is_covered, prompt_times
from spectui.measure.requests import Request, requests_of
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import FEWEST_CHANGED, rescaled
from spectui.measure.workload import with_length
from spectui.tune.pace import Pace
from spectui.tune.progress import Phase
from spectui.tune.race import Standing

_MOST = 4
"""Prompts of a depth, at most."""
_SHARE = 1 / 3
"""Part of the time budget that is kept for depths, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The leader against off behind prompts of one length."""

    pairs: tuple[Pair, ...]
    speedup: Speedup
    """Speedup of decoding, for all prompts of the race."""
    prompts: Known[PromptTimes]


@dataclass(eq=False)
class DepthRuns:
    """Measures depths after a race. Use it once."""

    pace: Pace
    """Time keeper of the search, whose setup has the requests to measure."""

    def __post_init__(self) -> None:
        self.setup = self.pace.setup
        lengths = [len(one.tokens) for one in self.setup.workload.items]
        longest, most = max(lengths, default=0), sum(lengths)
        wanted = {one.n_prompt for one in self.setup.requests}
        # A text in which all prompts repeat would be one that drafts find by heart.
        self._lengths = sorted(n for n in wanted if n <= most and not is_covered(n, longest))
        self.found: dict[int, Depth] = {}
        """By tokens of a prompt; as far as there was time, also after an interrupt."""

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
        self.pace.reserved_s = 0.0
        if leader.speedup is None:
            return
        runs = [run for pair in leader.pairs for run in (pair.baseline, pair.speculative)]
        block_s = 2 * sum(run.decode_s for run in runs) / len(runs)
        for n_tokens in self._lengths:
            left_s, choices = self.pace.left_s, (_MOST, FEWEST_CHANGED)
            fitting = (n for n in choices if self._seconds(n_tokens, n, block_s) <= left_s)
            n_prompts = next(fitting, 0)
            if n_prompts:
                self._measure(leader, leader.speedup, n_tokens, n_prompts)

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
        self.pace.begin(Phase.CONFIRMING, what, len(items), leader.arm)
        setup.loader.load(leader.arm.draft)
        began_s = self.pace.took_s
        for pair in setup.measurer.pairs(items, speculation):
            pairs.append(pair)
            self.pace.decoded(pair.item, pair.speculative)
            # A token of a long prompt takes longer than those that the estimate rests on.
            if (self.pace.took_s - began_s) / len(pairs) > self.pace.left_s:
                break
        found, names = steady(pairs), {item.id for item in items}
        deep = measurements(found)
        own = measurements([pair for pair in leader.pairs if pair.item.id in names])
        n_on_both = len({one.prompt_id for one in deep} & {one.prompt_id for one in own})
        if n_on_both:
            # The ceiling of all prompts at that depth is not known.
            few = rescaled(race, deep, own)
            speedup = replace(few, n_prompts=n_on_both, n_timed=None, ceiling=None)
            times = prompt_times(found, reads=leader.arm.reader is not None)
            self.found[n_tokens] = Depth(pairs=found, speedup=speedup, prompts=times)

    def _seconds(self, n_tokens: int, n_prompts: int, block_s: float) -> float:
        """Estimate of a depth: its prompts are new to target and draft.

        Servers evaluate them without the draft as well.
        """
        measurer = self.setup.measurer
        n_readings = 1 if measurer.n_beside_off is None else 2
        return n_prompts * (n_readings * n_tokens * measurer.prompt_token_s + block_s)

    def requests(self, leader: Standing | None) -> Known[tuple[Request, ...]]:
        """Requests with the race's leader, at the deepest measured depth within their prompts.

        What prompts take is fitted to those of all depths, but for a depth that was measured.
        """
        if leader is None or leader.speedup is None:
            return Known(None, "no setting was confirmed")
        read = [*leader.pairs, *(pair for deep in self.found.values() for pair in deep.pairs)]
        times = prompt_times(read, apart=leader.apart, reads=leader.arm.reader is not None)
        own = Depth(pairs=leader.pairs, speedup=leader.speedup, prompts=times)
        found, n_predict = list[Request](), self.setup.workload.n_predict
        for shape in self.setup.requests:
            within = max((n for n in self.found if n <= shape.n_prompt), default=0)
            deep = self.found.get(within, own)
            is_measured = within == shape.n_prompt and deep.prompts.value is not None
            prompts = deep.prompts if is_measured else times
            one = requests_of([shape], deep.speedup, deep.pairs, prompts, n_predict)
            if one.value is None:
                return one
            found += one.value
        return Known(tuple(found))
