"""Disturbances of a measurement by the rest of the machine: their size, kinds and causes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import add
from typing import Any

from spectui.documents import Json, fields_of, or_reason
from spectui.format import counted, duration_text, percent_text
from spectui.monitor.counters import Clocks, Mark
from spectui.monitor.readings import Reading

CORE_SHARE = 0.10
"""Share of one core. The threads of a matrix product wait for the slowest of them, so that a tenth
of one core is up to a tenth of the speed, however many cores there are."""
_ROOMY_SHARE = 0.05
"""Share of the cores, where at least half of them stood idle: then the others had cores of their
own, even where two share a physical one, and what is left is their part of the memory's
bandwidth."""
_ROOMY_IDLE = 0.5
_LEAST_S = 0.03
"""CPU seconds of others below which no disturbance is reported: /proc/stat counts in steps of
10 ms, and two counters that are not read at the same instant differ by a step or two."""
_BACK_S = 0.1
"""A counter of the kernel's may step back so far: idle and I/O time are corrected afterwards."""
_SLEPT_S = 0.5
_MEMORY_SHARE = 0.10
"""Share of the time in which a task waited for memory: weights that are read again, or swap."""
_GPU_SHARE = 0.05
"""Share of the GPU: a desktop that draws next to nothing stays below."""
_NOTED_SHARE = 0.02
"""Share of the time watched from which on disturbances are worth a user's attention."""
_N_NOTED = 2
_SHORT_S = 10.0


class Kind(StrEnum):
    """Kind of disturbance."""

    PROCESS = "process"
    """Another process had the processor."""
    UNSEEN = "unseen"
    """Processes that were not seen, the kernel, or many small processes had the processor."""
    STEAL = "steal"
    """The hypervisor gave the processor to other machines."""
    THROTTLED = "throttled"
    """A cgroup's CPU limit held processes back."""
    HEAT = "heat"
    """The processor slowed itself down."""
    MEMORY = "memory"
    """Tasks waited for memory."""
    GPU_PROCESS = "gpu_process"
    """Another process had the GPU."""
    GPU_UNSEEN = "gpu_unseen"
    """Processes without a name had the GPU."""
    GPU_SLOWED = "gpu_slowed"
    """The GPU held its clocks back."""
    SLEPT = "slept"
    """The machine was suspended."""
    STOPPED = "stopped"
    """The watch itself was not run: everything was stopped, or starved."""


_FORMS = {
    Kind.UNSEEN: "other processes, small, short-lived or hidden, took {share} of a core",
    Kind.STEAL: "the hypervisor took {share} of a core (steal)",
    Kind.THROTTLED: "the cgroup's CPU limit throttled this process",
    Kind.HEAT: "the processor slowed itself down because of heat",
    Kind.MEMORY: "tasks waited for memory {share} of the time",
    Kind.GPU_UNSEEN: "other processes took {share} of the GPU",
    Kind.GPU_SLOWED: "the GPU held its clocks back because of heat or power",
}
_MOMENTS = {
    Kind.SLEPT: "the machine slept for {duration}",
    Kind.STOPPED: "this process was stopped, or got no processor, for {duration}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of disturbance."""

    kind: Kind
    name: str | None = None
    """Name of the process; None for what is none, or has none."""
    n_processes: int = 1
    seconds: float
    """Time in which it disturbed; for a sleep, its length."""
    share: float | None = None
    """Share of one core, of the GPU or of the time, during ``seconds``; None without one."""

    @property
    def text(self) -> str:
        """The cause as a clause."""
        duration, share = _length_text(self.seconds), percent_text(self.share)
        if self.kind in _MOMENTS:
            return _MOMENTS[self.kind].format(duration=duration)
        if self.name is None:
            return f"{_FORMS[self.kind].format(share=share)} for {duration}"
        who = f"{self.n_processes} other processes" if self.n_processes > 1 else "another process"
        what = "a core" if self.kind is Kind.PROCESS else "the GPU"
        return f"{who} ({self.name}) took {share} of {what} for {duration}"

    def __add__(self, other: "Cause") -> "Cause":
        """Both together, of one kind and name."""
        seconds = self.seconds + other.seconds
        took_s = [one.share * one.seconds for one in (self, other) if one.share is not None]
        return replace(
            self,
            n_processes=max(self.n_processes, other.n_processes),
            seconds=seconds,
            share=sum(took_s) / seconds if took_s and seconds else None,
        )

    def document(self) -> Json:
        """The cause as JSON."""
        return {
            "kind": str(self.kind),
            **or_reason("name", self.name, "it is no process, or has no name"),
            "n_processes": self.n_processes,
            "seconds": self.seconds,
            **or_reason("share", self.share, "it has no share"),
        }


class Causes:
    """Causes, one of each kind and name."""

    def __init__(self) -> None:
        """Start without any."""
        self._found: dict[tuple[Kind, str | None], Cause] = {}

    def add(self, cause: Cause) -> None:
        """Take one more."""
        key = cause.kind, cause.name
        self._found[key] = self._found[key] + cause if key in self._found else cause

    def by_loss(self) -> tuple[Cause, ...]:
        """The causes, the largest loss first."""
        return tuple(sorted(self._found.values(), key=_loss_s, reverse=True))


def _loss_s(cause: Cause) -> float:
    return cause.seconds if cause.share is None else cause.share * cause.seconds


def _length_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _SHORT_S else duration_text(seconds)


_SUMMED_FIELDS = "others_s", "steal_s", "memory_pressure_s", "throttled_s", "n_throttles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Load of the rest of the machine between two marks."""

    wall_s: float
    """Without sleep."""
    n_cores: float
    """Cores that this process may use."""
    idle_share: float
    """Share of those cores' time in which nothing ran."""
    own_s: float
    """CPU seconds of this process and those that belong to it."""
    others_s: Reading
    """CPU seconds of all others on the cores that this process may use, interrupts included."""
    steal_s: Reading
    memory_pressure_s: Reading
    """Time in which some task, one's own perhaps, waited for memory."""
    throttled_s: Reading
    """Summed over cores."""
    slept_s: float
    n_throttles: Reading
    """Times that the processor slowed itself down because of heat."""
    gpu_others: Reading
    """Share that others took of the GPU, of those that this process uses, at the end."""
    gpu_slowed: Reading
    """1 where such a GPU held its clocks back at the end, else 0."""

    @property
    def others_share(self) -> Reading:
        """Share of the usable cores that others took."""
        if self.others_s.value is None or self.wall_s <= 0:
            return Reading(None, self.others_s.reason or "no time passed")
        return Reading(self.others_s.value / (self.wall_s * self.n_cores))

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Causes above the thresholds, without names of processes; empty if undisturbed."""
        return tuple(self._causes())

    def _causes(self) -> Iterator[Cause]:
        wall_s = self.wall_s
        steal_s, others_s = self.steal_s.value or 0.0, self.others_s.value or 0.0
        # Both together may exceed the limit though neither does.
        is_crowded = others_s + steal_s > max(self._limit * wall_s, _LEAST_S)
        if is_crowded and others_s >= min(steal_s, _LEAST_S):
            yield Cause(kind=Kind.UNSEEN, seconds=wall_s, share=others_s / wall_s)
        # A hypervisor takes what was wanted, however many cores stand idle.
        if steal_s > _LEAST_S and (is_crowded or steal_s > CORE_SHARE * wall_s):
            yield Cause(kind=Kind.STEAL, seconds=wall_s, share=steal_s / wall_s)
        if self.throttled_s.value:
            yield Cause(kind=Kind.THROTTLED, seconds=min(self.throttled_s.value, wall_s))
        if self.n_throttles.value:
            yield Cause(kind=Kind.HEAT, seconds=wall_s)
        waited_s = self.memory_pressure_s.value or 0.0
        if wall_s > 0 and waited_s > _MEMORY_SHARE * wall_s:
            yield Cause(kind=Kind.MEMORY, seconds=wall_s, share=min(waited_s / wall_s, 1.0))
        if (self.gpu_others.value or 0.0) > _GPU_SHARE:
            yield Cause(kind=Kind.GPU_UNSEEN, seconds=wall_s, share=self.gpu_others.value)
        if self.gpu_slowed.value:
            yield Cause(kind=Kind.GPU_SLOWED, seconds=wall_s)
        if self.slept_s:
            yield Cause(kind=Kind.SLEPT, seconds=self.slept_s)

    @property
    def _limit(self) -> float:
        """Cores' worth of others' time above which it disturbs."""
        if self.idle_share < _ROOMY_IDLE:
            return CORE_SHARE
        return max(CORE_SHARE, _ROOMY_SHARE * self.n_cores)

    def __add__(self, other: "Disturbance") -> "Disturbance":
        """Both together, of which ``other`` came later; what one does not know is not known."""
        wall_s = self.wall_s + other.wall_s
        idle_s = self.idle_share * self.wall_s + other.idle_share * other.wall_s
        sums: dict[str, Any] = {
            name: _sum(getattr(self, name), getattr(other, name)) for name in _SUMMED_FIELDS
        }
        return replace(
            other,
            wall_s=wall_s,
            idle_share=idle_s / wall_s if wall_s else 0.0,
            own_s=self.own_s + other.own_s,
            slept_s=self.slept_s + other.slept_s,
            gpu_others=_latest(self.gpu_others, other.gpu_others),
            gpu_slowed=_latest(self.gpu_slowed, other.gpu_slowed),
            **sums,
        )

    def document(self) -> Json:
        """The readings as JSON, each with a reason where it is missing."""
        return {
            "watched_s": self.wall_s,
            **fields_of(
                self, "", "n_cores", "own_s", "slept_s", "others_s", "others_share", "steal_s"
            ),
            **or_reason("pressure_memory_s", self.memory_pressure_s, ""),
            **fields_of(self, "", "throttled_s"),
            **or_reason("n_thermal_throttles", self.n_throttles, ""),
            **or_reason("gpu_others_share", self.gpu_others, ""),
        }


def between(before: Mark, after: Mark) -> Disturbance:
    """Load of the rest of the machine from one mark to a later one."""
    then, now = before.clocks, after.clocks
    wall_s = now.monotonic_s - then.monotonic_s
    busy_s = after.cpu.busy_s - before.cpu.busy_s
    idle_s = max(after.cpu.idle_s - before.cpu.idle_s, 0.0)
    own_s = _own_s(before, after)
    others = Reading(max(busy_s - own_s, 0.0))
    if before.n_cores != after.n_cores:
        # A core that goes takes its time with it, and brings it back.
        others = Reading(None, "a core was turned on or off meanwhile")
    elif busy_s < -_BACK_S:
        others = _backwards("the processor's time")
    elif busy_s + _BACK_S < own_s / 2:
        # A sandbox may answer with zeros.
        others = Reading(None, "the system does not count the processor's time")
    steal = _grown(Reading(before.cpu.steal_s), Reading(after.cpu.steal_s), "steal")
    iowait_s = max(after.cpu.iowait_s - before.cpu.iowait_s, 0.0)
    all_s = idle_s + max(busy_s, 0.0) + (steal.value or 0.0) + iowait_s
    return Disturbance(
        wall_s=wall_s,
        n_cores=after.n_usable,
        idle_share=idle_s / all_s if all_s else 0.0,
        own_s=own_s,
        others_s=others,
        steal_s=steal,
        memory_pressure_s=_grown(
            before.memory_pressure_s, after.memory_pressure_s, "memory pressure"
        ),
        throttled_s=_grown(before.throttled_s, after.throttled_s, "throttling"),
        slept_s=_slept_s(then, now),
        n_throttles=_grown(before.slow.n_throttles, after.slow.n_throttles, "thermal throttling"),
        gpu_others=after.slow.gpu_others,
        gpu_slowed=after.slow.gpu_slowed,
    )


def _own_s(before: Mark, after: Mark) -> float:
    """CPU time of this process and those that belong to it.

    One that has ended since is part of ``own_s`` with all that it ever used; one that is new was
    started since, or at most a scan before.
    """
    started_s = sum(after.started.values()) - sum(before.started.values())
    return max(after.clocks.own_s - before.clocks.own_s + started_s, 0.0)


def _slept_s(then: Clocks, now: Clocks) -> float:
    """Seconds of sleep."""
    slept_s = (now.boot_s - then.boot_s) - (now.monotonic_s - then.monotonic_s)
    # Read one after the other, the clocks differ by microseconds.
    return slept_s if slept_s > _SLEPT_S else 0.0


def _grown(before: Reading, after: Reading, what: str) -> Reading:
    """Growth of a counter, or why it is not known."""
    if before.value is None or after.value is None:
        return Reading(None, after.reason or before.reason)
    grown = after.value - before.value
    return _backwards(what) if grown < -_BACK_S else Reading(max(grown, 0.0))


def _sum(first: Reading, second: Reading) -> Reading:
    if first.value is None or second.value is None:
        return Reading(None, first.reason or second.reason)
    return Reading(first.value + second.value)


def _latest(first: Reading, second: Reading) -> Reading:
    return first if second.value is None and first.value is not None else second


def _backwards(what: str) -> Reading:
    return Reading(None, f"the system's counter of {what} went backwards")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbanceSummary:
    """How much of the time watched was disturbed, and by what."""

    whole: Disturbance
    """From begin to end."""
    disturbed_s: float
    causes: tuple[Cause, ...]
    """The largest loss first."""
    failure: str | None = None
    """Why the watch ended early; None if it did not."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user on disturbances; none where they were too small."""
        found, watched_s = [], self.whole.wall_s
        moments = [one.text for one in self.causes if one.kind in _MOMENTS]
        others = [one.text for one in self.causes if one.kind not in _MOMENTS]
        if watched_s > 0 and self.disturbed_s >= _NOTED_SHARE * watched_s and others:
            n_more = len(others) - _N_NOTED
            noted = others[:_N_NOTED] + ([f"and {counted(n_more, 'more cause')}"] * (n_more > 0))
            found.append(
                f"The machine was disturbed for {_length_text(self.disturbed_s)} of "
                f"{_length_text(watched_s)}: {'; '.join(noted)}."
            )
        found += [f"Meanwhile {text}." for text in moments]
        if self.failure is not None:
            found.append(f"The machine was not watched to the end: {self.failure}.")
        elif self.whole.others_s.value is None:
            found.append(f"What other processes took is not known: {self.whole.others_s.reason}.")
        return tuple(found)

    @property
    def share(self) -> float | None:
        """Share of the time that was disturbed; None if no time passed."""
        return self.disturbed_s / self.whole.wall_s if self.whole.wall_s > 0 else None

    def document(self) -> Json:
        """The summary as JSON."""
        return {
            **self.whole.document(),
            "disturbed_s": self.disturbed_s,
            **or_reason("disturbed_share", self.share, "no time passed"),
            "causes": [one.document() for one in self.causes],
            "failure": self.failure,
        }


def joined(summaries: Sequence[DisturbanceSummary]) -> DisturbanceSummary | None:
    """Summaries of several measurements as one, the earliest first; None without any."""
    if not summaries:
        return None
    causes = Causes()
    for cause in (cause for one in summaries for cause in one.causes):
        causes.add(cause)
    return DisturbanceSummary(
        whole=reduce(add, (one.whole for one in summaries)),
        disturbed_s=sum(one.disturbed_s for one in summaries),
        causes=causes.by_loss(),
        failure=next((one.failure for one in summaries if one.failure is not None), None),
    )
