"""Forecasts of a search: how much text is recorded for them at first, and later."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.errors import EngineDiedError, HopelessError, ServerError
from spectui.format import counted, time_text
from spectui.measure.arm import Arm
from spectui.trace.record import Recording
from spectui.tune.evidence import Evidence, evidence_of
from spectui.tune.forecast import Forecast, Outlook
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import Pace
from spectui.tune.progress import ForecastMade, Notice, Phase
from spectui.tune.race import LOOK_EVERY
from spectui.tune.served_forecast import ServedForecaster
from spectui.tune.tracing import MOST_SHARE, WRITTEN_FIRST

_SHARE = 0.5
"""Share of the time budget, the text included: where that is too little for all of the text, less
is recorded, but of as many prompts as are written at once if ``MOST_SHARE`` is enough for them."""
STAGE = 12
"""Prompts that are recorded at first, and again as long as it is not decided: a dozen decide gains
of 20 %."""
_FURTHER_SHARE = 0.8
"""Share of the time that is left in which further prompts are recorded."""
_FEWEST = 6
"""Prompts that are recorded rather with less of each answer than fewer of them."""
_FEWEST_FURTHER = 2
"""Further prompts that are worth another look at the answer."""
_SHORTEST = 16
"""Tokens of an answer that are recorded at least."""


@dataclass(eq=False)
class Forecasting:
    """Forecasts of settings; none without a forecaster."""

    pace: Pace
    """Time keeper of the search."""
    forecaster: Forecaster | ServedForecaster | None
    """None for the sampler alone."""

    def __post_init__(self) -> None:
        self.setup = self.pace.setup
        self.outlook = Outlook()

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """Best first."""
        return self.outlook.forecasts

    @property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Names and categories of the recorded prompts; none without a forecaster."""
        return () if self.forecaster is None else self.forecaster.prompts

    def seconds(self, off: Arm) -> dict[Arm, float]:
        """Forecast seconds of a prompt in the mean, by setting and for ``off``."""
        found = {one.arm: float(one.answers.on_s.sum(axis=1).mean()) for one in self.forecasts}
        for one in self.forecasts[:1]:
            found[off] = float(one.answers.off_s.sum(axis=1).mean())
        return found

    def evidence(self, chosen: Arm, forecasts: Sequence[Forecast]) -> Evidence | None:
        """Evidence of the recorded prompts for a setting that they chose of ``forecasts``."""
        forecaster = self.forecaster
        if forecaster is None:
            return None
        return evidence_of(
            chosen,
            forecasts,
            forecaster.prompts,
            forecaster.forecast,
            self.outlook.readings,
            n_given=len(self.setup.workload.items),
            n_planned=self._planned(forecaster, chosen),
        )

    def _planned(self, forecaster: Forecaster | ServedForecaster, chosen: Arm) -> int:
        """Prompts that may be recorded in all, should it take so many: as many as time allows."""
        items, names = self.setup.workload.items, {name for name, _category in forecaster.prompts}
        if not isinstance(forecaster, Forecaster):
            return len(names)
        if self.pace.budget_s is None:
            return len(items)
        first = [one for one in items if one.id in names][:LOOK_EVERY]
        left_s = self.pace.left_s - self.pace.race_s(chosen, first)
        n_more = left_s / forecaster.prompt_s(self.setup.measurer.prompt_token_s)
        return min(len(items), len(names) + max(0, math.ceil(n_more)))

    def further(self, evidence: Evidence, *, is_decided: bool) -> Evidence | None:
        """Record further prompts for the setting that was chosen, as far as time allows."""
        forecaster, n_left = self.forecaster, evidence.n_planned - len(evidence.prompts)
        if not isinstance(forecaster, Forecaster):
            return None
        n = min(STAGE, n_left)
        if self.pace.budget_s is not None:
            prompt_s = forecaster.prompt_s(self.setup.measurer.prompt_token_s)
            n = min(n, int(_FURTHER_SHARE * self.pace.left_s / prompt_s))
        if n < min(_FEWEST_FURTHER, n_left) or n < 1:
            return None
        why = "decided; for a narrower interval " if is_decided else ""
        text = f"{why}recording {counted(n, 'further prompt')}"
        n_steps = n if evidence.chosen.draft is None else 2 * n
        self.pace.begin(Phase.RECORDING, text, n_steps)
        found = forecaster.further(evidence.chosen, n, self.pace.step)
        if found is None:
            return None
        return evidence.followed_by(*found)

    def look_ahead(self) -> None:
        """Record once, and replay everything."""
        if self.forecaster is None:
            return
        try:
            self.outlook = self._outlook(self.forecaster)
        except HopelessError:
            raise
        except (EngineDiedError, ServerError) as error:
            # Each trial has a process that is new again; trials choose.
            self.setup.on_event(Notice(text=f"no forecast, trials choose: {error}"))
            return
        outlook = self.outlook
        self.setup.on_event(ForecastMade(forecasts=outlook.forecasts, costs=outlook.costs))

    def _outlook(self, forecaster: Forecaster | ServedForecaster) -> Outlook:
        few = min(_FEWEST, len(forecaster.workload.items))
        n_prompts, n_tokens, token_s = self._extent(forecaster)
        if isinstance(forecaster, Forecaster):
            n_prompts = min(n_prompts, STAGE)
        # The rest, for which an earlier run had no time, would take as long again.
        kept = forecaster.recall(max(few, n_prompts // 2), n_tokens)
        if kept is not None:
            prompts = counted(len(forecaster.prompts), "prompt")
            self.setup.on_event(Notice(text=f"going on with the study's recording of {prompts}"))
            return kept
        text = "recording the prompts, to replay every setting on them"
        if forecaster.taken:
            text = "measuring what rounds cost"
            self.setup.on_event(Notice(text=_taken(forecaster.taken)))
        elif n_prompts < few or n_tokens < forecaster.workload.n_predict:
            self.setup.on_event(Notice(text=_short(n_prompts, n_tokens, token_s)))
        self.pace.begin(Phase.RECORDING, text, forecaster.n_steps(n_prompts))
        outlook = forecaster.run(
            n_prompts, n_tokens, self.pace.step, lambda share: self.pace.left_of(share) <= 0
        )
        if forecaster.not_kept is not None:
            text = f"the recording is not kept for a search that goes on: {forecaster.not_kept}"
            self.setup.on_event(Notice(text=text))
        return outlook

    def _extent(self, forecaster: Forecaster | ServedForecaster) -> tuple[int, int, float]:
        """Prompts to record, tokens of each answer, and seconds of one as far as it matters."""
        n, n_tokens = len(forecaster.workload.items), forecaster.workload.n_predict
        if self.pace.budget_s is None:
            return n, n_tokens, 0.0
        tokens_per_s = self.setup.measurer.anchor()
        left_s, prompt_token_s = self.pace.left_of(_SHARE), self.setup.measurer.prompt_token_s

        def fits(n: int, n_tokens: int, left_s: float) -> bool:
            return forecaster.seconds(n, n_tokens, tokens_per_s, prompt_token_s) <= left_s

        # Fewer prompts, then less of each, then fewer still.
        while n_tokens > _SHORTEST and not fits(min(_FEWEST, n), n_tokens, left_s):
            n_tokens = max(_SHORTEST, n_tokens // 2)
        most_s = self.pace.left_of(MOST_SHARE)
        while n > 1 and not fits(n, n_tokens, left_s if n > WRITTEN_FIRST else most_s):
            n -= 1
        return n, n_tokens, 1 / tokens_per_s

    def forecast_also(self, arm: Arm) -> bool:
        """Replay a setting outside the replayed ones; whether there is a forecast of it."""
        if any(one.arm == arm for one in self.forecasts):
            return True
        found = None if self.forecaster is None else self.forecaster.forecast(arm)
        if found is not None:
            every = sorted((*self.forecasts, found), key=lambda one: -one.speedup)
            self.outlook = replace(self.outlook, forecasts=tuple(every))
        return found is not None


def _taken(recordings: Sequence[Recording]) -> str:
    n, tokens = len(recordings), sum(one.n_decoded for one in recordings)
    return (
        f"taking the study's recording: {counted(tokens, 'token')} of {counted(n, 'answer')} are "
        "not decoded again; prices are measured on this machine"
    )


def _short(n_prompts: int, n_tokens: int, token_s: float) -> str:
    what = f"{n_tokens} tokens of {counted(n_prompts, 'answer')}"
    return (
        f"a token of the target takes {time_text(token_s)} now, so that {what} can be recorded in "
        "this time; forecasts from more text are surer"
    )
