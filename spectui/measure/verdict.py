"""The verdict: whether to use speculation, in one sentence with the measurement behind it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.format import counted, gain_percent
from spectui.measure.requests import Request, binding, together
from spectui.measure.speedup import NO_INTERVAL, Speedup, gain_texts, spread_text
from spectui.measure.statistics import MIN_PROMPTS
from spectui.options.setup import SamplingConfig

_FEWEST_ACCEPTING = 5
"""Prompts with an accepted draft below which rare gains cannot be ruled out: where 5 % of all
prompts gain, 24 prompts hold none of them in 3 of 10 cases."""
_MOST_MORE = 10
"""Limit of the further prompts that are advised, as a multiple of the measured ones."""


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
    """The answers to just these prompts: the gain on other prompts is reported beside it."""
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
    others: Speedup | None = None,
) -> Verdict:
    """Judge whether to use speculation: only if the whole interval is above the least gain.

    Args:
        speedup: measured speedup of the best setting over off.
        min_gain: gain below which speculation is not worth its memory, at least 0; 0.02 is 2 %.
        what: name of the best setting, as the subject of a sentence.
        basis: text of the measurement; None where no choice was made.
        temp: temperature of the measurement, for the sentence; fewer drafts are accepted at a
            higher one.
        requests: whole requests; those whose answers do not go on until it pays are to gain as
            well, all together. None where it is not known what prompts take.
        others: gain on prompts like these, where the answer is for just these; else None.
    """
    unjudged = _unjudged(speedup, basis, min_gain)
    answer = _answer(() if unjudged else speedup.values[1:], min_gain)
    more = _more_prompts(speedup, min_gain, is_open=answer is Answer.UNDECIDED and not unjudged)
    measured, whole = _measured(speedup, basis, temp), together(binding(requests))
    reason = f"{_ADVICE[answer]}: {what} gives {measured}"
    if answer is Answer.UNDECIDED:
        reason = f"{reason}; {unjudged or _what_decides(more, min_gain)}"
    elif answer is Answer.USE:
        reason = f"{_use_it(requests)}: {what} is worth {measured}{_request_gains(requests)}"
        if whole:
            answer = _answer(whole[1:], min_gain)
            if answer is not Answer.USE:
                advice = _refusal(answer, binding(requests))
                reason = f"{advice}: {what} gives {measured} in decoding, but {_with_prompt(whole)}"
    beside = "" if others is None else f" {_on_others(others)}"
    return Verdict(
        use_speculation=answer is Answer.USE,
        reason=f"{reason}.{beside}",
        answer=answer,
        more_prompts=more,
        basis=basis,
    )


_ADVICE = {
    Answer.USE: "Use it",
    Answer.NO_DIFFERENCE: "Leave it off: no difference worth having",
    Answer.OFF: "Turn it off",
    Answer.UNDECIDED: "Not decided, so leave it off",
}


def _answer(ends: Sequence[float], min_gain: float) -> Answer:
    """The answer that follows from the ends of an interval; ``UNDECIDED`` without them."""
    low, high = ends or (0.0, math.inf)
    if low > 1 + min_gain:
        return Answer.USE
    if high > 1 + min_gain:
        return Answer.UNDECIDED
    return Answer.NO_DIFFERENCE if low >= 1 - min_gain else Answer.OFF


def _unjudged(measured: Speedup, basis: Basis | None, min_gain: float) -> str | None:
    """Why nothing follows from the numbers, in a clause; None where an answer does."""
    interval = measured.capped.interval
    if measured.is_noise:
        return doubt(measured)
    if basis is Basis.SAME:
        return "these prompts chose it, and nothing is left to judge it on; give more prompts"
    if interval is None:
        return measured.interval_reason or NO_INTERVAL
    if basis is not Basis.THESE and is_sparse(measured) and interval[1] <= 1 + min_gain:
        n, of = measured.n_accepting, counted(measured.n_prompts, "prompt")
        return f"drafts were accepted on {n} of {of}, too few to say what others would gain"
    return None


def _more_prompts(speedup: Speedup, min_gain: float, *, is_open: bool) -> int | None:
    """Prompts until the interval no longer holds the least gain, if the estimate stays.

    Its width goes with the root of their number.
    """
    n = speedup.n_prompts
    if speedup.low is None or speedup.high is None:
        return max(1, MIN_PROMPTS - n)
    far = math.log(speedup.estimate / (1 + min_gain))
    reach = math.log((speedup.low if far > 0 else speedup.high) / speedup.estimate)
    if not is_open or not far or abs(reach) > abs(far) * math.sqrt(1 + _MOST_MORE):
        return None
    return max(1, math.ceil(n * ((reach / far) ** 2 - 1)))


def _what_decides(more: int | None, min_gain: float) -> str:
    """Clause on the further prompts that may decide an open answer."""
    gains = f"it gains {100 * min_gain:g} %" if min_gain else "it gains anything"
    if more is None:
        return f"no reasonable number of prompts would show whether {gains}"
    return f"about {counted(more, 'more prompt')} may show whether {gains}"


def _measured(speedup: Speedup, basis: Basis | None, temp: float | None) -> str:
    """A measured speedup with its interval and what it was measured on."""
    n, n_timed = speedup.n_prompts, speedup.n_timed
    facts = [counted(n, "prompt")]
    if basis is Basis.THESE:
        facts = ["this prompt" if n == 1 else f"these {facts[0]}"]
    if n_timed is not None and n_timed < n:
        facts.append(f"{n_timed} of them timed")
    if temp is not None:
        facts.append(SamplingConfig(temp=temp).label)
    if speedup.is_noise:
        return f"more than is possible ({', '.join(facts)})"
    value, *ends = gain_texts(speedup.values)
    if not speedup.is_capped:
        value += spread_text(speedup.values)
    if ends:
        facts.insert(0, f"{100 * speedup.level:g} % interval {' to '.join(ends)}")
    if speedup.is_capped:
        facts.append("cut at what the accepted tokens can give")
    return f"{value} ({', '.join(facts)})"


def _use_it(requests: Sequence[Request]) -> str:
    """The advice to use it, with the answers that are too short for it."""
    shortest = [
        one.break_even
        for one in requests
        if one.break_even and one.break_even > one.shape.n_answer and one.pays_later
    ]
    least = max(shortest, default=0)
    return f"Use it for answers of {least:,} tokens or more" if least else "Use it"


def _request_gains(requests: Sequence[Request]) -> str:
    """The gain of each request, behind that of decoding."""
    gains = (f"{gain_texts([one.speedup])[0]} for requests of {one.shape.text}" for one in requests)
    return f" in decoding, and {' and '.join(gains)}" if requests else ""


def _refusal(answer: Answer, requests: Sequence[Request]) -> str:
    """The advice where decoding gains, and the requests do not."""
    shapes = f"requests of {' and '.join(one.shape.text for one in requests)}"
    if answer is Answer.UNDECIDED:
        return f"Not decided for {shapes}, so leave it off"
    return f"Leave it off for {shapes}"


def _with_prompt(whole: Sequence[float]) -> str:
    """The gain of requests with their prompts."""
    value, *ends = gain_texts(whole)
    return f"{value} ({' to '.join(ends) or 'without an interval'}) with the prompt"


def _on_others(speedup: Speedup) -> str:
    """A sentence on what prompts like the measured ones gain, beside the answer for just those."""
    _value, *ends = gain_texts(speedup.values)
    if not ends or is_sparse(speedup):
        return f"{counted(speedup.n_prompts, 'prompt')} cannot tell what others gain."
    return f"Other prompts like these gain {' to '.join(ends)}."


def is_sparse(speedup: Speedup) -> bool:
    """Whether so few prompts gained that what others gain may be far from it."""
    n = speedup.n_accepting
    return n is not None and n < _FEWEST_ACCEPTING


def doubt(speedup: Speedup) -> str | None:
    """Why a speedup cannot be what speculation gave, in a clause; None where it can be."""
    if speedup.ceiling is None or not speedup.exceeds_ceiling(speedup.estimate):
        return None
    most = gain_percent(100 * (speedup.ceiling - 1), 1)
    share = "this is" if speedup.is_noise else "part of it is"
    return f"the tokens that were accepted can give {most} at most: {share} the machine's noise"
