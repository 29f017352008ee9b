"""Result of a verification, with its warnings and notes. Pure."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spectui.commands.measured import own_environment
from spectui.documents import Json, encoded, ending, or_reason
from spectui.format import counted
from spectui.known import Known
from spectui.measure.comparison import UNWATCHED
from spectui.measure.lossless import differs
from spectui.measure.measurer import Pair
from spectui.measure.promise import Case, Observed, Promise, observed_of
from spectui.measure.servers import version_document
from spectui.measure.speedup import NO_INTERVAL, Speedup
from spectui.measure.verdict import Basis, doubt, judge
from spectui.measure.workload import left_out_note
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.server.help_text import Version
from spectui.verify.comparison import Summary, agreement, ratio_of, summarise, verdict
from spectui.verify.subject import Origin

_NO_PROMISE = "nothing was promised"
_NOTHING = "nothing was measured before the run ended"
_NAMED = 3
"""Maximum number of prompts that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Promised against delivered."""

    case: Case
    binary: str
    version: Version | None
    """The binary's llama.cpp; None if it does not report one."""
    arguments: Mapping[str, tuple[str, ...]]
    """Command lines of the servers, ``off`` and ``on``."""
    promise: Promise | None
    origin: Origin | None
    """Origin of the promise; None if it was measured just now, or there is none."""
    keeps_both: bool
    repeats: int
    seed: int
    pairs: tuple[Pair, ...] = ()
    """The prompts that both servers have continued."""
    n_starts: int = 0
    repeated: tuple[str, ...] = ()
    """Prompts that were left out as duplicates of others in tokens."""
    disturbance: Known[DisturbanceSummary] = UNWATCHED
    """Load of the rest of the machine while the servers decoded."""
    ended: BaseException | None = field(default=None, compare=False)
    """The error that ended it early."""

    @property
    def is_alone(self) -> bool:
        """Whether one prompt at a time is measured although the server has several slots."""
        promise = self.promise
        return promise is not None and self.case.n_slots > 1 and not promise.streams

    @property
    def delivered(self) -> tuple[Observed, ...]:
        """Observations of the prompts that decoded something."""
        return observed_of(self.pairs)

    @property
    def promised(self) -> Summary | None:
        """Summary of the in-process measurement."""
        promise = self.promise
        return None if promise is None else summarise(promise.observed, promise.speedup)

    @property
    def summary(self) -> Summary | None:
        """Summary of the servers; None if nothing was measured before an interrupt."""
        return summarise(self.delivered) if self.delivered else None

    @property
    def ratio(self) -> Speedup | None:
        """Delivered over promised speedup, on the same prompts."""
        promise = self.promise
        return None if promise is None else ratio_of(self.delivered, promise.observed)

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """Prompts that the server tokenizes differently than when the promise was made."""
        if self.promise is None or self.is_of_later_text:
            return ()
        known = {one.measurement.prompt_id: one.digest for one in self.promise.observed}
        served = {one.measurement.prompt_id: one.digest for one in self.delivered}
        return tuple(name for name, digest in served.items() if known.get(name, digest) != digest)

    @property
    def is_of_later_text(self) -> bool:
        """Whether the promise was made on text that follows what the servers were given."""
        return self.promise is not None and self.promise.basis is Basis.LATER

    @property
    def verdict(self) -> str | None:
        """Promised against delivered in a sentence; None if nothing was delivered."""
        promised, delivered = self.promised, self.summary
        if delivered is None:
            return None
        return verdict(
            None if promised is None else promised.speedup, delivered.speedup, self.ratio
        )

    def document(self) -> Json:
        """All of it, in documents."""
        case, delivered = self.case, self.summary
        draft = None if case.used_draft is None else str(case.used_draft.path)
        return {
            "server": {
                "path": self.binary,
                **version_document(self.version),
                "arguments": {side: list(words) for side, words in self.arguments.items()},
            },
            "target": {"path": str(case.target.path)},
            "draft": {
                "kind": case.speculation.own.label,
                **or_reason("path", draft, "no draft model is needed"),
            },
            "config": {
                **case.speculation.document(),
                **encoded(case.sampling),
                "n_predict": case.n_predict,
            },
            "order": {
                "keeps_both": self.keeps_both,
                "n_starts": self.n_starts,
                "repeats": self.repeats,
                "seed": self.seed,
            },
            **or_reason("promised", self._promised(), _NO_PROMISE),
            **or_reason("delivered", delivered and delivered.document(), _NOTHING),
            **self._agreement(),
            **or_reason(
                "disturbance",
                self.disturbance.value and self.disturbance.value.document(),
                self.disturbance.reason or "",
            ),
            "notes": list(notes(self)),
            "warnings": list(warnings(self)),
            **ending(self.ended),
            "prompts": [
                {**pair.document(), "same_output": not differs(pair)} for pair in self.pairs
            ],
        }

    def _promised(self) -> Json | None:
        promised, promise, origin = self.promised, self.promise, self.origin
        if promised is None or promise is None:
            return None
        advice = None if origin is None or origin.advice is None else str(origin.advice)
        return {
            **or_reason("study", origin and origin.study, "it was measured just now"),
            **or_reason("advice", advice, "no study has advised anything"),
            **promised.document(),
        }

    def _agreement(self) -> Json:
        """Whether it holds, in a word, in a sentence and as a ratio."""
        promised, delivered, ratio = self.promised, self.summary, self.ratio
        if promised is None or delivered is None:
            reason = _NOTHING if delivered is None else _NO_PROMISE
            return {**or_reason("agreement", None, reason), "verdict": self.verdict}
        over = None
        if ratio is not None:
            reason = ratio.interval_reason or NO_INTERVAL
            over = {"estimate": ratio.estimate, **or_reason("ci95", ratio.interval, reason)}
        return {
            "agreement": str(agreement(promised.speedup, delivered.speedup, ratio)),
            "verdict": self.verdict,
            **or_reason("delivered_over_promised", over, "no prompt is the same"),
        }


def warnings(found: Verified) -> Iterator[str]:
    """Warnings about the numbers, or about using the setting."""
    summary = found.summary
    if summary is not None and not summary.n_drafted:
        yield "llama-server drafted nothing with the exported flags; its log may say why."
    yield from _decision(found)


def notes(found: Verified, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Notes on circumstances of the measurement."""
    threads = None if found.promise is None else found.promise.screen_threads
    if threads is not None:
        yield (
            f"what was promised was measured with {counted(threads, 'compute thread')}, beside a "
            "screen that keeps a core; the server has its own number."
        )
    if found.is_alone:
        yield (
            f"with {found.case.n_slots} slots an earlier spectui measured one prompt at a time, "
            "beside requests that kept the other slots busy; verify did the same. bench -np "
            f"{found.case.n_slots} measures all that are in flight."
        )
    yield from _doubts(found)
    if found.disturbance.value is not None:
        yield from found.disturbance.value.notes
    if found.other_prompts:
        yield (
            f"{_named(found.other_prompts)}: other tokens for llama-server than when the promise "
            "was made; the prompts have changed, or its chat template is another one."
        )
    if found.is_of_later_text:
        yield (
            "what was promised was measured on later text of these prompts; the servers continued "
            "the prompts themselves."
        )
    elif found.promise is not None and found.summary is not None and found.ratio is None:
        yield "none of these prompts is one that the promise was made on."
    if (left_out := left_out_note(found.repeated)) is not None:
        yield f"{left_out}."
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
    now = judge(summary.speedup, min_gain=promise.min_gain, temp=promise.case.sampling.temp)
    if now.use_speculation != wanted:
        yield f"by the server's own numbers the verdict is another one. {now.reason}"


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
