"""``tune --server-bin``: ranks the best settings on the user's own llama-server."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

from spectui.documents import Json, or_reason
from spectui.errors import CancelledError, SpectuiError
from spectui.format import counted, duration_text
from spectui.measure.arm import OFF, Arm
from spectui.measure.backend import header
from spectui.measure.measurer import Pair
from spectui.measure.reading import prompt_times
from spectui.measure.requests import Request, binding, requests_of, together
from spectui.measure.served_models import size_bytes
from spectui.measure.servers import most_starts
from spectui.measure.slots import request_s
from spectui.measure.speedup import Speedup, gain_text
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.verdict import Basis, Verdict, doubt, judge
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.tune.race import Standing
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
class Room:
    """Settings and prompts that fit in the time on llama-server."""

    n_settings: int
    """Number of settings that fit; 0 for none."""
    n_prompts: int
    reason: str | None = None
    """Reason for fewer measurements than requested; None if all fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a setting on llama-server."""

    prompt_s: float
    """Seconds per prompt, with and without speculation."""
    starts_s: float
    """Seconds to start the servers."""

    def n_prompts(self, seconds: float, n_settings: int) -> int:
        """Number of prompts that fit in the time for each setting."""
        left_s = seconds / n_settings / _MARGIN - self.starts_s
        return max(0, int(left_s / self.prompt_s)) if self.prompt_s > 0 else 0

    def seconds(self, n_prompts: int) -> float:
        """Duration of one setting."""
        return _MARGIN * (self.starts_s + n_prompts * self.prompt_s)


def cost_of(pairs: Sequence[Pair], *, n_starts: int, model_bytes: int) -> Cost:
    """Estimate the cost from the engine's measurements.

    Args:
        pairs: measurements that confirmed the setting.
        n_starts: number of server starts.
        model_bytes: bytes that a start loads.
    """
    seconds = [sum(request_s(pair)) for pair in pairs]
    return Cost(
        prompt_s=sum(seconds) / len(seconds) if seconds else 0.0,
        starts_s=n_starts * (_START_S + model_bytes / _LOADED_BYTES_PER_S),
    )


def room_of(left_s: float | None, cost: Cost, *, n_settings: int, n_prompts: int) -> Room:
    """Fit settings and prompts into the time: rather one setting well than two badly.

    Args:
        left_s: seconds left of the time budget; None without one.
        cost: cost of one setting.
        n_settings: number of open settings.
        n_prompts: number of prompts.
    """
    fewest = min(MIN_PROMPTS, n_prompts)
    if left_s is None or not n_settings:
        return Room(n_settings=n_settings, n_prompts=n_prompts)
    for n in range(n_settings, 0, -1):
        found = min(n_prompts, cost.n_prompts(left_s, n))
        if found >= fewest:
            return Room(
                n_settings=n, n_prompts=found, reason=_fewer(n, found, n_settings, n_prompts)
            )
    # In whole seconds, what does not fit must not look as if it did.
    has_s = math.floor(max(left_s, 0))
    needs_s = max(has_s + 1, math.ceil(cost.seconds(fewest)))
    return Room(
        n_settings=0,
        n_prompts=0,
        reason=(
            f"llama-server was not measured: of the time budget {duration_text(has_s)} are left, "
            f"and {fewest} prompts take about {duration_text(needs_s)}; give more --time-budget, "
            "or run spectui verify"
        ),
    )


def _fewer(n: int, found: int, n_settings: int, n_prompts: int) -> str | None:
    if found < n_prompts:
        return f"for want of time llama-server was given {found} of {n_prompts} prompts"
    if n < n_settings:
        return "for want of time only the first of the open settings was run on llama-server"
    return None


def spread(prompts: Sequence[Prompt], n: int) -> tuple[Prompt, ...]:
    """Pick ``n`` of the prompts, from as many categories as possible."""
    if n >= len(prompts):
        return tuple(prompts)
    turns: dict[str, count[int]] = {}
    turn = {one.id: next(turns.setdefault(one.category, count())) for one in prompts}
    return tuple(sorted(prompts, key=lambda one: turn[one.id])[:n])


def with_time(result: TuneResult, budget_s: float | None, served_s: float) -> TuneResult:
    """The result with the time of both the search and llama-server."""
    spent = result.spent
    took_s = spent.took_s + served_s
    return replace(result, spent=replace(spent, budget_s=budget_s, took_s=took_s))


_SERVED = 2
"""The winner, and the user's own setting if the race was with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The setting to use, and the verdict."""

    arm: Arm
    verdict: Verdict
    is_other: bool
    """Whether it differs from the advice of spectui's own engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Results of the finalists on llama-server."""

    found: tuple[tuple[Arm, Verified], ...]
    preference: Preference
    ended: BaseException | None
    """The error that ended it early."""
    limited: str | None = None
    """Reason why only a part of the confirmed settings was measured there."""
    took_s: float = 0.0

    def lines(self) -> Iterator[str]:
        """A sentence for each setting, with its warnings."""
        if self.limited is not None:
            yield f"note: {self.limited}."
        for arm, one in self.found:
            if one.verdict is not None and one.speedup is not None:
                told = one.verdict.removeprefix("delivered: ")
                yield f"On llama-server {arm.label} gave {told}."
                yield from _doubt(one.speedup)
            yield from (f"warning: {warning}" for warning in warnings(one))

    def document(self) -> Json:
        """A ``verify`` document for each setting."""
        return {
            "served": [
                {"params": arm.document(), **header("verify", this_machine()), **one.document()}
                for arm, one in self.found
            ],
            **or_reason("served_limited", self.limited, "there was time for all of it"),
            "served_s": self.took_s,
        }


def _doubt(speedup: Speedup) -> Iterator[str]:
    because = doubt(speedup)
    if speedup.is_noise:
        yield "note: such a number ranks nothing: the verdict is that of the others."
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
    """Verify the winner, and whatever else was raced; None if nothing was confirmed.

    A failure or an interrupt ends it with what there is.

    Args:
        tuning: the search.
        result: result of the search.
        serving: the binary, and how it is used.
        prompts: prompts of the run.
        budget_s: total time budget, including the search; None for no limit.
    """
    if result.best is None or result.speedup is None:
        return None
    began_s = time.monotonic()
    left_s = None if budget_s is None else budget_s - result.spent.took_s
    claims = [
        (one.arm, claim)
        for one in result.finalists[:_SERVED]
        if (claim := _claim(tuning, one, result.verdict.basis, prompts)) is not None
    ]
    room = _room(serving, result, [claim for _, claim in claims], left_s)
    if left_s is not None:
        ends_s = began_s + left_s
        serving = replace(serving, has_time=lambda: time.monotonic() < ends_s)
    found, ended = _verified(serving, claims[: room.n_settings], room.n_prompts)
    cut = None if serving.has_time() or ended is not None else _cut(found, room)
    preference = preferred(
        result.verdict,
        result.best,
        _deliveries(found, min(MIN_PROMPTS, room.n_prompts)),
        min_gain=tuning.setup.min_gain,
        requests={arm: _requests(tuning, arm, one) for arm, one in found},
    )
    return Served(
        found=found,
        preference=preference,
        ended=ended,
        limited=cut or room.reason,
        took_s=time.monotonic() - began_s,
    )


def _deliveries(found: Sequence[tuple[Arm, Verified]], fewest: int) -> dict[Arm, Speedup]:
    """Speedups by the server; what ended before the fewest prompts ranks nothing."""
    return {
        arm: one.speedup
        for arm, one in found
        if one.speedup is not None and one.ended is None and len(one.pairs) >= fewest
    }


def _cut(found: Sequence[tuple[Arm, Verified]], room: Room) -> str | None:
    """Where the time ended the measurement; None if it was complete."""
    if not found:
        return None
    n_pairs = len(found[-1][1].pairs)
    if n_pairs >= room.n_prompts and len(found) >= room.n_settings:
        return None
    return (
        f"the time budget ended the measurement on llama-server after "
        f"{counted(n_pairs, 'prompt')} of setting {len(found)} of {room.n_settings}"
    )


def _requests(tuning: Tuning, arm: Arm, found: Verified) -> tuple[Request, ...]:
    """Whole requests by the servers' numbers; none where prompts or tokens are not known."""
    times = prompt_times(found.pairs, reads=arm.reader is not None)
    return requests_of(tuning.setup.shapes, found.speedup, found.pairs, times).value or ()


def _verified(
    serving: Serving, claims: Sequence[tuple[Arm, Claim]], n_prompts: int
) -> tuple[tuple[tuple[Arm, Verified], ...], BaseException | None]:
    """Run the settings one after the other; return what ended that early as well."""
    found: list[tuple[Arm, Verified]] = []
    try:
        for arm, claim in claims:
            some = spread(claim.prompts, n_prompts)
            found.append((arm, verify(replace(claim, prompts=some), serving)))
            if found[-1][1].ended is not None or not serving.has_time():
                break
    except (KeyboardInterrupt, SpectuiError) as error:
        return tuple(found), error
    return tuple(found), found[-1][1].ended if found else None


def _room(
    serving: Serving, result: TuneResult, claims: Sequence[Claim], left_s: float | None
) -> Room:
    """The settings and prompts that fit in the remaining time."""
    n_prompts = max((len(one.prompts) for one in claims), default=0)
    if not claims:
        return Room(n_settings=0, n_prompts=0)
    case = claims[0].case
    cost = cost_of(
        result.pairs,
        n_starts=most_starts(1, keeps_off=serving.has_both(case)),
        model_bytes=sum(size_bytes(model.path) for model in case.models),
    )
    return room_of(left_s, cost, n_settings=len(claims), n_prompts=n_prompts)


def with_server_ranking(result: TuneResult, served: Served | None) -> TuneResult:
    """The result with llama-server's ranking."""
    if served is None or not served.preference.is_other:
        return result
    arm, own = served.preference.arm, served.preference.verdict
    other = next((one for one in result.finalists[1:_SERVED] if one.arm == arm), None)
    if other is None:
        return replace(result, verdict=own)
    return replace(
        result,
        best=arm,
        speedup=other.speedup,
        pairs=other.pairs,
        pairs_where_target_moved=(),
        verdict=own,
    )


def failure_of(ended: BaseException) -> BaseException:
    """The error that ended it early, worded for users."""
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        return CancelledError("interrupted on llama-server; what tune has found is shown and kept")
    return ended


def _claim(
    tuning: Tuning, raced: Standing, basis: Basis | None, prompts: Sequence[Prompt]
) -> Claim | None:
    promise = tuning.promise_of(raced, basis)
    if promise is None:
        return None
    measured = tuple(one for one in prompts if one.id in promise.prompt_ids)
    return Claim(case=promise.case, prompts=measured, promise=promise, study=tuning.name)


def preferred(
    verdict: Verdict,
    best: Arm,
    deliveries: Mapping[Arm, Speedup],
    *,
    min_gain: float,
    requests: Mapping[Arm, Sequence[Request]] = MappingProxyType({}),
) -> Preference:
    """Rank off and the settings by the server's speedups, of whole requests where they are less.

    What cannot be is the machine's noise, and ranks nothing.

    Args:
        verdict: verdict of spectui's own engine.
        best: the setting of that verdict.
        deliveries: speedups of that setting, and of other open ones.
        min_gain: least gain for which speculation is advised.
        requests: whole requests by the server's numbers.
    """
    stays = Preference(
        arm=best if verdict.use_speculation else OFF, verdict=verdict, is_other=False
    )
    possible = [arm for arm, speedup in deliveries.items() if not speedup.is_noise]
    if not possible:
        return stays
    # What no prompt of the servers was as long as stands against what was measured at depth.
    covered = {
        arm: tuple(one for one in requests.get(arm, ()) if one.is_covered) for arm in possible
    }
    worth = {arm: _worth(deliveries[arm], covered[arm]) for arm in possible}
    fastest = max(possible, key=lambda arm: worth[arm])
    speedup, known = deliveries[fastest], covered[fastest]
    own = judge(speedup, min_gain=min_gain, what=fastest.label, requests=known)
    if not verdict.use_speculation:
        # The servers continued the prompts themselves, on which the setting was chosen then.
        is_judged = verdict.basis not in {Basis.LATER, Basis.SAME}
        is_whole = len(known) == len(requests.get(fastest, ()))
        is_use = own.use_speculation and is_judged and is_whole
        return _instead(fastest, own, "to leave it off") if is_use else stays
    # An advice stands as long as off is not faster: few prompts need not show it once more.
    if worth[fastest] <= 1 + min_gain:
        return _instead(OFF, own, "to use it")
    if fastest == best:
        return stays
    reason = (
        f"Use it: {fastest.label} is what llama-server ran fastest ("
        f"{gain_text(speedup)}). In spectui's own engine {best.label} was ahead; the server's own "
        "numbers count more."
    )
    use = replace(verdict, reason=reason)
    return Preference(arm=fastest, verdict=use, is_other=True)


def _worth(speedup: Speedup, requests: Sequence[Request]) -> float:
    """The gain of decoding, or that of the requests where it is less."""
    whole = together(binding(requests))
    return speedup.estimate if whole is None else min(whole.estimate, speedup.estimate)


def _instead(arm: Arm, own: Verdict, before: str) -> Preference:
    reason = (
        f"{own.reason} These are llama-server's own numbers, which count more; in spectui's own "
        f"engine it was {before}."
    )
    verdict = replace(own, use_speculation=not arm.is_off, reason=reason)
    return Preference(arm=arm, verdict=verdict, is_other=True)
