"""Result of a verification, with its warnings and notes. Pure."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spectui.commands.measured import own_environment
from spectui.format import counted
from spectui.measure.promise import Case, Promise
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import doubt, judge
from spectui.options.setup import Schedule
from spectui.verify.builds import Builds
from spectui.verify.causes import Differing, differing
from spectui.verify.comparison import Summary, ratio_of, summarise
from spectui.verify.counts import CountCheck
from spectui.verify.served import Delivered
from spectui.verify.servers import Arguments
from spectui.verify.subject import Origin

_NAMED = 3
"""Maximum number of prompts that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Promised against delivered."""

    case: Case
    binary: str
    builds: Builds
    arguments: Arguments
    promise: Promise | None
    origin: Origin | None
    """Origin of the promise; None if it was measured just now, or there is none."""
    delivered: Delivered
    counts: CountCheck | None
    counts_reason: str | None
    """Reason why no counts were compared."""
    keeps_both: bool
    repeats: int
    seed: int

    @property
    def promised(self) -> Summary | None:
        """Summary of the in-process measurement."""
        promise = self.promise
        return None if promise is None else summarise(promise.observed, promise.speedup)

    @property
    def summary(self) -> Summary | None:
        """Summary of the servers; None if nothing was measured before an interrupt."""
        observed = self.delivered.observed
        return summarise(observed) if observed else None

    @property
    def ratio(self) -> Speedup | None:
        """Delivered over promised speedup, on the same prompts."""
        promise = self.promise
        return None if promise is None else ratio_of(self.delivered.observed, promise.observed)

    @property
    def differing(self) -> Differing | None:
        """Prompts whose counts differ from the engine's; None if there are none."""
        return differing(self.counts, self.builds, self.delivered)

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """Prompts that the server tokenizes differently than when the promise was made."""
        if self.promise is None:
            return ()
        known = {one.measurement.prompt_id: one.digest for one in self.promise.observed}
        served = {one.measurement.prompt_id: one.digest for one in self.delivered.observed}
        return tuple(name for name, digest in served.items() if known.get(name, digest) != digest)


def warnings(found: Verified) -> Iterator[str]:
    """Warnings about the numbers, or about using the setting."""
    summary = found.summary
    if summary is not None and not summary.n_drafted:
        yield "llama-server drafted nothing with the exported flags; its log may say why."
    if found.counts is not None and found.counts.differences:
        yield _differing(found.counts)
    yield from _decision(found)


def notes(found: Verified, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Notes on circumstances of the measurement."""
    if found.builds.note is not None:
        yield found.builds.note
    if found.promise is not None and found.promise.schedule is Schedule.FAST:
        yield (
            "what was promised was measured on the fast schedule, which llama-server does not have."
        )
    threads = None if found.promise is None else found.promise.screen_threads
    if threads is not None:
        yield (
            f"what was promised was measured with {counted(threads, 'compute thread')}, beside a "
            "screen that keeps a core; the server has its own number."
        )
    yield from _doubts(found)
    if found.other_prompts:
        yield (
            f"{_named(found.other_prompts)}: other tokens for llama-server than when the promise "
            "was made; the prompts have changed, or its chat template is another one."
        )
    if found.promise is not None and found.summary is not None and found.ratio is None:
        yield "none of these prompts is one that the promise was made on."
    if found.delivered.repeated:
        yield f"{_named(found.delivered.repeated)}: left out, the same text as another prompt."
    inherited = sorted(n for n in own_environment(environment) if n.startswith("LLAMA_ARG_"))
    if inherited:
        yield f"{_named(tuple(inherited))}: set in the environment, which both servers read."


def _doubts(found: Verified) -> Iterator[str]:
    """Doubts about how much of a speedup is noise, unless all of it is."""
    for what, one in (("promised", found.promised), ("delivered", found.summary)):
        if one is not None and not one.speedup.is_noise:
            because = doubt(one.speedup)
            if because is not None:
                yield f"of the speedup that was {what}: {because}."


def _decision(found: Verified) -> Iterator[str]:
    """Warn if the server's own numbers lead to another decision than the promise."""
    summary, promise = found.summary, found.promise
    if summary is None or promise is None or summary.speedup.low is None:
        return
    if summary.speedup.is_noise:
        return
    wanted = judge(promise.speedup, min_gain=promise.min_gain).use_speculation
    now = judge(summary.speedup, min_gain=promise.min_gain)
    if now.use_speculation != wanted:
        yield f"by the server's own numbers the verdict is another one. {now.reason}"


def _differing(check: CountCheck) -> str:
    parted = [one.prompt_id for one in check.differences if one.parted_at is not None]
    counted_otherwise = [one.prompt_id for one in check.differences if one.parted_at is None]
    told = []
    if parted:
        told.append(f"the output itself parts on {_named(tuple(dict.fromkeys(parted)))}")
    if counted_otherwise:
        names = _named(tuple(dict.fromkeys(counted_otherwise)))
        told.append(f"the output is the same and the counts are not on {names}")
    return f"llama-server did not do what the engine did: {'; '.join(told)}."


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
