"""``tune --server-bin``: ranks the best settings on the user's own llama-server."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spectui.cli.header import header
from spectui.cli.tune_request import TuneOptions
from spectui.cli.tune_time import Room, cost_of, room_of, spread
from spectui.documents import Json, or_reason
from spectui.errors import CancelledError, SpectuiError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.served_models import size_bytes
from spectui.measure.servers import most_starts
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import doubt
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary, examine
from spectui.tune.result import TuneResult
from spectui.tune.tuning import Tuning
from spectui.verify.comparison import verdict
from spectui.verify.preference import Preference, preferred
from spectui.verify.result import Verified, warnings
from spectui.verify.subject import Origin
from spectui.verify.verification import Claim, Verification

_SERVED = 2
"""The winner, and the runner-up if the race was open."""


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
            yield f"NOTE: {self.limited}."
        for arm, one in self.found:
            promised, summary = one.promised, one.summary
            if promised is not None and summary is not None:
                told = verdict(promised.speedup, summary.speedup, one.ratio)
                yield f"On llama-server {arm.label} gave {told.removeprefix('delivered: ')}."
                yield from _doubt(summary.speedup)
            yield from (f"WARNING: {warning}" for warning in warnings(one))

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
        yield "NOTE: such a number ranks nothing: the verdict is that of the others."
    elif because is not None:
        yield f"NOTE: {because}."


def binary_of(options: TuneOptions) -> ServerBinary | None:
    """The user's llama-server; None if it was not given.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: it has another dialect than what is searched for.
    """
    if options.server_bin is None:
        return None
    binary = examine(options.server_bin)
    if binary.dialect != options.dialect:
        raise UsageError(
            f"--server-bin {options.server_bin} has the options of {binary.dialect}; give "
            f"--dialect {binary.dialect}"
        )
    return binary


def serve(
    tuning: Tuning,
    result: TuneResult,
    verification: Verification,
    prompts: Sequence[Prompt],
    *,
    budget_s: float | None,
) -> Served | None:
    """Verify the winner and a rival; None if nothing was confirmed.

    A failure or an interrupt ends it with what there is.

    Args:
        tuning: the search.
        result: result of the search.
        verification: runs settings on the binary.
        prompts: prompts of the run.
        budget_s: total time budget, including the search; None for no limit.
    """
    if result.best is None or result.speedup is None:
        return None
    found: list[tuple[Arm, Verified]] = []
    ended: BaseException | None = None
    began_s = time.monotonic()
    left_s = None if budget_s is None else budget_s - result.spent.took_s
    open_ = [
        (one, wanted) for one in _finalists(result) if (wanted := _wanted(tuning, one, prompts))
    ]
    room = _room(verification, result, [wanted for _, wanted in open_], left_s)
    try:
        for one, wanted in open_[: room.n_settings]:
            if one.best is not None and ended is None:
                some = spread(wanted.prompts, room.n_prompts)
                verified = verification.verify(replace(wanted, prompts=some))
                found.append((one.best, verified))
                ended = verified.ended
    except (KeyboardInterrupt, SpectuiError) as error:
        ended = error
    deliveries = {
        arm: one.summary.speedup
        for arm, one in found
        if one.summary is not None and one.ended is None
    }
    preference = preferred(result.verdict, result.best, deliveries, min_gain=tuning.setup.min_gain)
    return Served(
        found=tuple(found),
        preference=preference,
        ended=ended,
        limited=room.reason,
        took_s=time.monotonic() - began_s,
    )


def _room(
    verification: Verification,
    result: TuneResult,
    wanted: Sequence[Claim],
    left_s: float | None,
) -> Room:
    """The settings and prompts that fit in the remaining time."""
    n_prompts = max((len(one.prompts) for one in wanted), default=0)
    if not wanted:
        return Room(n_settings=0, n_prompts=0)
    case = wanted[0].case
    models = (case.target, *(() if case.draft is None else (case.draft,)))
    cost = cost_of(
        result.pairs,
        n_starts=most_starts(1, keeps_off=verification.has_both(case)),
        model_bytes=sum(size_bytes(model.path) for model in models),
    )
    return room_of(left_s, cost, n_settings=len(wanted), n_prompts=n_prompts)


def final(result: TuneResult, served: Served | None) -> TuneResult:
    """The result with llama-server's ranking."""
    if served is None or not served.preference.is_other:
        return result
    arm, own = served.preference.arm, served.preference.verdict
    if arm.is_off:
        return replace(result, verdict=own)
    other = next((one for one in _finalists(result) if one.best == arm), result)
    return replace(other, verdict=own)


def failure_of(ended: BaseException) -> BaseException:
    """The error that ended it early, worded for users."""
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        return CancelledError("interrupted on llama-server; what tune has found is shown and kept")
    return ended


def _finalists(result: TuneResult) -> Iterator[TuneResult]:
    """Results in which each served setting in turn is the winner; the actual winner first."""
    yield result
    for one in result.finalists[1:_SERVED]:
        if one.speedup is not None:
            yield replace(result, best=one.arm, speedup=one.speedup, pairs=one.pairs, in_place=())


def _wanted(tuning: Tuning, result: TuneResult, prompts: Sequence[Prompt]) -> Claim | None:
    promise = tuning.promise_of(result)
    if promise is None:
        return None
    measured = tuple(one for one in prompts if one.id in promise.prompt_ids)
    origin = Origin(study=tuning.name)
    return Claim(case=promise.case, prompts=measured, promise=promise, origin=origin)
