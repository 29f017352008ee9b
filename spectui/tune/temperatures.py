"""Gains of the race's leader at other temperatures, predicted from counts.

How many tokens are accepted depends on the temperature, what a round of a kind costs does not. So
the target answers a few recorded prompts again at another temperature, several at once, the
leader's draft reads these answers, and the rounds that they take are counted and priced as those of
the recording are. These few prompts may gain more or less than all do, at any temperature: they are
compared with themselves, and the race's gain changes by that factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.documents import Json, or_reason
from spectui.format import counted, gain_percent
from spectui.known import Known
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.options.setup import GREEDY, SamplingConfig
from spectui.speculative.counters import Tally
from spectui.tune.events import TemperatureStarted
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import Pace
from spectui.tune.race import Standing
from spectui.tune.setup import SearchSetup

_ASKED = (SamplingConfig().temp, GREEDY.temp, 1.0)
"""Temperatures that requests ask for: llama-server's default, and those of most clients."""
_N_TEMPS = 2
_MOST, _FEWEST = 6, 3
"""Prompts of a temperature."""
_NONE_CONFIRMED = "no setting was confirmed"
_NOT_RECORDED = "the setting was not recorded in this process"
_NO_TIME = "the time budget had no room for it"
_ENDED = "it was ended before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The leader at another temperature."""

    sampling: SamplingConfig
    n_prompts: int
    counts: Tally
    """Of the rounds."""
    speedup: float
    """Over the target alone, predicted."""

    def document(self) -> Json:
        """The prediction in documents."""
        rate = self.counts.acceptance_rate
        return {
            "temp": self.sampling.temp,
            "n_prompts": self.n_prompts,
            "n_rounds": self.counts.n_rounds,
            "n_drafted": self.counts.n_drafted,
            "n_accepted": self.counts.n_accepted,
            **or_reason("acceptance_rate", rate, NOTHING_DRAFTED),
            "predicted_speedup": self.speedup,
        }


Temperatures = Known[tuple[Predicted, ...]]
"""The leader at other temperatures, or why nothing is predicted."""


def temperatures_document(found: Temperatures) -> Json:
    """The predictions in documents."""
    told = None if found.value is None else [one.document() for one in found.value]
    return or_reason("other_temperatures", told, found.reason or "")


def temperatures_sentence(found: Temperatures) -> str | None:
    """The predictions in words; None where there are none."""
    if not found.value:
        return None
    told = ", ".join(
        f"{gain_percent(100 * (one.speedup - 1), 0)} "
        f"{'with greedy output' if one.sampling.is_greedy else f'at {one.sampling.label}'}"
        for one in found.value
    )
    prompts = counted(found.value[0].n_prompts, "prompt")
    return f"The same setting would give about {told} (predicted from counts of {prompts})."


class TemperatureRuns:
    """Counts rounds at other temperatures after a race. Use it once."""

    def __init__(self, setup: SearchSetup, pace: Pace, forecaster: Forecaster | None) -> None:
        """Prepare; nothing is decoded yet.

        Args:
            setup: setup of the search.
            pace: time keeper of the search.
            forecaster: has recorded the prompts; None where nothing was, or a server did.
        """
        self._setup = setup
        self._pace = pace
        self._forecaster = forecaster
        own = setup.workload.sampling
        others = [temp for temp in _ASKED if temp != own.temp][:_N_TEMPS]
        self._samplings = [replace(own, temp=temp) for temp in sorted(others)]
        self._found: list[Predicted] = []
        self._reason: str | None = _ENDED

    def run(self, standings: Sequence[Standing]) -> None:
        """Record what there is time for. May be interrupted."""
        if not standings or standings[0].speedup is None or standings[0].arm.is_off:
            self._reason = _NONE_CONFIRMED
            return
        leader, forecaster = standings[0].arm, self._forecaster
        if forecaster is None or forecaster.forecast(leader) is None:
            self._reason = _NOT_RECORDED
            return
        for sampling in self._samplings:
            n = self._n_affordable(forecaster)
            if not n:
                self._reason = _NO_TIME
                return
            self._setup.on_event(TemperatureStarted(sampling=sampling, n_prompts=n))
            found = forecaster.resampled(leader, sampling, n)
            if found is None:
                continue
            # A round takes at least as long as a token of the target alone.
            most = found.total.n_decoded / found.total.n_rounds
            self._found.append(
                Predicted(
                    sampling=sampling,
                    n_prompts=n,
                    counts=found.total,
                    speedup=min(standings[0].speedup.estimate * found.change, most),
                )
            )

    def _n_affordable(self, forecaster: Forecaster) -> int:
        """Prompts; 0 where there is time for too few."""
        n = most = min(_MOST, len(forecaster.prompts))
        if self._pace.is_bounded:
            n = min(n, int(self._pace.left_s / forecaster.prompt_s()))
        return n if n >= min(_FEWEST, most) else 0

    def conclude(self) -> Temperatures:
        """The predictions so far, also after an interrupt."""
        return Known(tuple(self._found)) if self._found else Known(None, self._reason)
