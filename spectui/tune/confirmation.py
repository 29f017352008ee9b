"""Confirmation of what trials and forecasts chose: its text and its time."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from spectui.format import counted, times_text
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck, check_lossless, differs
from spectui.measure.measurer import measurements, steady
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.statistics import FEWEST_CHANGED, MIN_PROMPTS, paired_speedup
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem
from spectui.tune.depths import DepthRuns
from spectui.tune.evidence import Evidence
from spectui.tune.forecast import Forecast, best_by_drafter
from spectui.tune.forecasting import Forecasting
from spectui.tune.pace import RESERVED, OutOfTimeError, Pace
from spectui.tune.progress import Looked, Notice, Phase
from spectui.tune.race import LOOK_EVERY, Race, Standing, choosable, finalist
from spectui.tune.setup import mixed
from spectui.tune.trials import TrialRecord

N_TIMED = 4
"""Prompts that the best setting of each draft is timed on."""
_NEAR = math.log(1.2)
"""Distance of two forecasts with different drafts that their prices may be off by."""
_MOST = 3
"""Drafts that are timed."""


def rivals(forecasts: Sequence[Forecast]) -> tuple[Forecast, ...]:
    """The best forecast with each draft, n-gram drafters alone as one more, the best first.

    Those far below the best are left out. Forecasts with one draft share the errors of its prices,
    so they rank its settings well. Those with two drafts do not: while one of them was measured,
    the machine may have been busy. So each of these is timed on the same few prompts, and its
    forecast is ``corrected``. The runs choose, and have no part in the verdict.
    """
    found = best_by_drafter(sorted(forecasts, key=lambda one: -one.shrunk))
    return tuple(one for one in found if one.shrunk > found[0].shrunk - _NEAR)[:_MOST]


_FORECAST_ERROR = 0.05
"""Standard deviation that is assumed of forecasts, as a logarithm of the gain: the median is 3.7 %
on a quiet machine (``benchmarks/replay_times.py``)."""


def corrected(
    forecast: Forecast, prompts: Sequence[str], timed: Sequence[PairedMeasurement]
) -> float:
    """Logarithm of the gain that is forecast, corrected by timed runs on some of its prompts.

    On a busy machine a few timed prompts may be further off than the forecast. So they count by
    their error, from leaving out each prompt in turn, beside that of forecasts.

    Args:
        forecast: of a setting.
        prompts: [n_recordings]: their names.
        timed: runs of the setting on recorded prompts, at least ``FEWEST_CHANGED``.
    """
    answers = forecast.answers.whole

    def changed(some: Sequence[PairedMeasurement]) -> float:
        rows = [prompts.index(one.prompt_id) for one in some]
        predicted = float(answers.off_s[rows].sum() / answers.on_s[rows].sum())
        return math.log(paired_speedup(some, n_resamples=1).estimate / predicted)

    n = len(timed)
    without = [changed([*timed[:at], *timed[at + 1 :]]) for at in range(n)]
    variance = (n - 1) / n * sum((one - fmean(without)) ** 2 for one in without)
    return forecast.shrunk + changed(timed) * _FORECAST_ERROR**2 / (_FORECAST_ERROR**2 + variance)


_PRECISE = 0.07
"""Half of an interval with which a speedup is known well, as a share of it."""


@dataclass(eq=False)
class Confirmation:
    """Races what trials and forecasts chose. Use it once."""

    pace: Pace
    """Time keeper of the search."""
    forecasting: Forecasting
    """Forecasts by recorded prompts, and records more."""
    depths: DepthRuns
    """Measures whole requests, which have to gain as well."""

    def __post_init__(self) -> None:
        self.setup = self.pace.setup
        self._race: Race | None = None
        self._decided_s: float | None = None
        """Seconds from the search's start to the first look that decided."""
        self.basis: Basis | None = None
        """Text that was raced on; None before the race."""

    def run(self, records: Sequence[TrialRecord]) -> None:
        """Race, if anything is left to be confirmed; ``records`` are the study's trials."""
        forecasts = self._of_one_draft(choosable(records, self.forecasting.forecasts))
        arm = self._winner(records, forecasts)
        if arm is None:
            return
        evidence, items = self._text(arm, forecasts)
        race = self._race = Race(
            self.pace.runs(arm, self.pace.check_race),
            items,
            min_gain=self.setup.limits.min_gain,
            n_affordable=partial(self.pace.n_affordable, arm),
            requests=lambda one: self.depths.requests(one).value or (),
            basis=self.basis,
            evidence=evidence,
            until_decided=not self.setup.limits.until_precise,
            on_look=lambda found: self.setup.on_event(Looked(arm=arm, speedup=found)),
        )
        self.pace.race_left_s = lambda: self._race_left_s(race)
        n = min(len(items), max(LOOK_EVERY, self.pace.n_affordable(arm, items)))
        n_prompts = len({one.id for one in items})
        on = f"on {counted(n, 'prompt')}"
        if n > n_prompts:
            on = f"in {counted(n, 'timing')} of {counted(n_prompts, 'prompt')}"
        until = "" if self.setup.limits.until_precise else ", until it is decided"
        text = f"confirming {arm.label} against off{until}, {on} at most"
        self.pace.begin(Phase.CONFIRMING, text, n, arm)
        with suppress(OutOfTimeError):
            race.run()
            while self._goes_on(race):
                race.run()

    def _race_left_s(self, race: Race) -> float:
        """Seconds until its end, at most; infinite where further prompts may be recorded."""
        evidence = race.evidence
        if evidence is not None and evidence.share < 1:
            return math.inf
        return self.pace.race_s(race.arm, race.left)

    def _text(
        self, arm: Arm, forecasts: Sequence[Forecast]
    ) -> tuple[Evidence | None, Sequence[WorkItem]]:
        """The recorded prompts, and those to be timed.

        Where time had no room to record enough of them for an interval, others are timed if there
        are enough of those.
        """
        evidence = self.forecasting.evidence(arm, forecasts)
        recorded = [] if evidence is None else self._recorded(evidence.prompts)
        others = [one for one in self.pace.division.judges if one not in recorded]
        if evidence is None or len(recorded) < MIN_PROMPTS <= len(others):
            self.basis = self.pace.division.basis
            return None, others
        self.basis = evidence.basis
        # Recorded prompts are timed until the error of the prices is known.
        return evidence, tuple(self.setup.workload.passes(recorded, range(evidence.n_passes)))

    @property
    def cut(self) -> tuple[int, int] | None:
        """Prompts that were timed, and those to be timed, where time ended it; else None."""
        race = self._race
        if race is None or race.is_decided or not race.left:
            return None
        if self.pace.n_affordable(race.arm, race.left):
            return None
        return len(race.items) - len(race.left), len(race.items)

    def _goes_on(self, race: Race) -> bool:
        """Look again with further prompts; False where no more are needed, or none are left."""
        evidence = race.evidence
        if evidence is None:
            return False
        if race.is_decided and self._is_precise(race):
            return False
        more = self.forecasting.further(evidence, is_decided=race.is_decided)
        if more is None:
            return False
        race.extend(more, self._recorded(more.prompts[len(evidence.prompts) :]))
        if not race.is_timed and (n := self.pace.n_affordable(race.arm, race.left)):
            text = f"timing it on {counted(n, 'more prompt')} at most"
            self.pace.begin(Phase.CONFIRMING, text, n, race.arm)
        return True

    def _is_precise(self, race: Race) -> bool:
        """Whether a gain that was shown is known well, or as much time again has gone into that.

        Never with ``until_precise``, which uses all time and prompts.
        """
        if self.setup.limits.until_precise:
            return False
        if self._decided_s is None:
            self._decided_s = self.pace.took_s
        found = race.speedup
        if found is None or found.low is None or found.high is None or found.low <= 1:
            return True
        is_known = found.high - found.low <= 2 * _PRECISE * found.estimate
        return is_known or self.pace.took_s >= 2 * self._decided_s

    def _recorded(self, prompts: Sequence[tuple[str, str]]) -> Sequence[WorkItem]:
        """Prompts by their names and categories, of all categories in turn."""
        names = {name for name, _category in prompts}
        return mixed([one for one in self.setup.workload.items if one.id in names])

    def _of_one_draft(self, forecasts: Sequence[Forecast]) -> Sequence[Forecast]:
        """The forecasts with the draft whose best setting gains most on a few timed prompts.

        All of them where one draft is far ahead, or there is no time. Where each setting has a
        server of its own, timing several would take most of the time.
        """
        near = rivals(forecasts)
        if len(near) < 2 or self.setup.measurer.n_beside_off is not None:  # noqa: PLR2004
            return forecasts
        prompts = self.forecasting.prompts
        items = self._recorded(prompts)[:N_TIMED]
        if len(items) < FEWEST_CHANGED:
            return forecasts
        needed_s = sum(self.pace.race_s(one.arm, items) for one in near)
        needed_s += self.pace.race_s(near[0].arm, self.pace.division.judges[:RESERVED])
        if self.pace.left_s < needed_s:
            return forecasts
        names, gains = [name for name, _category in prompts], dict[Forecast, float]()
        with suppress(OutOfTimeError):
            for one in near:
                timed = self._timed(one.arm, items)
                if len(timed) >= FEWEST_CHANGED:
                    gains[one] = corrected(one, names, timed)
        if len(gains) < len(near):
            return forecasts
        factors = [
            f"{one.arm.label}: {times_text(math.exp(gain))} (forecast {times_text(one.speedup)})"
            for one, gain in gains.items()
        ]
        self.setup.on_event(Notice(text=f"with {len(items)} timed prompts: {'; '.join(factors)}"))
        draft = max(gains, key=gains.__getitem__).arm.draft
        return [one for one in forecasts if one.arm.draft == draft]

    def _timed(self, arm: Arm, items: Sequence[WorkItem]) -> Sequence[PairedMeasurement]:
        """Runs of a setting that choose a draft."""
        on = counted(len(items), "prompt")
        text = f"timing {arm.label} against off on {on}, to choose a draft"
        self.pace.begin(Phase.CONFIRMING, text, len(items), arm)
        runs = self.pace.runs(arm, lambda _n: self.pace.check())
        runs.measure(items)
        return measurements(steady(runs.pairs))

    def _winner(self, records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Arm | None:
        """The setting to confirm, by trials and forecasts.

        Without either it is the user's own, or a default: there was no time to try any.
        """
        space = self.setup.study.space
        best = finalist(records, forecasts)
        tried = (one for one in records if one.is_tried)
        if best is not None or forecasts or any(tried):
            return best
        return next(iter((*filter(None, (space.present,)), *space.defaults)), None)

    def check_lossless(self) -> LosslessCheck | None:
        """Whether the leader wrote what the target alone did; None where that cannot be checked."""
        race = self._race
        if race is None or not self.setup.workload.sampling.is_greedy:
            return None
        pairs = steady(race.runs.pairs_where_target_moved) or race.pairs
        if any(map(differs, pairs)):
            # The probe needs the draft, and the target's layout, with which the outputs differ.
            self.setup.loader.load(race.arm.draft)
        return check_lossless(self.setup.engine, pairs) if pairs else None

    def conclude(self) -> tuple[Standing, ...]:
        """End the race; how the leader stands, and the user's own setting where it was recorded."""
        race, own = self._race, self.setup.study.space.present
        if race is None:
            return ()
        leader, evidence, timed = race.conclude(), race.evidence, measurements(race.pairs)
        if evidence is None or not timed:
            return (leader,)
        categories, of_others = evidence.by_category(timed), evidence.of_others(timed)
        leader = replace(leader, categories=categories, of_others=of_others)
        if own is None or own == race.arm or evidence.answers(own) is None:
            return (leader,)
        return leader, Standing(arm=own, speedup=evidence.beside(own, timed))
