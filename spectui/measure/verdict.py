"""Whether to use speculation, in one sentence that says what it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from spectui.documents import Json, or_reason
from spectui.format import counted, duration_text, gain_percent, is_large
from spectui.measure.requests import Request, Together, binding, together
from spectui.measure.speedup import NO_INTERVAL, Speedup
from spectui.measure.statistics import MIN_PROMPTS
from spectui.options.setup import SamplingConfig

_MAX_DECIMALS = 3
_EVEN = 1.5
"""Sides of an interval that differ by no more than this factor are told as one ±."""
_EQUAL = 1e-9
_FEWEST_ACCEPTING = 5
"""Prompts with an accepted draft below which rare gains cannot be ruled out: where 5 % of all
prompts gain, 24 prompts hold none of them in 3 of 10 cases."""
_MOST_MORE = 10
"""Times as many prompts as were measured beyond which none are asked for."""


class Answer(StrEnum):
    """The answer to whether speculation pays."""

    USE = "use"
    """The whole interval is above the least gain."""
    OFF = "off"
    """None of the interval is, and a part of it is a loss worth avoiding."""
    NO_DIFFERENCE = "no-difference"
    """All of it is within the least gain, up and down."""
    UNDECIDED = "undecided"
    """The interval reaches to both sides of the least gain, or nothing was confirmed."""


class Basis(StrEnum):
    """Text that a setting was judged on."""

    UNSEEN = "unseen"
    """Prompts that had no part in choosing the setting."""
    LATER = "later"
    """Text of the prompts that chose the setting, from behind the part that chose."""
    CROSSED = "crossed"
    """Prompts that were counted with the setting that the others had chosen, some of them timed."""
    THESE = "these"
    """The answers to just these prompts: what other prompts gain is told beside it."""
    SAME = "same"
    """The prompts that chose the setting, which flatter it: nothing is recommended then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer and its reason: one sentence for humans."""

    use_speculation: bool
    reason: str
    """``advice``, a colon and ``because``; a reason alone where there is no advice."""
    answer: Answer | None = None
    """None in a verdict that an older spectui kept."""
    more_prompts: int | None = None
    """About as many further prompts would decide it; None where it is decided, or where no
    reasonable number would."""
    basis: Basis | None = None
    """None where nothing was measured, where nothing was chosen, and in a verdict that an older
    spectui kept: that could rest on the prompts that chose the setting."""

    @property
    def advice(self) -> str:
        """The advice in a few words, with the answers that are too short for it."""
        return self.reason.partition(": ")[0]

    @property
    def because(self) -> str:
        """The measurement that the advice rests on; empty where there is none."""
        return self.reason.partition(": ")[2]

    def document(self) -> Json:
        """The verdict in documents."""
        return {
            "use_speculation": self.use_speculation,
            **or_reason("answer", self.answer, "an older spectui has given it"),
            "reason": self.reason,
            **or_reason("more_prompts", self.more_prompts, "no number is known to decide it"),
            **or_reason("judged_on", self.basis, "no choice was judged"),
        }


def undecided(because: str) -> Verdict:
    """The verdict where no setting was confirmed, for a reason that is a clause."""
    return Verdict(
        use_speculation=False,
        reason=f"Nothing was decided: no setting was confirmed ({because}).",
        answer=Answer.UNDECIDED,
    )


def judge(
    speedup: Speedup,
    *,
    min_gain: float,
    what: str = "the best setting found",
    basis: Basis | None = None,
    temp: float | None = None,
    prompt_s: float | None = None,
    requests: Sequence[Request] = (),
) -> Verdict:
    """Say whether speculation pays; only if the interval's lower end is above ``1 + min_gain``.

    Args:
        speedup: measured for the best setting.
        min_gain: gain below which speculation is not worth its memory; 0.02 is 2 %.
        what: name of the best setting, as the subject of a sentence.
        basis: text of the measurement; None where no choice was made.
        temp: temperature of the measurement, for the sentence; fewer drafts are accepted at a
            higher one.
        prompt_s: seconds that one more prompt takes; None where that is not known.
        requests: whole requests; those whose answers do not go on until it pays are to gain as
            well, all together. None where it is not known what prompts take.

    Raises:
        ValueError: ``min_gain`` is negative.
    """
    if min_gain < 0:
        raise ValueError(f"min_gain {min_gain} would call a loss a gain")
    case = _Case(speedup, min_gain, what, basis, temp, prompt_s, tuple(requests))
    answer = case.answer
    return Verdict(
        use_speculation=answer is Answer.USE,
        reason=case.reason(answer),
        answer=answer,
        more_prompts=case.more_prompts,
        basis=basis,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """A measured setting: the answer, and the sentence for it."""

    measured: Speedup
    min_gain: float
    what: str
    basis: Basis | None
    temp: float | None
    prompt_s: float | None
    requests: tuple[Request, ...]

    @property
    def answer(self) -> Answer:
        """The answer for decoding, and where that gains, for the requests."""
        decoding = self._decoding
        whole = together(binding(self.requests)) if decoding is Answer.USE else None
        return decoding if whole is None else self._answer(whole.interval)

    @property
    def _decoding(self) -> Answer:
        return self._answer(None if self._unjudged else self.measured.capped.interval)

    def _answer(self, interval: tuple[float, float] | None) -> Answer:
        low, high = interval or (0.0, math.inf)
        if low > self._least:
            return Answer.USE
        if high > self._least:
            return Answer.UNDECIDED
        return Answer.NO_DIFFERENCE if low >= 1 - self.min_gain else Answer.OFF

    @property
    def _unjudged(self) -> str | None:
        """Why nothing follows from the numbers; None where an answer does."""
        measured, interval = self.measured, self.measured.capped.interval
        if measured.is_noise:
            return doubt(measured)
        if self.basis is Basis.SAME:
            return "these prompts chose it, and nothing is left to judge it on; give more prompts"
        if interval is None:
            return measured.interval_reason or NO_INTERVAL
        if self.basis is not Basis.THESE and is_sparse(measured) and interval[1] <= self._least:
            n, of = measured.n_accepting, counted(measured.n_prompts, "prompt")
            return f"drafts were accepted on {n} of {of}, too few to say what others would gain"
        return None

    @property
    def _least(self) -> float:
        """The speedup from which on speculation is worth its memory."""
        return 1 + self.min_gain

    @property
    def more_prompts(self) -> int | None:
        """Prompts until the interval no longer holds the least gain, if the estimate stays.

        Its width goes with the root of their number.
        """
        speedup, n = self.measured, self.measured.n_prompts
        if speedup.low is None or speedup.high is None:
            return max(1, MIN_PROMPTS - n)
        if self._decoding is not Answer.UNDECIDED or self._unjudged is not None:
            return None
        far = math.log(speedup.estimate / self._least)
        reach = math.log((speedup.low if far > 0 else speedup.high) / speedup.estimate)
        if not far or abs(reach) > abs(far) * math.sqrt(1 + _MOST_MORE):
            return None
        return max(1, math.ceil(n * ((reach / far) ** 2 - 1)))

    def reason(self, answer: Answer) -> str:
        """The sentence."""
        because, told = self._unjudged, self.measured.capped
        if because is not None:
            return self._not_decided(because)
        found = (told.estimate, *(told.interval or ()))
        limits = (1.0, self._least, 1 - self.min_gain)
        decimals = max(_decimals(found, limits), int(self.measured.is_capped))
        value, low, high = (gain_percent(_gain(one), decimals) for one in found)
        within = f"{100 * told.level:g} % interval {low} to {high}, {self._prompts}{self._cap}"
        decoding = self._decoding
        if decoding is Answer.USE and answer is not decoding:
            return self._refused(answer, f"{self.what} gains {value} ({within}) in decoding")
        asked = f"a gain of at least {100 * self.min_gain:g} %" if self.min_gain else "a gain"
        not_shown = f"{asked} was not shown ({self.what}: {value}, {within})"
        match answer:
            case Answer.USE:
                spread = self._spread(decimals)
                gains = f"{self.what} is worth {value}{spread} ({within}){self._whole()}"
                return f"{self._use_it}: {gains}.{self._beyond}"
            case Answer.NO_DIFFERENCE:
                return (
                    f"Leave it off: no difference worth having: {self.what} gives {value} "
                    f"({within})."
                )
            case Answer.OFF if found[2] < 1:
                loss = gain_percent(-_gain(told.estimate), decimals).removeprefix("+")
                return f"Turn it off: {self.what} makes decoding {loss} slower ({within})."
            case Answer.OFF:
                return f"Turn it off: {not_shown}."
            case Answer.UNDECIDED:
                if found[1] > 1:
                    not_shown = f"{self.what} gains {value} ({within}), but {asked} was not shown"
                return f"Not decided, so leave it off: {not_shown}; {self._takes_more}."

    def _not_decided(self, because: str) -> str:
        speedup = self.measured
        if speedup.is_noise:
            told = f"more than can be on {self._prompts}"
        else:
            told = f"{_gain_text(speedup.capped.estimate)} on {self._prompts}{self._cap}"
        return f"Not decided, so leave it off: {self.what} measured {told}; {because}."

    @property
    def _use_it(self) -> str:
        """The advice, with the answers that are too short for it."""
        shortest = [
            one.break_even
            for one in self.requests
            if one.break_even and one.break_even > one.shape.n_answer and one.pays_later
        ]
        least = max(shortest, default=0)
        return f"Use it for answers of {least:,} tokens or more" if least else "Use it"

    def _whole(self) -> str:
        """The gains of the requests, after that of decoding."""
        if not self.requests:
            return ""
        if len(self.requests) > 1:
            told = " and ".join(self._each(one, "requests of ") for one in self.requests)
            return f" in decoding, and {told}"
        (one,) = self.requests
        pays = f"; {one.pays}" if one.pays and self._use_it == "Use it" else ""
        return f" in decoding, and {self._gain_for(one, 'requests of ')}{pays}"

    def _gain_for(self, request: Request, noun: str = "") -> str:
        gain = _gain_text(request.speedup, 1.0, self._least)
        return f"{gain} for {noun}{request.shape.text}"

    def _each(self, request: Request, noun: str = "") -> str:
        """The gain of one of several requests, and the answers that it is for."""
        pays = f" ({request.pays})" if request.pays else ""
        return f"{self._gain_for(request, noun)}{pays}"

    def _refused(self, answer: Answer, decoding: str) -> str:
        """Why decoding gains, and the requests do not."""
        requests = binding(self.requests)
        whole = together(requests) or Together(1.0, None)
        ends = whole.interval or ()
        decimals = _decimals((whole.estimate, *ends), (1.0, self._least))
        value, *limits = (gain_percent(_gain(one), decimals) for one in (whole.estimate, *ends))
        shapes, pays = f"requests of {requests[0].shape.text}", ""
        if len(requests) > 1:
            shapes, pays = "these requests together", f": {', '.join(map(self._each, requests))}"
        elif requests[0].pays:
            pays = f"; {requests[0].pays}"
        slower = self._slower_there(requests)
        if answer is Answer.UNDECIDED:
            within = f"95 % interval {' to '.join(limits)}" if limits else _no_interval(requests)
            there = f", {slower}" if slower else ""
            return (
                f"Not decided for {shapes}, so leave it off: {decoding}{there}, the whole request "
                f"{value} ({within}){pays}.{self._beyond}"
            )
        if slower:
            because = f"{slower} (the whole request {value})"
        elif any(one.prompt_on_s > one.prompt_off_s for one in requests):
            is_loss = max(ends, default=1.0) < 1
            costs = "costs more than that saves" if is_loss else "costs about what that saves"
            because = f"reading the prompt with the draft {costs} ({value})"
        else:
            because = f"reading the prompt, which gains nothing, leaves too little of it ({value})"
        return f"Leave it off for {shapes}: {decoding}, but {because}{pays}.{self._beyond}"

    def _slower_there(self, requests: Sequence[Request]) -> str:
        """The gain of decoding at the depth of requests where that is too little; else empty."""
        told = []
        for one in requests:
            estimate = one.decoding.capped.estimate
            if estimate <= self._least:
                length = f"a depth of {one.shape.n_prompt:,} tokens"
                depth = length if len(requests) > 1 else "that depth"
                told.append(f"at {depth} decoding gives {_gain_text(estimate, 1.0, self._least)}")
        return " and ".join(dict.fromkeys(told))

    @property
    def _beyond(self) -> str:
        """A sentence on requests whose prompts are longer than any that was evaluated."""
        beyond = [one.shape.n_prompt for one in self.requests if not one.is_covered]
        if not beyond:
            return ""
        longest = f"{max(beyond):,}"
        return f" No prompt of about {longest} tokens was evaluated, so that is extrapolated."

    @property
    def _prompts(self) -> str:
        n, n_timed = self.measured.n_prompts, self.measured.n_timed
        told = [counted(n, "prompt")]
        if self.basis is Basis.THESE:
            told = ["this prompt" if n == 1 else f"these {told[0]}"]
        if n_timed is not None and n_timed < n:
            told.append(f"{n_timed} of them timed")
        if self.basis is Basis.LATER:
            told.append("continued behind the answers that chose it")
        if self.temp is not None:
            told.append(SamplingConfig(temp=self.temp).label)
        return ", ".join(told)

    @property
    def _cap(self) -> str:
        """The values that numbers were cut at, if any was."""
        if not self.measured.is_capped or self.measured.ceiling is None:
            return ""
        most = gain_percent(_gain(self.measured.ceiling), 1)
        return f", cut at the {most} that the accepted tokens can give"

    def _spread(self, decimals: int) -> str:
        """The interval as a ±, unless that would misstate one that is cut or lies unevenly."""
        told = self.measured.capped
        gain, low, high = map(_gain, (told.estimate, *(told.interval or ())))
        below, above, half = gain - low, high - gain, (high - low) / 2
        is_even = max(below, above) <= _EVEN * min(below, above)
        # A gain that was shown must not look like one that may be none.
        is_shown = gain - half > 100 * self.min_gain
        if is_large(high) or not is_even or not is_shown or self.measured.is_capped:
            return ""
        return f" ± {half:.{decimals}f}"

    @property
    def _takes_more(self) -> str:
        """The measurement that would decide it."""
        more = self.more_prompts
        if more is None:
            return "no reasonable number of prompts would decide it"
        time = ""
        if self.prompt_s is not None:
            minutes = round(more * self.prompt_s / 60)
            time = f", {f'{minutes} min' if minutes > 1 else duration_text(more * self.prompt_s)},"
        return f"about {counted(more, 'more prompt')}{time} may decide it"


def on_others(speedup: Speedup) -> str:
    """A sentence on what prompts like the measured ones gain, beside the answer for just those."""
    interval, n = speedup.capped.interval, speedup.n_prompts
    if interval is None or is_sparse(speedup):
        these = "this prompt does" if n == 1 else f"these {n} prompts do"
        return f"What other prompts gain, {these} not tell."
    decimals = _decimals(interval, (1.0,))
    low, high = (gain_percent(_gain(one), decimals) for one in interval)
    return f"Other prompts like these gain {low} to {high}."


def is_sparse(speedup: Speedup) -> bool:
    """Whether so few prompts gained that what others gain may be far from it."""
    n = speedup.n_accepting
    return n is not None and n < _FEWEST_ACCEPTING


def _no_interval(requests: Sequence[Request]) -> str:
    """Why the gain of requests has no interval, in a clause."""
    decoding = next(one.decoding for one in requests if one.ends_s is None)
    because = doubt(decoding) if decoding.is_noise else decoding.interval_reason
    return because or NO_INTERVAL


NOISE = "the machine's noise"


def doubt(speedup: Speedup, cause: str = NOISE) -> str | None:
    """Why a speedup cannot be what speculation gave, in a clause; None where it can be.

    Args:
        speedup: measured speedup.
        cause: the other cause of the speedup.
    """
    if speedup.ceiling is None or not speedup.is_above_ceiling:
        return None
    most = (
        f"the tokens that were accepted can give {gain_percent(_gain(speedup.ceiling), 1)} at most"
        if speedup.ceiling > 1
        else "no token was accepted that could give a gain"
    )
    if not speedup.is_noise:
        return f"{most}: {cause} is part of it"
    if speedup.low is None:
        return f"{most}: this is {cause}"
    return f"{most}, and all of the interval is above that: this is {cause}"


def _gain(speedup: float) -> float:
    return 100 * (speedup - 1)


def _gain_text(speedup: float, *limits: float) -> str:
    return gain_percent(_gain(speedup), _decimals((speedup,), limits or (1.0,)))


def _decimals(speedups: Sequence[float], limits: Sequence[float]) -> int:
    """Fewest decimals that keep every gain on its side of every limit when printed in per cent."""
    pairs = list(product(map(_gain, speedups), map(_gain, limits)))
    for decimals in range(_MAX_DECIMALS):
        if all(
            math.isclose(value, limit, abs_tol=_EQUAL)
            or round(value, decimals) != round(limit, decimals)
            for value, limit in pairs
        ):
            return decimals
    return _MAX_DECIMALS
