"""Contents of a report: what a stored study says, whatever it is printed as."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from pathlib import Path

import msgspec

from spectui.documents import Known
from spectui.measure.arm import Arm
from spectui.measure.observed import totals
from spectui.measure.promise import Promise
from spectui.measure.verdict import Answer, Verdict
from spectui.report.document import ModelPart, SidePart, TuneDocument, arm_of, read_document
from spectui.tune.outcome import Gain
from spectui.tune.studies.listing import StoredStudy
from spectui.tune.trials import TrialRecord, speedup_estimate

_ENDED_EARLY = "the search ended before it had found a verdict; its command goes on from there"
_NOT_KEPT = "it was searched on the screen or by an older spectui, neither of which keeps this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial with what was predicted of its setting."""

    record: TrialRecord
    speedup: float | None
    """Estimate of the trial; None where it was not measured."""
    predicted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a study's report."""

    study: str
    ended: datetime | None
    verdict: Verdict | None
    gain: Gain | None
    """Gain of the best setting in decoding, as it is told to people; None where none was
    confirmed."""
    best: Arm | None
    document: TuneDocument
    """The document that ``tune`` printed, completed by what is kept beside it."""
    reasons: Mapping[str, str]
    """Why parts of the document are missing, by name."""
    tried: tuple[Tried, ...]
    """Trials, the fastest first; what was not measured comes last."""
    predicted: Mapping[Arm, float]
    prompts: Known[str]
    """The prompts in words."""
    searched_by: tuple[str, ...]
    """Options of the search as they are typed; empty where they are not kept."""
    source: StoredStudy

    @property
    def headline(self) -> str:
        """The answer in a few words."""
        if self.verdict is None:
            return "No verdict yet"
        if self.verdict.answer is Answer.NO_DIFFERENCE:
            return "No difference worth having"
        return self.verdict.advice.removesuffix(", so leave it off")

    @property
    def rates(self) -> tuple[float, float] | None:
        """Tokens per second without and with the best setting; None where one is not known."""
        off, on = self.document.baseline, self.document.best
        found = (off and off.tokens_per_s, on and on.tokens_per_s)
        if self.source.promise is not None and off is None:
            sums = totals(self.source.promise.observed)
            found = sums.baseline_tokens_per_s, sums.tokens_per_s
        return (found[0], found[1]) if found[0] and found[1] else None


def content_of(study: StoredStudy, searched_by: Sequence[str] = ()) -> Content:
    """Collect what a study says.

    Args:
        study: as it is kept.
        searched_by: options of its search, as they are typed.
    """
    kept = None if study.report is None else study.report.document
    outcome = study.outcome
    document, reasons = read_document(kept, _ENDED_EARLY if outcome is None else _NOT_KEPT)
    if document.target is None and outcome is not None:
        own = ModelPart(path=str(outcome.target.path))
        document = msgspec.structs.replace(document, target=own)
    predicted = {} if study.predictions is None else study.predictions.by_arm()
    predicted = {arm: one for arm, one in predicted.items() if isfinite(one) and one > 0}
    best = None if document.best is None else arm_of(document.best.params)
    if document.best is None and study.promise is not None:
        case = study.promise.case
        draft = None if case.draft is None else case.draft.path.stem
        best = Arm(draft=draft, speculation=case.speculation)
    return Content(
        study=study.name,
        ended=None if outcome is None else outcome.ended,
        verdict=None if outcome is None else outcome.verdict,
        gain=None if outcome is None else _credible(outcome.gain, document.best),
        best=best,
        document=document,
        reasons=reasons,
        tried=_tried(study.trials, predicted),
        predicted=predicted,
        prompts=_prompts(study.promise),
        searched_by=tuple(searched_by),
        source=study,
    )


def _credible(gain: Gain | None, best: SidePart | None) -> Gain | None:
    """The gain without what cannot be: it is cut at what the accepted tokens can give."""
    numbers = () if gain is None else (gain.speedup, gain.low or 1.0, gain.high or 1.0)
    is_noise = best is not None and best.speedup_is_noise
    if gain is None or is_noise or not all(isfinite(one) and one > 0 for one in numbers):
        return None
    most = best.speedup_at_most if best is not None and best.speedup_is_capped else None
    if most is None:
        return gain
    low, high = (end and min(end, most) for end in (gain.low, gain.high))
    return replace(gain, speedup=min(gain.speedup, most), low=low, high=high)


def _tried(trials: Sequence[TrialRecord], predicted: Mapping[Arm, float]) -> tuple[Tried, ...]:
    found = [
        Tried(record=record, speedup=speedup, predicted=predicted.get(record.arm))
        for record, estimate in ((one, speedup_estimate(one, trials)) for one in trials)
        for speedup in [estimate if estimate is not None and isfinite(estimate) else None]
    ]
    return tuple(sorted(found, key=lambda one: (one.speedup is None, -(one.speedup or 0.0))))


def _prompts(promise: Promise | None) -> Known[str]:
    if promise is None:
        return Known(None, "no setting was confirmed")
    if promise.is_chat:
        return Known("turns of a chat, whose text is not kept")
    if promise.prompts is None:
        return Known("the built-in suite of spectui")
    return Known(f"the user's own ({Path(promise.prompts).name})")
