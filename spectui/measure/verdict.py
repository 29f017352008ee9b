"""Whether to use speculation, in one sentence that says what it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from spectui.documents import Json, or_reason
from spectui.format import counted, gain_percent, is_large
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
    requests: Sequence[Request] = (),
) -> Verdict:
    """Say whether to use speculation: only if the whole interval is above the least gain.

    Args:
        speedup: measured speedup of the best setting over off.
        min_gain: gain below which speculation is not worth its memory; 0.02 is 2 %.
        what: name of the best setting, as the subject of a sentence.
        basis: text of the measurement; None where no choice was made.
        temp: temperature of the measurement, for the sentence; fewer drafts are accepted at a
            higher one.
        requests: whole requests; those whose answers do not go on until it pays are to gain as
            well, all together. None where it is not known what prompts take.

    Raises:
        ValueError: ``min_gain`` is negative.
    """
    if min_gain < 0:
        raise ValueError(f"min_gain {min_gain} would call a loss a gain")
    case = _Case(speedup, min_gain, what, basis, temp, tuple(requests))
    decoding, whole = case.decoding, together(binding(case.requests))
    if decoding is not Answer.USE or whole is None:
        answer, reason = decoding, case.reason(decoding)
    else:
        answer = case.answer_of(whole.interval)
        reason = case.reason(answer) if answer is Answer.USE else case.refusal(answer, whole)
    return Verdict(
        use_speculation=answer is Answer.USE,
        reason=reason,
        answer=answer,
        more_prompts=case.more_prompts,
        basis=basis,
    )


_SENTENCES = {
    Answer.USE: "{use}: {what} is worth {value}{spread} ({within}){requests}.{beyond}",
    Answer.NO_DIFFERENCE: (
        "Leave it off: no difference worth having: {what} gives {value} ({within})."
    ),
    Answer.OFF: "Turn it off: {asked} was not shown ({what}: {value}, {within}).",
    Answer.UNDECIDED: (
        "Not decided, so leave it off: {asked} was not shown ({what}: {value}, {within}); {more}."
    ),
}
_SLOWER = "Turn it off: {what} makes decoding {loss} slower ({within})."
_UNJUDGED = "Not decided, so leave it off: {what} measured {measured}; {because}."
_REFUSED = (
    "{advice}: {what} gains {value} ({within}) in decoding, but {whole} with the prompt{pays}."
    "{beyond}"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """A measured setting, and the parts of the sentence on it."""

    measured: Speedup
    min_gain: float
    what: str
    basis: Basis | None
    temp: float | None
    requests: tuple[Request, ...]

    @property
    def decoding(self) -> Answer:
        """The answer for decoding alone."""
        return self.answer_of(None if self.unjudged else self.measured.capped.interval)

    def answer_of(self, interval: tuple[float, float] | None) -> Answer:
        """The answer that follows from an interval."""
        low, high = interval or (0.0, math.inf)
        if low > self.least:
            return Answer.USE
        if high > self.least:
            return Answer.UNDECIDED
        return Answer.NO_DIFFERENCE if low >= 1 - self.min_gain else Answer.OFF

    @property
    def unjudged(self) -> str | None:
        """Why nothing follows from the numbers; None where an answer does."""
        measured, interval = self.measured, self.measured.capped.interval
        if measured.is_noise:
            return doubt(measured)
        if self.basis is Basis.SAME:
            return "these prompts chose it, and nothing is left to judge it on; give more prompts"
        if interval is None:
            return measured.interval_reason or NO_INTERVAL
        if self.basis is not Basis.THESE and is_sparse(measured) and interval[1] <= self.least:
            n, of = measured.n_accepting, counted(measured.n_prompts, "prompt")
            return f"drafts were accepted on {n} of {of}, too few to say what others would gain"
        return None

    @property
    def least(self) -> float:
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
        if self.decoding is not Answer.UNDECIDED or self.unjudged is not None:
            return None
        far = math.log(speedup.estimate / self.least)
        reach = math.log((speedup.low if far > 0 else speedup.high) / speedup.estimate)
        if not far or abs(reach) > abs(far) * math.sqrt(1 + _MOST_MORE):
            return None
        return max(1, math.ceil(n * ((reach / far) ** 2 - 1)))

    def reason(self, answer: Answer) -> str:
        """The sentence on decoding, and on requests that gain as well."""
        if self.unjudged is not None:
            return _UNJUDGED.format(what=self.what, measured=self._measured, because=self.unjudged)
        told = self.measured.capped
        sentence = _SENTENCES[answer]
        if answer is Answer.OFF and told.high is not None and told.high < 1:
            sentence = _SLOWER
        more, requests = self.more_prompts, self.requests
        return sentence.format(
            **self._numbers,
            use=self._use_it,
            spread=self._spread,
            requests=f" in decoding, and {self._gains(requests)}" if requests else "",
            beyond=self._beyond,
            more=(
                "no reasonable number of prompts would decide it"
                if more is None
                else f"about {counted(more, 'more prompt')} may decide it"
            ),
        )

    def refusal(self, answer: Answer, whole: Together) -> str:
        """The sentence where decoding gains, and the requests do not."""
        requests = binding(self.requests)
        for_these = f"for requests of {requests[0].shape.text}"
        if len(requests) > 1:
            for_these = "for these requests together"
        advice = f"Leave it off {for_these}"
        if answer is Answer.UNDECIDED:
            advice = f"Not decided {for_these}, so leave it off"
        ends = whole.interval or ()
        decimals = _decimals((whole.estimate, *ends), (1.0, self.least))
        value, *limits = (gain_percent(_gain(one), decimals) for one in (whole.estimate, *ends))
        within = f"95 % interval {' to '.join(limits)}" if limits else _no_interval(requests)
        return _REFUSED.format(
            **self._numbers,
            advice=advice,
            whole=f"{value} ({within})",
            pays=f"; {requests[0].pays}" if len(requests) == 1 and requests[0].pays else "",
            beyond=self._beyond,
        )

    @property
    def _numbers(self) -> dict[str, str]:
        """The setting, and the measurement in per cent."""
        told, decimals = self.measured.capped, self._n_decimals
        value, *ends = (gain_percent(_gain(one), decimals) for one in self._found)
        return {
            "what": self.what,
            "asked": f"a gain of at least {100 * self.min_gain:g} %" if self.min_gain else "a gain",
            "value": value,
            "loss": gain_percent(-_gain(told.estimate), decimals).removeprefix("+"),
            "within": (
                f"{100 * told.level:g} % interval {' to '.join(ends)}, {self._prompts}{self._cap}"
            ),
        }

    @property
    def _found(self) -> tuple[float, ...]:
        told = self.measured.capped
        return (told.estimate, *(told.interval or ()))

    @property
    def _n_decimals(self) -> int:
        limits = (1.0, self.least, 1 - self.min_gain)
        return max(_decimals(self._found, limits), int(self.measured.is_capped))

    @property
    def _measured(self) -> str:
        """The measurement that decides nothing."""
        if self.measured.is_noise:
            return f"more than can be on {self._prompts}"
        return f"{_gain_text(self.measured.capped.estimate)} on {self._prompts}{self._cap}"

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

    def _gains(self, requests: Sequence[Request]) -> str:
        """The gain of each request."""
        return " and ".join(
            f"{_gain_text(one.speedup, 1.0, self.least)} for requests of {one.shape.text}"
            for one in requests
        )

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

    @property
    def _spread(self) -> str:
        """The interval as a ±, unless that would misstate one that is cut or lies unevenly."""
        gain, *ends = map(_gain, self._found)
        if not ends or self.measured.is_capped:
            return ""
        low, high = ends
        below, above, half = gain - low, high - gain, (high - low) / 2
        is_even = max(below, above) <= _EVEN * min(below, above)
        # A gain that was shown must not look like one that may be none.
        is_shown = gain - half > 100 * self.min_gain
        if is_large(high) or not is_even or not is_shown:
            return ""
        return f" ± {half:.{self._n_decimals}f}"


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
