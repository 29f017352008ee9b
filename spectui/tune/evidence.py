"""The second sample of a verdict: recorded prompts, counted and priced, some of them timed as well.

What one prompt gains more than another is nine tenths of an interval's width, and counts have it
exactly; what prices are off by is common to all prompts, and a few timed ones show it. So the
speedup is that of all recorded prompts by counts and prices, times what the timed ones gained over
what was predicted of them (``statistics.rescaled``).

The best of thousands of settings on some prompts is partly the best for just these, and looks
better on them than it is. So each prompt is counted with the setting that the others have chosen
(cross-fitting; Chernozhukov et al. 2018, "Double/debiased machine learning"): all prompts judge,
and none chooses for itself. A choice that varies from prompt to prompt makes such an interval too
narrow by a quarter at worst; ``CROSSED_ERROR`` allows for that (``benchmarks/race_coverage.py``).

A dozen prompts or fewer hardly allow a conclusion on others, and their user wants one on these.
Then the answer is for these prompts, with the parts of their answers as the sample; the gain on
other prompts is reported beside it, with its wide interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from spectui.documents import Json, fields_of
from spectui.measure.arm import Arm
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.reading import NONE_APART, Readings
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import (
    MIN_PROMPTS,
    interval_reach,
    paired_speedup,
    rescaled,
    speedup_within,
)
from spectui.measure.verdict import Basis
from spectui.speculative.counters import Drafted
from spectui.trace.ngrams import NGRAM_COSTS
from spectui.tune.forecast import Answers, Forecast, shrunk


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryGain(Drafted):
    """Prompts of one category."""

    category: str
    n_prompts: int
    speedup: float | None
    """Over off, as much text on both sides; None where nothing was decoded."""

    def document(self) -> Json:
        """The category as JSON."""
        return {
            **fields_of(self, "nothing was decoded", "category", "n_prompts", "speedup"),
            **fields_of(self, NOTHING_DRAFTED, "acceptance_rate"),
        }


FEW = 12
"""Prompts up to which the answer is for just these."""
CROSSED_ERROR = 0.02
"""Error of an interval over text that has chosen for each other, both sides."""
_FEW_ERROR = 0.01
"""The same for just these prompts, whose parts are few."""
_FOLDS = 12
"""Groups of prompts that the others choose for."""
_TIMED_SHARE = 0.2
"""Share of the variance below which timing is not worth more of it."""
LEVEL = 0.95
"""Confidence level of the intervals that are reported."""

_Folds = npt.NDArray[np.int_]
"""[n_recordings, n_parts]: of each part of an answer, the fold that it is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Recorded prompts of a search."""

    chosen: Arm
    """The setting that all of them have chosen."""
    prompts: tuple[tuple[str, str], ...]
    """[n_recordings]: names and categories."""
    answers: Callable[[Arm], Answers | None] = field(repr=False)
    """The recorded answers with a setting; None where the recording does not hold it."""
    by_prompts: Answers = field(repr=False)
    """Each answer with the setting that is best for the other prompts."""
    by_parts: Answers = field(repr=False)
    """Each part of an answer with the setting that is best for the other parts of all answers."""
    readings: Mapping[str, Readings] = field(default_factory=dict, repr=False)
    """Prompts that were evaluated for the recording, by draft; under ``NGRAM_COSTS`` without."""
    is_of_few: bool = False
    """Whether the answer is for just these prompts: they are all, and a dozen at most."""
    n_planned: int = 0
    """Prompts for which there may be time in all, in several stages; 0 for just these."""
    n_resamples: int = 40_000
    """Resamples of the bootstrap: a look spends a part of the error, far out in the tails."""

    @property
    def basis(self) -> Basis:
        """Text that the setting is judged on."""
        return Basis.THESE if self.is_of_few else Basis.CROSSED

    @property
    def error(self) -> float:
        """Error that the looks share."""
        return _FEW_ERROR if self.is_of_few else CROSSED_ERROR

    @property
    def share(self) -> float:
        """Share of the planned prompts that is recorded."""
        return len(self.prompts) / max(self.n_planned, len(self.prompts))

    def followed_by(self, prompts: Sequence[tuple[str, str]], answers: Answers) -> "Evidence":
        """The same with further prompts, which had no part in choosing the setting.

        Args:
            prompts: [n_recordings]: names and categories.
            answers: to them, with ``chosen``.
        """
        earlier, chosen = self.answers, self.chosen

        def answers_of(arm: Arm) -> Answers | None:
            own = earlier(arm)
            return own if own is None or arm != chosen else own.followed_by(answers)

        return replace(
            self,
            prompts=(*self.prompts, *prompts),
            answers=cache(answers_of),
            by_prompts=self.by_prompts.followed_by(answers),
            by_parts=self.by_parts.followed_by(answers),
        )

    @property
    def n_passes(self) -> int:
        """Passes over the prompts until enough are timed to know the error of a factor."""
        return -(-MIN_PROMPTS // len(self.prompts))

    def speedup(self, timed: Sequence[PairedMeasurement], *, level: float = LEVEL) -> Speedup:
        """The speedup that the verdict is on.

        Args:
            timed: of recorded prompts.
            level: of the interval.

        Raises:
            ValueError: none of these prompts was recorded.
        """
        return self._changed(self._counted(self.chosen, level), timed)

    def beside(self, arm: Arm, timed: Sequence[PairedMeasurement]) -> Speedup:
        """The speedup of another setting, at the prices of the timed runs of ``chosen``.

        Raises:
            ValueError: as ``speedup`` does; or the setting was not recorded.
        """
        return replace(self._changed(self._counted(arm, LEVEL), timed), n_timed=0)

    @property
    def reading(self) -> Readings:
        """Prompts that target and draft have evaluated for this; none where the target moves."""
        moves, draft = self.chosen.layout is not None, self.chosen.draft or NGRAM_COSTS
        return NONE_APART if moves else self.readings.get(draft, NONE_APART)

    def of_others(self, timed: Sequence[PairedMeasurement]) -> Speedup | None:
        """Gain on prompts like these, where the verdict is on just these; else None."""
        if not self.is_of_few:
            return None
        whole = paired_speedup(self._rows(self.by_prompts.whole), level=1 - CROSSED_ERROR)
        return replace(self._changed(whole, timed), level=LEVEL)

    def by_category(self, timed: Sequence[PairedMeasurement]) -> tuple[CategoryGain, ...]:
        """The gains of which the speedup is the mean; counts are those of ``chosen``."""
        own, judged = self._own(self.chosen).whole, self._judged(self.chosen).whole
        whole = paired_speedup(self._rows(judged), n_resamples=1)
        factor = self._changed(whole, timed).estimate / whole.estimate
        found: dict[str, list[int]] = {}
        for index, (_name, category) in enumerate(self.prompts):
            if judged.on_s[index] > 0:
                found.setdefault(category, []).append(index)
        return tuple(
            CategoryGain(
                category=category,
                n_prompts=len(rows),
                speedup=factor * float(judged.off_s[rows].sum() / judged.on_s[rows].sum()),
                n_drafted=int(own.drafted[rows].sum()),
                n_accepted=int(own.accepted[rows].sum()),
            )
            for category, rows in found.items()
        )

    def progress(self, timed: Sequence[PairedMeasurement], n_planned: int) -> float:
        """Share of the information that ``n_planned`` timed runs will have; 1 for all of it.

        More of them would hardly narrow the interval where timing is a small part of it: then that
        is all as well.
        """
        share = len(timed) / max(n_planned, len(timed))
        both = self._counted(self.chosen, LEVEL), self.speedup(timed)
        # The other side may reach to a forecast, which no timing narrows.
        of_counts, of_all = (min(interval_reach(one)) for one in both)
        if not of_counts or not of_all:
            return share
        timing = 1 - (of_counts / of_all) ** 2
        return 1.0 if timing <= _TIMED_SHARE else 1 - timing * (1 - share)

    def _counted(self, arm: Arm, level: float) -> Speedup:
        """The speedup by counts and prices: of ``chosen`` with what other text has chosen."""
        answers = self._judged(arm)
        if self.is_of_few:
            return speedup_within(self._rows(answers), level=level)
        rows = self._rows(answers.whole)
        return paired_speedup(rows, level=level, n_resamples=self.n_resamples)

    def _judged(self, arm: Arm) -> Answers:
        """Answers with an arm, those of ``chosen`` with what other text has chosen."""
        if arm != self.chosen:
            return self._own(arm)
        return self.by_parts if self.is_of_few else self.by_prompts

    def _own(self, arm: Arm) -> Answers:
        found = self.answers(arm)
        if found is None:
            raise ValueError(f"{arm.label} was not recorded")
        return found

    def _changed(self, whole: Speedup, timed: Sequence[PairedMeasurement]) -> Speedup:
        """``whole`` as the timed runs of ``chosen`` change it.

        Few prompts are timed several times, and each run is a measurement of the prices.
        """
        expected = {one.prompt_id: one for one in self._rows(self._own(self.chosen).whole)}
        ours = [one for one in timed if one.prompt_id in expected]
        theirs = [expected[one.prompt_id] for one in ours]
        n_timed = len({one.prompt_id for one in ours})
        if self.n_passes > 1:
            ours, theirs = (
                [replace(one, prompt_id=f"{one.prompt_id} {n}") for n, one in enumerate(rows)]
                for rows in (ours, theirs)
            )
        return replace(rescaled(whole, ours, theirs), n_timed=n_timed)

    def _rows(self, answers: Answers) -> list[PairedMeasurement]:
        """Parts of answers in which something was decoded."""
        return [
            PairedMeasurement(
                prompt_id=self.prompts[index][0],
                category=self.prompts[index][1],
                baseline_s=float(answers.off_s[index, part]),
                baseline_tokens=int(answers.tokens[index, part]),
                speculative_s=float(answers.on_s[index, part]),
                speculative_tokens=int(answers.tokens[index, part]),
                n_accepted=int(answers.accepted[index, part]),
            )
            for index, part in np.argwhere(answers.on_s > 0).tolist()
        ]


def evidence_of(
    chosen: Arm,
    forecasts: Sequence[Forecast],
    prompts: Sequence[tuple[str, str]],
    replay: Callable[[Arm], Forecast | None],
    readings: Mapping[str, Readings],
    *,
    n_given: int,
    n_planned: int = 0,
) -> Evidence | None:
    """Evidence of recorded prompts for the setting that they chose.

    Args:
        chosen: the best of ``forecasts``.
        forecasts: all that can be chosen.
        prompts: [n_recordings]: names and categories.
        replay: replays any other setting.
        readings: prompts that were evaluated for the recording, by draft.
        n_given: prompts of the search; where time was too short for all, some were recorded.
        n_planned: prompts that may be recorded in all; 0 for just these.

    Returns:
        None where nothing was decoded.
    """
    answers = {one.arm: one.answers for one in forecasts}
    own = answers.get(chosen)
    if own is None or not own.on_s.any():
        return None
    # A setting that drafts nothing is off by another name.
    able = [one.answers for one in forecasts if one.n_drafted] or [own]
    indices = np.indices(own.on_s.shape)

    def answers_of(arm: Arm) -> Answers | None:
        other = None if arm in answers else replay(arm)
        return answers.get(arm) if other is None else other.answers

    return Evidence(
        chosen=chosen,
        prompts=tuple(prompts),
        readings=readings,
        is_of_few=n_given <= FEW,
        n_planned=n_planned,
        answers=cache(answers_of),
        by_prompts=_crossed(able, indices[0] % min(len(prompts), _FOLDS)),
        by_parts=_crossed(able, indices[1]),
    )


def _crossed(answers: Sequence[Answers], folds: _Folds) -> Answers:
    """Each fold with the setting that the text of the others chooses.

    Args:
        answers: with each setting that can be chosen.
        folds: of the text.
    """
    on_s, off_s = (np.array([getattr(one, n) for one in answers]) for n in ("on_s", "off_s"))
    found = np.zeros_like(folds)
    for fold in range(folds.max() + 1):
        others = folds != fold
        if not off_s[:, others].any():
            # A prompt alone has no others.
            others = np.ones_like(others)
        # As ``promising`` chooses from all text.
        found[folds == fold] = np.argmax(shrunk(off_s[:, others], on_s[:, others]))
    rows, columns = np.indices(folds.shape)
    return Answers(*np.moveaxis(np.array(answers), 1, -1)[found, rows, columns].transpose(2, 0, 1))
