"""Result of a verification: its document, and what is to be noted of it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from spectui.documents import Json, encoded, ending, or_reason
from spectui.measure.comparison import Comparison
from spectui.measure.lossless import differs
from spectui.measure.observed import Observed, Totals, observed_of, totals
from spectui.measure.servers import version_document
from spectui.measure.speedup import NO_INTERVAL, Speedup
from spectui.measure.verdict import doubt, judge
from spectui.measure.workload import left_out_note
from spectui.server.binary import ServerBinary
from spectui.verify.claim import Claim
from spectui.verify.comparison import agreement, ratio_of, verdict

_NAMED = 3
"""Maximum number of prompts that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Promised against delivered."""

    claim: Claim
    comparison: Comparison
    """Measurements of the servers."""
    binary: ServerBinary
    arguments: Mapping[str, tuple[str, ...]]
    """Command lines of the servers, ``off`` and ``on``."""
    keeps_both: bool
    repeats: int
    n_starts: int = 0

    @property
    def speedup(self) -> Speedup:
        """The delivered speedup."""
        return self.comparison.speedup

    @property
    def promised_speedup(self) -> Speedup:
        """The promised speedup."""
        return self.claim.promise.speedup

    @cached_property
    def observed(self) -> tuple[Observed, ...]:
        """Observations of the prompts that decoded something."""
        return observed_of(self.comparison.pairs)

    @cached_property
    def delivered(self) -> Totals:
        """Sums of the servers."""
        return totals(self.observed)

    @cached_property
    def promised(self) -> Totals:
        """Sums of what was promised."""
        return totals(self.claim.promise.observed)

    @cached_property
    def ratio(self) -> Speedup | None:
        """Delivered over promised speedup, on the same prompts; None where none is the same."""
        return ratio_of(self.observed, self.claim.promise.observed)

    @property
    def verdict(self) -> str:
        """Promised against delivered in a sentence."""
        return verdict(self.promised_speedup, self.speedup, self.ratio)

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """Prompts that the server tokenizes differently than when the promise was made."""
        digests = {one.measurement.prompt_id: one.digest for one in self.claim.promise.observed}
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
                "seed": case.sampling.seed,
            },
            "promised": {
                "study": self.claim.study,
                **or_reason("advice", self.claim.advice, "the study has not advised anything"),
                **self.promised.document(),
                **self.promised_speedup.document(),
            },
            "delivered": {**self.delivered.document(), **self.speedup.document()},
            **self._agreement(),
            "disturbance": self.comparison.disturbance.document(),
            "notes": list(notes(self)),
            "warnings": list(warnings(self)),
            **ending(self.comparison.ended),
            "prompts": [
                {**pair.document(), "same_output": not differs(pair)}
                for pair in self.comparison.pairs
            ],
        }

    def _agreement(self) -> Json:
        """Whether it holds, in a word, in a sentence and as a ratio."""
        ratio, over = self.ratio, None
        if ratio is not None:
            reason = ratio.interval_reason or NO_INTERVAL
            over = {"estimate": ratio.estimate, **or_reason("ci95", ratio.interval, reason)}
        return {
            "agreement": str(agreement(self.promised_speedup, self.speedup, ratio)),
            "verdict": self.verdict,
            **or_reason("delivered_over_promised", over, "no prompt is the same"),
        }


def warnings(found: Verified) -> Iterator[str]:
    """Warnings about the numbers, or about using the setting."""
    speedup, promise = found.speedup, found.claim.promise
    if not found.delivered.n_drafted:
        yield "llama-server drafted nothing with the exported flags; its log may say why."
    if speedup.low is None or speedup.is_noise:
        return
    wanted = judge(promise.speedup, min_gain=promise.min_gain).use_speculation
    now = judge(speedup, min_gain=promise.min_gain, temp=promise.case.sampling.temp)
    if now.use_speculation != wanted:
        yield f"by the server's own numbers the verdict is another one. {now.reason}"


def notes(found: Verified) -> Iterator[str]:
    """Notes on circumstances of the measurement."""
    speedups = {"promised": found.promised_speedup, "delivered": found.speedup}
    for what, one in speedups.items():
        if not one.is_noise and (because := doubt(one)) is not None:
            yield f"of the speedup that was {what}: {because}."
    yield from found.comparison.disturbance.notes
    if found.ratio is None:
        yield "none of these prompts is the text that the promise was made on."
    elif found.other_prompts:
        more = len(found.other_prompts) - _NAMED
        named = ", ".join(found.other_prompts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"{named}: other tokens for llama-server than when the promise was made; the prompts "
            "have changed, or its chat template is another one."
        )
    if (left_out := left_out_note(found.comparison.workload.repeated)) is not None:
        yield f"{left_out}."
