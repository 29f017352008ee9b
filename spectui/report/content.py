"""Contents of a report: what a stored study says, whatever it is printed as."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path

import msgspec

from spectui.known import Known
from spectui.measure.arm import Arm
from spectui.measure.observed import Observed, totals
from spectui.measure.promise import Promise
from spectui.measure.verdict import Answer, Verdict
from spectui.report.document import (
    CategoryPart,
    ConfigPart,
    EnginePart,
    ModelPart,
    SidePart,
    TuneDocument,
    read_document,
)
from spectui.report.settings import arm_of
from spectui.tune.outcome import Gain
from spectui.tune.studies.transfer import StoredStudy
from spectui.tune.trials import TrialRecord, TrialState, speedup_estimate

_ENDED_EARLY = "the search ended before it had found a verdict; its command goes on from there"
_NOT_KEPT = "it was searched on the screen or by an older spectui, neither of which keeps this"
_HEADLINES = {
    Answer.USE: "Use it",
    Answer.OFF: "Leave it off",
    Answer.NO_DIFFERENCE: "No difference worth having",
    Answer.UNDECIDED: "Not decided",
}

_BEGINNINGS = ("Use it", "Turn it off", "Not decided")
"""Of verdicts, where the rest of the sentence only adds to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial with what was predicted of its setting."""

    record: TrialRecord
    speedup: float | None
    """Estimate of the trial; None where it was not measured."""
    predicted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a study says."""

    study: str
    ended: datetime | None
    verdict: Verdict | None
    gain: Gain | None
    """Gain of the best setting in decoding, as it is told to people; None where none was
    confirmed."""
    best: Arm | None
    document: TuneDocument
    """What ``tune`` printed, completed by what is kept beside it."""
    reasons: Mapping[str, str]
    """Why parts of the document are missing, by name."""
    tried: tuple[Tried, ...]
    """Trials, the fastest first; what was not measured comes last."""
    n_later: int
    """Trials since the verdict, which knows nothing of them."""
    states: Mapping[TrialState, int]
    """Number of trials by their state."""
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
        # The sentence says it, where an older spectui kept no answer as well.
        reason = self.verdict.reason
        for words in _BEGINNINGS:
            if reason.startswith(words):
                # Answers that are too short for it are part of the advice.
                return reason.partition(":")[0] if reason.startswith(f"{words} for ") else words
        usual = Answer.USE if self.verdict.use_speculation else Answer.OFF
        return _HEADLINES[self.verdict.answer or usual]

    @property
    def rates(self) -> tuple[float, float] | None:
        """Tokens per second without and with the best setting; None where one is not known."""
        off, on = self.document.baseline, self.document.best
        if off is None or on is None or not off.tokens_per_s or not on.tokens_per_s:
            return None
        return off.tokens_per_s, on.tokens_per_s


def content_of(study: StoredStudy, searched_by: Sequence[str] = ()) -> Content:
    """Collect what a study says.

    Args:
        study: as it is kept.
        searched_by: options of its search, as they are typed.
    """
    kept = None if study.report is None else study.report.document
    outcome = study.outcome
    document, reasons = read_document(kept, _ENDED_EARLY if outcome is None else _NOT_KEPT)
    document = _completed(document, study)
    predicted = {} if study.predictions is None else study.predictions.by_arm()
    predicted = {arm: one for arm, one in predicted.items() if isfinite(one) and one > 0}
    best = None if document.best is None else arm_of(document.best.params)
    return Content(
        study=study.name,
        ended=None if outcome is None else outcome.ended,
        verdict=None if outcome is None else outcome.verdict,
        gain=None if outcome is None else _told(outcome.gain, document.best),
        best=best,
        document=document,
        reasons=reasons,
        tried=_tried(study.trials, predicted),
        n_later=_later(study),
        states=Counter(record.state for record in study.trials),
        predicted=predicted,
        prompts=_prompts(study.promise),
        searched_by=tuple(searched_by),
        source=study,
    )


def _told(gain: Gain | None, best: SidePart | None) -> Gain | None:
    """The gain without what cannot be: it is cut at what the accepted tokens can give."""
    if gain is None or not isfinite(gain.speedup) or gain.speedup <= 0:
        return None
    if best is not None and best.speedup_is_noise:
        return None
    ends = [
        end if end is not None and isfinite(end) and end > 0 else None
        for end in (gain.low, gain.high)
    ]
    most = best.speedup_at_most if best is not None and best.speedup_is_capped else None
    low, high = (end if end is None or most is None else min(end, most) for end in ends)
    speedup = gain.speedup if most is None else min(gain.speedup, most)
    return Gain(speedup=speedup, low=low, high=high, n_prompts=gain.n_prompts)


def _completed(document: TuneDocument, study: StoredStudy) -> TuneDocument:
    """The document with what outcome and promise tell, where it lacks that."""
    found: dict[str, object] = {}
    if study.outcome is not None:
        found["target"] = ModelPart(path=str(study.outcome.target.path))
    if study.promise is not None:
        found |= _promised(study.promise)
    missing = {name: value for name, value in found.items() if getattr(document, name) is None}
    return msgspec.structs.replace(document, **missing)


def _promised(promise: Promise) -> dict[str, object]:
    """Parts of a document that a promise tells."""
    case, sampling = promise.case, promise.case.sampling
    draft = None if case.draft is None else case.draft.path
    arm = Arm(draft=None if draft is None else draft.stem, speculation=case.speculation)
    sums = totals(promise.observed)
    by_category: dict[str, list[Observed]] = {}
    for one in promise.observed:
        by_category.setdefault(one.measurement.category, []).append(one)
    return {
        "target": ModelPart(path=str(case.target.path)),
        "drafts": () if draft is None else (ModelPart(path=str(draft), name=draft.stem),),
        "engine": EnginePart(llama_cpp=promise.llama_cpp, library=promise.library),
        "config": ConfigPart(
            n_predict=case.n_predict,
            n_prompts=len(promise.prompt_ids),
            temp=sampling.temp,
            seed=sampling.seed,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            ignore_eos=sampling.ignore_eos,
        ),
        "baseline": SidePart(tokens_per_s=sums.baseline_tokens_per_s),
        "best": SidePart(tokens_per_s=sums.tokens_per_s, params=arm.document()),
        "per_category": tuple(_category(*members) for members in by_category.items()),
    }


def _category(name: str, members: Sequence[Observed]) -> CategoryPart:
    sums = totals(members)
    off, on = sums.baseline_tokens_per_s, sums.tokens_per_s
    return CategoryPart(
        category=name,
        n_prompts=len({one.measurement.prompt_id for one in members}),
        speedup=on / off if off and on else None,
        acceptance_rate=sums.acceptance_rate,
    )


def _tried(trials: Sequence[TrialRecord], predicted: Mapping[Arm, float]) -> tuple[Tried, ...]:
    found = [
        Tried(record=record, speedup=speedup, predicted=predicted.get(record.arm))
        for record, estimate in ((one, speedup_estimate(one, trials)) for one in trials)
        for speedup in [estimate if estimate is not None and isfinite(estimate) else None]
    ]
    return tuple(sorted(found, key=lambda one: (one.speedup is None, -(one.speedup or 0.0))))


def _later(study: StoredStudy) -> int:
    """Trials since the report was printed; 0 where it is not known."""
    told = None if study.report is None else study.report.document.get("trials")
    return max(0, len(study.trials) - len(told)) if isinstance(told, list) else 0


def _prompts(promise: Promise | None) -> Known[str]:
    if promise is None:
        return Known(None, "no setting was confirmed")
    if promise.is_chat:
        return Known("turns of a chat, whose text is not kept")
    if promise.prompts is None:
        return Known("the built-in suite of spectui")
    return Known(f"the user's own ({Path(promise.prompts).name})")
