"""Result of a verification: its document, and what is to be noted of it. Pure."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from spectui.commands.measured import own_environment
from spectui.documents import Json, encoded, ending, known, or_reason
from spectui.format import counted
from spectui.measure.comparison import UNWATCHED, Comparison
from spectui.measure.lossless import differs
from spectui.measure.measurer import Pair
from spectui.measure.observed import Observed, Totals, observed_of, totals
from spectui.measure.servers import version_document
from spectui.measure.speedup import NO_INTERVAL, Speedup
from spectui.measure.verdict import doubt, judge
from spectui.measure.workload import left_out_note
from spectui.server.binary import ServerBinary
from spectui.verify.claim import Claim
from spectui.verify.comparison import agreement, ratio_of, verdict

_NO_PROMISE = "nothing was promised"
_NOTHING = "nothing was measured before the run ended"
_NAMED = 3
"""Maximum number of prompts that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Promised against delivered."""

    claim: Claim
    binary: ServerBinary
    arguments: Mapping[str, tuple[str, ...]]
    """Command lines of the servers, ``off`` and ``on``."""
    keeps_both: bool
    repeats: int
    seed: int
    comparison: Comparison | None = None
    """Measurements of the servers; None if it ended before."""
    n_starts: int = 0
    repeated: tuple[str, ...] = ()
    """Prompts that were left out as duplicates of others in tokens."""
    ended: BaseException | None = field(default=None, compare=False)
    """The error that ended it early."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The prompts that both servers have continued."""
        return () if self.comparison is None else self.comparison.pairs

    @property
    def speedup(self) -> Speedup | None:
        """The delivered speedup; None if nothing was measured."""
        return None if self.comparison is None else self.comparison.speedup

    @property
    def promised_speedup(self) -> Speedup | None:
        """The promised speedup; None if nothing was promised."""
        return None if self.claim.promise is None else self.claim.promise.speedup

    @cached_property
    def observed(self) -> tuple[Observed, ...]:
        """Observations of the prompts that decoded something."""
        return observed_of(self.pairs)

    @cached_property
    def delivered(self) -> Totals | None:
        """Sums of the servers; None if nothing was measured before an interrupt."""
        return totals(self.observed) if self.observed else None

    @cached_property
    def promised(self) -> Totals | None:
        """Sums of what was promised; None if nothing was."""
        return None if self.claim.promise is None else totals(self.claim.promise.observed)

    @cached_property
    def ratio(self) -> Speedup | None:
        """Delivered over promised speedup, on the same prompts."""
        promise = self.claim.promise
        return None if promise is None else ratio_of(self.observed, promise.observed)

    @cached_property
    def verdict(self) -> str | None:
        """Promised against delivered in a sentence; None if nothing was delivered."""
        if self.speedup is None:
            return None
        return verdict(self.promised_speedup, self.speedup, self.ratio)

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """Prompts that the server tokenizes differently than when the promise was made."""
        promise = self.claim.promise
        if promise is None or self.claim.is_of_later_text:
            return ()
        digests = {one.measurement.prompt_id: one.digest for one in promise.observed}
        served = {one.measurement.prompt_id: one.digest for one in self.observed}
        return tuple(name for name, digest in served.items() if digests.get(name, digest) != digest)

    def document(self) -> Json:
        """All of it, in documents."""
        case = self.claim.case
        draft = None if case.used_draft is None else str(case.used_draft.path)
        return {
            "server": {
                "path": self.binary.path,
                **version_document(self.binary.version),
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
            **self._compared(),
            "notes": list(notes(self)),
            "warnings": list(warnings(self)),
            **ending(self.ended),
            "prompts": [
                {**pair.document(), "same_output": not differs(pair)} for pair in self.pairs
            ],
        }

    def _compared(self) -> Json:
        """Promise and measurement, and whether they agree."""
        delivered = None
        if self.delivered is not None and self.speedup is not None:
            delivered = {**self.delivered.document(), **self.speedup.document()}
        seen = UNWATCHED if self.comparison is None else self.comparison.disturbance
        return {
            **or_reason("promised", self._promised(), _NO_PROMISE),
            **or_reason("delivered", delivered, _NOTHING),
            **self._agreement(),
            **known("disturbance", seen),
        }

    def _promised(self) -> Json | None:
        promise, promised = self.claim.promise, self.promised
        if promise is None or promised is None:
            return None
        return {
            **or_reason("study", self.claim.study, "it was measured just now"),
            **or_reason("advice", self.claim.advice, "no study has advised anything"),
            **promised.document(),
            **promise.speedup.document(),
        }

    def _agreement(self) -> Json:
        """Whether it holds, in a word, in a sentence and as a ratio."""
        promised, delivered, ratio = self.promised_speedup, self.speedup, self.ratio
        if promised is None or delivered is None:
            reason = _NOTHING if delivered is None else _NO_PROMISE
            return {**or_reason("agreement", None, reason), "verdict": self.verdict}
        over = None
        if ratio is not None:
            reason = ratio.interval_reason or NO_INTERVAL
            over = {"estimate": ratio.estimate, **or_reason("ci95", ratio.interval, reason)}
        return {
            "agreement": str(agreement(promised, delivered, ratio)),
            "verdict": self.verdict,
            **or_reason("delivered_over_promised", over, "no prompt is the same"),
        }


def warnings(found: Verified) -> Iterator[str]:
    """Warnings about the numbers, or about using the setting."""
    speedup, promise = found.speedup, found.claim.promise
    if found.delivered is not None and not found.delivered.n_drafted:
        yield "llama-server drafted nothing with the exported flags; its log may say why."
    if speedup is None or promise is None or speedup.low is None or speedup.is_noise:
        return
    wanted = judge(promise.speedup, min_gain=promise.min_gain).use_speculation
    now = judge(speedup, min_gain=promise.min_gain, temp=promise.case.sampling.temp)
    if now.use_speculation != wanted:
        yield f"by the server's own numbers the verdict is another one. {now.reason}"


def notes(found: Verified, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Notes on circumstances of the measurement."""
    yield from _on_promise(found)
    if found.comparison is not None and found.comparison.disturbance.value is not None:
        yield from found.comparison.disturbance.value.notes
    yield from _on_prompts(found)
    inherited = sorted(n for n in own_environment(environment) if n.startswith("LLAMA_ARG_"))
    if inherited:
        yield f"{_named(tuple(inherited))}: set in the environment, which both servers read."


def _on_promise(found: Verified) -> Iterator[str]:
    """Notes on how the promise was measured, and on how much of a speedup is noise."""
    claim, promise = found.claim, found.claim.promise
    if promise is not None and promise.screen_threads is not None:
        threads = counted(promise.screen_threads, "compute thread")
        yield (
            f"what was promised was measured with {threads}, beside a screen that keeps a core; "
            "the server has its own number."
        )
    if claim.is_alone:
        yield (
            f"with {claim.case.n_slots} slots an earlier spectui measured one prompt at a time, "
            "beside requests that kept the other slots busy; verify measured all in flight."
        )
    speedups = {"promised": found.promised_speedup, "delivered": found.speedup}
    for what, one in speedups.items():
        if one is not None and not one.is_noise and (because := doubt(one)) is not None:
            yield f"of the speedup that was {what}: {because}."


def _on_prompts(found: Verified) -> Iterator[str]:
    """Notes on prompts that promise and servers do not have in common."""
    if found.other_prompts:
        yield (
            f"{_named(found.other_prompts)}: other tokens for llama-server than when the promise "
            "was made; the prompts have changed, or its chat template is another one."
        )
    if found.claim.is_of_later_text:
        yield (
            "what was promised was measured on later text of these prompts; the servers continued "
            "the prompts themselves."
        )
    elif found.promised is not None and found.delivered is not None and found.ratio is None:
        yield "none of these prompts is one that the promise was made on."
    if (left_out := left_out_note(found.repeated)) is not None:
        yield f"{left_out}."


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
