"""Whole requests: the prompt's evaluation and the answer, without and with speculation. Pure.

A draft model reads the prompt as well, so that the first token comes later than without one, and an
answer has to be long enough to win that back. What evaluating a prompt takes follows from prompts
that were evaluated for the first time; what is known of decoding has an interval, and these seconds
are point estimates beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from spectui.documents import Json, Known, or_reason
from spectui.format import time_text, times_text
from spectui.measure.measurer import Pair, throughput
from spectui.measure.reading import PromptTimes, is_covered
from spectui.measure.speedup import NO_INTERVAL, Speedup
from spectui.measure.workload import Workload
from spectui.options.request import RequestShape


def usual_shape(workload: Workload, n_ctx: int | None = None) -> RequestShape:
    """Lengths of the user's requests: the median of the prompts, and what is predicted.

    Args:
        workload: prompts, and tokens to predict.
        n_ctx: tokens that answers may fill in use; None where they end after what is predicted.
    """
    n_prompt = round(median(len(item.tokens) for item in workload.items))
    longest = None if n_ctx is None else n_ctx - n_prompt
    return RequestShape(n_prompt=n_prompt, n_answer=workload.n_predict, longest_answer=longest)


_SHORTEST = 2
"""Tokens of the shortest answer of which anything is decoded: the first comes with the prompt."""

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Seconds of requests of one shape, without and with speculation."""

    shape: RequestShape
    prompt_off_s: float
    """Seconds until the first token, which comes with the prompt."""
    prompt_on_s: float
    token_s: float
    """Seconds of a further token without speculation."""
    decoding: Speedup
    """Speedup of these tokens."""
    beyond: tuple[str, ...] = ()
    """Parts of it that are longer than all that were measured: "prompt", "answer"."""

    @property
    def off_s(self) -> float:
        """Seconds without speculation."""
        return self.prompt_off_s + self._decode_s

    @property
    def on_s(self) -> float:
        """Seconds with speculation."""
        return self._on_s(self.decoding.capped.estimate)

    @property
    def speedup(self) -> float:
        """Speedup of the whole request."""
        return self.off_s / self.on_s

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the speedup, where decoding has an interval; a prompt's seconds have none."""
        ends = self.ends_s
        return None if ends is None else (self.off_s / ends[0], self.off_s / ends[1])

    @property
    def ends_s(self) -> tuple[float, float] | None:
        """Seconds with speculation at either end of decoding's interval, the slowest first.

        None where there is no interval, or nothing but the machine's noise in it.
        """
        ends = None if self.decoding.is_noise else self.decoding.capped.interval
        return None if ends is None else (self._on_s(ends[0]), self._on_s(ends[1]))

    @property
    def break_even(self) -> int | None:
        """Shortest answer, in tokens, from which on none is slower with speculation; 0 for any.

        None where decoding gains nothing that could win back what the prompt costs, or loses.
        """
        extra_s, speedup = self.prompt_on_s - self.prompt_off_s, self.decoding.capped.estimate
        # Sums in another order make no loss of what is equal.
        saved_s = 0.0 if math.isclose(speedup, 1) else self.token_s * (1 - 1 / speedup)
        if saved_s < 0 or (extra_s > 0 and not saved_s):
            return None
        # A sum of seconds may be off in its last digit.
        return 1 + math.ceil(round(extra_s / saved_s, _DIGITS)) if extra_s > 0 else 0

    @property
    def pays_later(self) -> bool:
        """Whether its answer may go on until it pays."""
        least, longest = self.break_even, self.shape.longest_answer
        return least is not None and longest is not None and least <= longest

    @property
    def _decode_s(self) -> float:
        return self.token_s * max(self.shape.n_answer - 1, 0)

    def _on_s(self, speedup: float) -> float:
        return self.prompt_on_s + self._decode_s / speedup

    @property
    def pays(self) -> str:
        """From which answers on it pays, or that none does; empty where any does, or is open."""
        least = self.break_even
        if least is not None and least > _SHORTEST:
            return f"it pays from answers of {least:,} tokens on"
        _low, high = (not self.decoding.is_noise and self.decoding.capped.interval) or (0, math.inf)
        loses = least is None and high <= 1 and self.prompt_on_s >= self.prompt_off_s
        return "it never pays" if loses else ""

    @property
    def summary(self) -> str:
        """Seconds without and with speculation, for reports."""
        longer = " or ".join(self.beyond)
        beyond = f", as extrapolated: no {longer} was as long" if longer else ""
        first = f"{time_text(self.prompt_off_s)} off, {time_text(self.prompt_on_s)} on"
        pays = f"; {self.pays}" if self.pays else ""
        return (
            f"{self.shape.text} (prompt + answer): {time_text(self.off_s)} off, "
            f"{time_text(self.on_s)} on ({times_text(self.speedup)}){beyond}; "
            f"the first token after {first}{pays}"
        )

    def document(self) -> Json:
        """The request in documents; ``break_even`` is in tokens."""
        no_interval = self.decoding.interval_reason or NO_INTERVAL
        return {
            "n_prompt": self.shape.n_prompt,
            "n_answer": self.shape.n_answer,
            "time_to_first_token_s": {"off": self.prompt_off_s, "on": self.prompt_on_s},
            "total_s": {"off": self.off_s, "on": self.on_s},
            "decoding_speedup": self.decoding.capped.estimate,
            "speedup": self.speedup,
            **or_reason("speedup_ci95", self.interval, no_interval),
            **or_reason("break_even", self.break_even, "decoding gains nothing"),
            "is_extrapolated": bool(self.beyond),
        }


def request_of(
    shape: RequestShape, times: PromptTimes, speedup: Speedup, token_s: float, n_predict: int
) -> Request:
    """A request, from what prompts and tokens take.

    Args:
        shape: its lengths.
        times: seconds of prompts.
        speedup: of decoding.
        token_s: seconds of a token of the target alone.
        n_predict: tokens that prompts were continued with, at most.
    """
    parts = {
        "prompt": times.covers(shape.n_prompt),
        # N-gram drafters gain more the longer an answer is: it repeats itself.
        "answer": is_covered(shape.n_answer, n_predict),
    }
    return Request(
        shape=shape,
        prompt_off_s=times.off.seconds(shape.n_prompt),
        prompt_on_s=times.on_s(shape.n_prompt),
        token_s=token_s,
        decoding=speedup,
        beyond=tuple(part for part, is_known in parts.items() if not is_known),
    )


def requests_of(
    shapes: Sequence[RequestShape],
    speedup: Speedup | None,
    pairs: Sequence[Pair],
    times: Known[PromptTimes],
    n_predict: int,
) -> Known[tuple[Request, ...]]:
    """Requests of every shape.

    Args:
        shapes: their lengths.
        speedup: of decoding; None where nothing was compared.
        pairs: prompts that it was measured on.
        times: seconds of prompts.
        n_predict: tokens that prompts were continued with, at most.
    """
    rate, known = throughput([pair.baseline for pair in pairs]), times.value
    if speedup is None or not rate:
        return Known(None, "no setting was confirmed")
    if known is None:
        return Known(None, times.reason)
    return Known(tuple(request_of(shape, known, speedup, 1 / rate, n_predict) for shape in shapes))


def binding(requests: Sequence[Request]) -> tuple[Request, ...]:
    """The requests without whose gain speculation is not worth it."""
    return tuple(one for one in requests if not one.pays_later)


def together(requests: Sequence[Request]) -> tuple[float, ...]:
    """Speedup of all requests, one of each, and the ends of its interval; empty of no request.

    It has no ends where those of any request are not known.
    """
    if not requests:
        return ()
    off_s = sum(one.off_s for one in requests)
    estimate = off_s / sum(one.on_s for one in requests)
    ends = [ends for one in requests if (ends := one.ends_s) is not None]
    if len(ends) < len(requests):
        return (estimate,)
    slowest_s, fastest_s = (sum(each) for each in zip(*ends, strict=True))
    return estimate, off_s / slowest_s, off_s / fastest_s
