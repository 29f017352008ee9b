"""``tune --server-bin``: the confirmed setting is checked on the user's own llama-server."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from spectui.documents import Json, or_reason
from spectui.errors import CancelledError, SpectuiError
from spectui.format import counted, duration_text
from spectui.measure.arm import Arm
from spectui.measure.backend import header
from spectui.measure.reading import prompt_times
from spectui.measure.requests import Request, binding, requests_of, together
from spectui.measure.served_models import size_bytes
from spectui.measure.servers import most_starts
from spectui.measure.slots import request_s
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.verdict import Basis, Verdict, doubt, judge
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.tune.result import TuneResult
from spectui.tune.tuning import Tuning
from spectui.verify.claim import Claim
from spectui.verify.result import Verified, warnings
from spectui.verify.verification import Serving, verify

_SHARE = 0.25
"""Share of the time budget reserved for llama-server: the search uses all that it is given."""
_START_S = 2.0
"""Seconds to start a server without its models: libraries, warm-up, a first request."""
_LOADED_BYTES_PER_S = 1e9
"""Bytes per second from a file that was read before."""
_MARGIN = 1.1
"""Safety factor of the estimates."""


def search_budget_s(budget_s: float | None, *, has_server: bool) -> float | None:
    """Seconds for the search; the rest of ``--time-budget`` is reserved for llama-server."""
    return budget_s * (1 - _SHARE) if has_server and budget_s is not None else budget_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a check on llama-server."""

    prompt_s: float
    """Seconds per prompt, with and without speculation."""
    starts_s: float
    """Seconds to start the servers."""

    @classmethod
    def of(cls, result: TuneResult, claim: Claim, *, keeps_off: bool) -> "Cost":
        """Estimate the cost from the engine's measurements of a setting.

        Args:
            result: result of the search.
            claim: setting to check.
            keeps_off: whether both servers run at once.
        """
        seconds = [sum(request_s(pair)) for pair in result.pairs]
        model_bytes = sum(size_bytes(model.path) for model in claim.case.models)
        start_s = _START_S + model_bytes / _LOADED_BYTES_PER_S
        return cls(
            prompt_s=sum(seconds) / len(seconds),
            starts_s=most_starts(1, keeps_off=keeps_off) * start_s,
        )

    def seconds(self, n_prompts: int) -> float:
        """Duration of a check."""
        return _MARGIN * (self.starts_s + n_prompts * self.prompt_s)

    def affordable(self, left_s: float | None, n_prompts: int) -> tuple[int, str | None]:
        """Number of prompts that fit in the time, and the reason for fewer than all.

        Args:
            left_s: seconds left of the time budget; None without one.
            n_prompts: number of prompts.
        """
        if left_s is None or self.seconds(n_prompts) <= left_s:
            return n_prompts, None
        fewest = min(MIN_PROMPTS, n_prompts)
        found = int((left_s / _MARGIN - self.starts_s) / self.prompt_s)
        if found >= fewest:
            return found, f"for want of time llama-server was given {found} of {n_prompts} prompts"
        # In whole seconds, what does not fit must not look as if it did.
        has_s = math.floor(max(left_s, 0))
        needs_s = max(has_s + 1, math.ceil(self.seconds(fewest)))
        return 0, (
            f"llama-server was not measured: of the time budget {duration_text(has_s)} are left, "
            f"and {fewest} prompts take about {duration_text(needs_s)}; give more --time-budget, "
            "or run spectui verify"
        )


def spread(prompts: Sequence[Prompt], n: int) -> tuple[Prompt, ...]:
    """Pick ``n`` of the prompts, from as many categories as possible."""
    if n >= len(prompts):
        return tuple(prompts)
    turns: dict[str, count[int]] = {}
    turn = {one.id: next(turns.setdefault(one.category, count())) for one in prompts}
    return tuple(sorted(prompts, key=lambda one: turn[one.id])[:n])


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The confirmed setting on llama-server."""

    arm: Arm
    found: Verified | None
    """None where it was not measured."""
    verdict: Verdict
    """Verdict of the engine, or llama-server's own where it says otherwise."""
    ended: BaseException | None = None
    """The error that ended it early."""
    limited: str | None = None
    """Reason why not all prompts were measured there."""
    took_s: float = 0.0

    def lines(self) -> Iterator[str]:
        """The setting in a sentence, with its warnings."""
        if self.limited is not None:
            yield f"note: {self.limited}."
        one = self.found
        if one is None:
            return
        if one.verdict is not None and one.speedup is not None:
            told = one.verdict.removeprefix("delivered: ")
            yield f"On llama-server {self.arm.label} gave {told}."
            yield from _doubt(one.speedup)
        yield from (f"warning: {warning}" for warning in warnings(one))

    def document(self) -> Json:
        """The ``verify`` document of the setting, in a list as before there was but one."""
        one, params = self.found, {"params": self.arm.document()}
        head = {**params, **header("verify", this_machine())}
        return {
            "served": [] if one is None else [{**head, **one.document()}],
            **or_reason("served_limited", self.limited, "there was time for all of it"),
            "served_s": self.took_s,
        }

    def judged(self, result: TuneResult, budget_s: float | None) -> TuneResult:
        """The result with this verdict, and the time of both.

        Args:
            result: result of the search.
            budget_s: time budget of both; None for no limit.
        """
        took_s = result.spent.took_s + self.took_s
        spent = replace(result.spent, budget_s=budget_s, took_s=took_s)
        return replace(result, verdict=self.verdict, spent=spent)


def _doubt(speedup: Speedup) -> Iterator[str]:
    because = doubt(speedup)
    if speedup.is_noise:
        yield "note: such a number decides nothing: the verdict is that of spectui's own engine."
    elif because is not None:
        yield f"note: {because}."


def serve(
    tuning: Tuning,
    result: TuneResult,
    serving: Serving,
    prompts: Sequence[Prompt],
    *,
    budget_s: float | None,
) -> Served | None:
    """Verify the confirmed setting; None if nothing was confirmed.

    A failure or an interrupt ends it with what there is.

    Args:
        tuning: the search.
        result: result of the search.
        serving: the binary, and how it is used.
        prompts: prompts of the run.
        budget_s: total time budget, including the search; None for no limit.
    """
    claim = _claim(tuning, result, prompts)
    if claim is None or result.best is None:
        return None
    began_s = time.monotonic()
    left_s = None if budget_s is None else budget_s - result.spent.took_s
    cost = Cost.of(result, claim, keeps_off=serving.has_both(claim.case))
    n_prompts, limited = cost.affordable(left_s, len(claim.prompts))
    if left_s is not None:
        ends_s = began_s + left_s
        serving = replace(serving, has_time=lambda: time.monotonic() < ends_s)
    found, ended = _measured(serving, claim, n_prompts)
    verdict = result.verdict
    if found is not None and ended is None:
        n_pairs = len(found.pairs)
        if n_pairs < n_prompts:
            n = counted(n_pairs, "prompt")
            limited = f"the time budget ended the measurement on llama-server after {n}"
        # What ended before the fewest prompts decides nothing.
        if n_pairs >= min(MIN_PROMPTS, n_prompts):
            verdict = _verdict(tuning, result, result.best, found)
    return Served(
        arm=result.best,
        found=found,
        verdict=verdict,
        ended=ended,
        limited=limited,
        took_s=time.monotonic() - began_s,
    )


def _verdict(tuning: Tuning, result: TuneResult, arm: Arm, found: Verified) -> Verdict:
    if found.speedup is None:
        return result.verdict
    return verdict_by_server(
        result.verdict,
        arm,
        found.speedup,
        min_gain=tuning.setup.min_gain,
        requests=_requests(tuning, arm, found),
    )


def _measured(
    serving: Serving, claim: Claim, n_prompts: int
) -> tuple[Verified | None, BaseException | None]:
    """Measure some of the prompts; return what ended that early as well."""
    if not n_prompts:
        return None, None
    try:
        found = verify(replace(claim, prompts=spread(claim.prompts, n_prompts)), serving)
    except (KeyboardInterrupt, SpectuiError) as error:
        return None, error
    return found, found.ended


def _claim(tuning: Tuning, result: TuneResult, prompts: Sequence[Prompt]) -> Claim | None:
    winner = next((one for one in result.finalists if one.arm == result.best), None)
    promise = None if winner is None else tuning.promise_of(winner, result.verdict.basis)
    if promise is None:
        return None
    measured = tuple(one for one in prompts if one.id in promise.prompt_ids)
    return Claim(case=promise.case, prompts=measured, promise=promise, study=tuning.name)


def _requests(tuning: Tuning, arm: Arm, found: Verified) -> tuple[Request, ...]:
    """Whole requests by the servers' numbers; none where prompts or tokens are not known."""
    times = prompt_times(found.pairs, reads=arm.reader is not None)
    return requests_of(tuning.setup.shapes, found.speedup, found.pairs, times).value or ()


def verdict_by_server(
    verdict: Verdict,
    arm: Arm,
    delivered: Speedup,
    *,
    min_gain: float,
    requests: Sequence[Request] = (),
) -> Verdict:
    """The engine's verdict, or the server's own where its numbers say otherwise.

    What cannot be is the machine's noise, and decides nothing.

    Args:
        verdict: verdict of spectui's own engine.
        arm: its setting.
        delivered: speedup by the server.
        min_gain: least gain for which speculation is advised.
        requests: whole requests by the server's numbers.
    """
    if delivered.is_noise:
        return verdict
    # What no prompt of the servers was as long as stands against what was measured at depth.
    covered = tuple(one for one in requests if one.is_covered)
    own = judge(delivered, min_gain=min_gain, what=arm.label, requests=covered)
    if verdict.use_speculation:
        # An advice stands as long as off is not faster: few prompts need not show it once more.
        is_other, before = _worth(delivered, covered) <= 1 + min_gain, "to use it"
    else:
        # The servers continued the prompts themselves, on which the setting was chosen then.
        is_judged = verdict.basis not in {Basis.LATER, Basis.SAME}
        is_whole = len(covered) == len(requests)
        is_other, before = own.use_speculation and is_judged and is_whole, "to leave it off"
    if not is_other:
        return verdict
    reason = (
        f"{own.reason} These are llama-server's own numbers, which count more; in spectui's own "
        f"engine it was {before}."
    )
    return replace(own, use_speculation=not verdict.use_speculation, reason=reason)


def _worth(speedup: Speedup, requests: Sequence[Request]) -> float:
    """The gain of decoding, or that of the requests where it is less."""
    whole = together(binding(requests))
    return speedup.estimate if whole is None else min(whole.estimate, speedup.estimate)


def failure_of(ended: BaseException) -> BaseException:
    """The error that ended it early, worded for users."""
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        return CancelledError("interrupted on llama-server; what tune has found is shown and kept")
    return ended
