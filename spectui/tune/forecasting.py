"""The first phase of a search: a recording as time allows, and the forecasts from it."""

from collections.abc import Mapping

from spectui.trace.costs import Costs
from spectui.tune.events import ForecastMade, TraceProgress
from spectui.tune.forecast import Forecast, Forecaster, Outlook
from spectui.tune.pace import Pace
from spectui.tune.setup import SearchSetup
from spectui.tune.trialing import TrialRunner

_SHARE = 0.4
"""Share of the time budget, the off trial included: where that is too little for all prompts, fewer
are recorded."""
_FEWEST = 4
"""Prompts without which a forecast is not worth its time."""


class Forecasting:
    """Forecasts of settings; none without a forecaster."""

    def __init__(
        self,
        forecaster: Forecaster | None,
        setup: SearchSetup,
        pace: Pace,
        trials: TrialRunner,
    ) -> None:
        """Prepare; nothing is recorded yet.

        Args:
            forecaster: None for the sampler alone.
            setup: setup of the search.
            pace: time keeper of the search.
            trials: runner of the trials.
        """
        self._forecaster = forecaster
        self._measurer = setup.measurer
        self._on_event = setup.on_event
        self._pace = pace
        self._trials = trials
        self.forecasts: tuple[Forecast, ...] = ()
        """Best first."""
        self.costs: Mapping[str, Costs] = {}
        """Costs of rounds by drafter, from the recording."""
        self.left_out_recording = False
        """Whether there was no time for it."""

    @property
    def is_asked_for(self) -> bool:
        """Whether there is anybody to forecast."""
        return self._forecaster is not None

    def look_ahead(self, *, goes_on: bool) -> None:
        """Record once, and replay everything.

        Args:
            goes_on: an earlier run of this study may have recorded already.
        """
        outlook = self._outlook(goes_on=goes_on)
        if outlook is not None:
            self.forecasts, self.costs = outlook.forecasts, outlook.costs
            self._on_event(ForecastMade(forecasts=self.forecasts, costs=self.costs))

    def _outlook(self, *, goes_on: bool) -> Outlook | None:
        forecaster = self._forecaster
        if forecaster is None:
            return None
        if goes_on and (kept := forecaster.recall()) is not None:
            return kept
        n_prompts = self._n_to_record(forecaster)
        if not n_prompts:
            self.left_out_recording = True
            return None
        n_steps = forecaster.n_steps(n_prompts)
        self._on_event(TraceProgress(step=None, n_steps=n_steps))
        return forecaster.run(
            n_prompts,
            lambda step: self._on_event(TraceProgress(step=step, n_steps=n_steps)),
            outputs=self._trials.outputs,
            has_time=lambda: self._pace.left_of(_SHARE) > 0,
        )

    def _n_to_record(self, forecaster: Forecaster) -> int:
        """Prompts to record; 0 for no forecast."""
        if not self._pace.is_bounded:
            return forecaster.n_prompts
        tokens_per_s = self._measurer.anchor()
        left_s = self._pace.left_of(_SHARE)
        for n in range(forecaster.n_prompts, 0, -1):
            needs_s = forecaster.seconds(
                n,
                tokens_per_s,
                self._measurer.prompt_token_s,
                n_written=len(self._trials.outputs),
            )
            if needs_s <= left_s:
                return n if n >= min(_FEWEST, forecaster.n_prompts) else 0
        return 0

    def forecast_tried(self) -> None:
        """Replay what the sampler has chosen outside the replayed settings."""
        known = {one.arm for one in self.forecasts}
        new = [one.arm for one in self._trials.records[-1:] if one.arm not in known]
        found = [self._forecaster.forecast(arm) for arm in new] if self._forecaster else []
        told = [one for one in found if one is not None]
        if told:
            every = (*self.forecasts, *told)
            self.forecasts = tuple(sorted(every, key=lambda one: -one.speedup))
