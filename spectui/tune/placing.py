"""The place in which the target is fastest by itself, before anything drafts for it.

Threads and placement move a speed by as much as a draft does, and cost no memory; a draft's gain
over an untuned place would partly be theirs. So the place is found first, without a draft:
one parameter after the other, from the best value so far outwards for as long as it gains, until no
neighbour of the best is left. Parameters hardly depend on each other, so that this takes a dozen
loads, where a sampler would draw places that are far too slow. The best is held against the
command's own in turns, and taken only where the interval of its gain is above nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from statistics import fmean, median

from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import BadInputError, DoesNotFitError, EngineDiedError, UsageError
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import uncancelled
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.request import RequestShape
from spectui.tune.pace import OutOfTimeError
from spectui.tune.places import Knob, PlaceTrial, Placing, Values, moved, text_of
from spectui.tune.studies.study import PlaceStudy
from spectui.tune.tracing import spread_out

_TRIAL_PROMPTS = 3
_JUDGING_PROMPTS = 8
_N_TOKENS = 24
"""Tokens of an answer that are timed."""
_LONGEST = 512
"""Tokens of a prompt that are timed: longer ones take as long for each."""
_FAR = 0.95
"""A place that is slower than the best by more than this is followed no farther."""
_ALIKE = 1.01
"""Factor within which two places count as equally fast."""
_HOPELESS = 0.8
"""A place that is slower than the best by more than this on two prompts is timed on no other."""


@dataclass(eq=False)
class PlaceSearch:
    """Searches the place of a target. Use it once."""

    engine: Engine
    """Loads and decodes."""
    target: LoadTarget
    """In the place that the user's command gives it."""
    study: PlaceStudy
    """Has the parameters that may vary, and keeps trials, those of an earlier run as well."""
    _: KW_ONLY
    workload: Workload
    """Prompts, and sampling."""
    shape: RequestShape
    """Requests that are to gain."""
    min_gain: float
    """Least gain that makes another place worth it; 0.02 is 2 %."""
    say: Callable[[str], None]
    """Called with a sentence on each place that was tried."""
    is_over: Callable[[], bool] = lambda: False
    """Returns whether the time is over; called before each place but the command's own."""

    def __post_init__(self) -> None:
        self._given: Values = {one.name: one.own for one in self.study.knobs}
        self._loaded: LoadTarget | None = None
        """Where the target lies."""

    def run(self) -> Placing:
        """Search; leaves the target loaded in some place.

        Raises:
            SpectuiError: the engine failed, or the target does not run in its first place.
        """
        was_short = False
        try:
            self._search()
        except OutOfTimeError:
            was_short = True
        trials = sorted(self.study.trials(), key=lambda one: one.values != self._given)
        placing = Placing(given=self._given, best={}, trials=tuple(trials), was_short=was_short)
        near_s = _ALIKE * self.request_s(self._best())
        near = [one for one in trials if self.request_s(one) <= near_s]
        # Of those that are as fast, the fastest that changes least.
        near.sort(key=self.request_s)
        best = min(near, key=lambda one: len(one.values.items() - self._given.items()))
        if self.request_s(best) * (1 + self.min_gain) > self.request_s(trials[0]):
            return placing
        return self._judged(placing, best.values)

    def _search(self) -> None:
        self._tried(self._given)
        n_before = 0
        while n_before < len(self.study.trials()):
            n_before = len(self.study.trials())
            for knob in self.study.knobs:
                self._climb(knob)

    def _climb(self, knob: Knob) -> None:
        """Try values of one parameter from the best so far outwards, for as long as they gain."""
        best = self._best().values
        at = knob.values.index(best[knob.name])
        for side in (knob.values[at + 1 :], knob.values[:at][::-1]):
            for value in side:
                found = self._tried({**best, knob.name: value})
                is_far = _FAR * self.request_s(found) > self.request_s(self._best())
                # Of a place without room it is not known which way leads out of it.
                if found.error is None and is_far:
                    break

    def _best(self) -> PlaceTrial:
        return min(self.study.trials(), key=self.request_s)

    def request_s(self, trial: PlaceTrial) -> float:
        """Seconds of a request in a place."""
        return trial.request_s(self.shape)

    def _tried(self, values: Values) -> PlaceTrial:
        """A place as an earlier trial has it, or measured now and kept.

        Raises:
            OutOfTimeError: time is up.
            SpectuiError: the target cannot run in the command's own.
        """
        known = next((one for one in self.study.trials() if one.values == values), None)
        if known is not None:
            return known
        if values != self._given and self.is_over():
            raise OutOfTimeError
        try:
            found = self.timed(values)
        except (BadInputError, DoesNotFitError, EngineDiedError, UsageError) as error:
            if values == self._given:
                raise
            found = PlaceTrial(values=values, error=str(error))
        self.study.add(found, self.request_s(found))
        self.say(f"place {text_of(self.study.knobs, values)}: {found.text}")
        return found

    def timed(self, values: Values, *, n_prompts: int = _TRIAL_PROMPTS) -> PlaceTrial:
        """Time a place on some prompts, or on two where it is far too slow.

        Raises:
            SpectuiError: the target cannot run there.
        """
        best_s = min(map(self.request_s, self.study.trials()), default=math.inf)
        timed: list[GenerationResult] = []
        found = PlaceTrial(values=values)
        for item in spread_out(self.workload.items, n_prompts):
            timed.append(self._decode(item, values))
            # Disturbances of the machine make neither faster.
            read_s = min(map(_read_s, timed))
            token_s = median(chain.from_iterable(map(_token_times_s, timed)))
            found = replace(found, prompt_token_s=read_s, token_s=token_s)
            if len(timed) > 1 and _HOPELESS * self.request_s(found) > best_s:
                break
        return found

    def _decode(self, item: WorkItem, values: Values) -> GenerationResult:
        """Read a prompt anew in a place, and begin its answer."""
        place = moved(self.target, self.study.knobs, values)

        def decode() -> GenerationResult:
            # Whatever fails may have freed the target.
            loaded, self._loaded = self._loaded, None
            if place != loaded:
                self.engine.load_target(place)
                # The first tokens after a load are slower than the rest.
                self._generate(item, 2)
            # There is room for as many as are predicted.
            result = self._generate(item, max(2, min(_N_TOKENS, self.workload.n_predict)))
            self._loaded = place
            return result

        return again_after_a_death(decode)

    def _generate(self, item: WorkItem, n_predict: int) -> GenerationResult:
        sampling = replace(self.workload.sampling, ignore_eos=True)
        command = Generate(prompt=item.tokens[:_LONGEST], n_predict=n_predict, sampling=sampling)
        return uncancelled(self.engine.generate(command))

    def _judged(self, placing: Placing, best: Values) -> Placing:
        """Hold the best place against the command's own, in turns."""
        items = spread_out(self.workload.items, _JUDGING_PROMPTS)
        # Few prompts are timed several times: here they differ less than the machine does.
        items = (items * _JUDGING_PROMPTS)[: max(len(items), _JUDGING_PROMPTS)]
        middle = len(items) // 2
        found: dict[bool, list[GenerationResult]] = {False: [], True: []}
        for half, order in ((items[:middle], (False, True)), (items[middle:], (True, False))):
            for is_best in order:
                values = best if is_best else self._given
                found[is_best] += [self._decode(item, values) for item in half]
        given, ours = found[False], found[True]
        decoding = paired_speedup(_pairs(given, ours, _token_s))
        requests = paired_speedup(_pairs(given, ours, self._seconds))
        takes = requests.low is not None and requests.low > 1
        takes = takes and requests.estimate > 1 + self.min_gain
        changed = {name: value for name, value in best.items() if value != self._given[name]}
        return replace(
            placing,
            best=changed if takes else {},
            decoding=decoding,
            requests=requests,
            given_tokens_per_s=1 / fmean(map(_token_s, given)),
            best_tokens_per_s=1 / fmean(map(_token_s, ours)),
        )

    def _seconds(self, result: GenerationResult) -> float:
        """Seconds of a request, by what the tokens of a result took."""
        return self.shape.n_prompt * _read_s(result) + self.shape.n_answer * _token_s(result)


def _read_s(result: GenerationResult) -> float:
    """Seconds per token of the prompt."""
    return result.prompt_s / result.n_prompt_tokens


def _token_times_s(result: GenerationResult) -> list[float]:
    """Seconds of each token of the answer."""
    return [one.times.total_s for one in result.rounds]


def _token_s(result: GenerationResult) -> float:
    """Seconds of a usual token of the answer."""
    return median(_token_times_s(result))


def _pairs(
    given: Sequence[GenerationResult],
    best: Sequence[GenerationResult],
    seconds: Callable[[GenerationResult], float],
) -> list[PairedMeasurement]:
    """Seconds of the same work in two places."""
    return [
        PairedMeasurement(prompt_id=str(n), baseline_s=seconds(one), speculative_s=seconds(other))
        for n, (one, other) in enumerate(zip(given, best, strict=True))
    ]
