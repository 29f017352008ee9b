"""Gains of the race's leader at other temperatures, predicted from counts.

How many tokens are accepted depends on the temperature, what a round of a kind costs does not. So
the target answers a few recorded prompts again at another temperature, several at once, the
leader's draft reads these answers, and the rounds that they take are counted and priced as those of
the recording are. These few prompts may gain more or less than all do, at any temperature: they are
compared with themselves, and the race's gain changes by that factor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spectui.documents import Json, Known, or_reason
from spectui.format import counted, speedup_percent
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.options.setup import GREEDY, SamplingConfig
from spectui.speculative.counters import Tally
from spectui.tune.events import RunsStarted
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import NO_TIME, Pace
from spectui.tune.race import Standing
from spectui.tune.setup import SearchSetup

_ASKED = (SamplingConfig().temp, GREEDY.temp, 1.0)
"""Temperatures that requests ask for: llama-server's default, and those of most clients."""
_N_TEMPS = 2
_MOST, _FEWEST = 6, 3
"""Prompts of a temperature."""
_NONE_CONFIRMED = "no setting was confirmed"
_NOT_RECORDED = "the setting was not recorded in this process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The leader at another temperature."""

    sampling: SamplingConfig
    n_prompts: int
    counts: Tally
    """Counts of the rounds."""
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


def temperatures_sentence(found: Temperatures) -> str | None:
    """The predictions in words; None where there are none."""
    if not found.value:
        return None
    told = ", ".join(
        f"{speedup_percent(one.speedup)} "
        f"{'with greedy output' if one.sampling.is_greedy else f'at {one.sampling.label}'}"
        for one in found.value
    )
    prompts = counted(found.value[0].n_prompts, "prompt")
    return f"The same setting would give about {told} (predicted from counts of {prompts})."


def predicted(
    setup: SearchSetup, pace: Pace, forecaster: Forecaster | None, raced: Standing | None
) -> Iterator[Temperatures]:
    """Record what there is time for; yield the predictions so far, or why there can be none.

    Args:
        setup: setup of the search.
        pace: time keeper of the search.
        forecaster: has recorded the prompts; None where nothing was, or a server did.
        raced: leader of the race; None without one.
    """
    if raced is None or raced.speedup is None:
        yield Known(None, _NONE_CONFIRMED)
        return
    if forecaster is None or forecaster.forecast(raced.arm) is None:
        yield Known(None, _NOT_RECORDED)
        return
    own, known = setup.workload.sampling, list[Predicted]()
    for temp in sorted([temp for temp in _ASKED if temp != own.temp][:_N_TEMPS]):
        n = most = min(_MOST, len(forecaster.prompts))
        if pace.is_bounded:
            n = min(n, int(pace.left_s / forecaster.prompt_s()))
        if n < min(_FEWEST, most) or not n:
            yield Known(tuple(known)) if known else Known(None, NO_TIME)
            return
        sampling = replace(own, temp=temp)
        text = f"counting what is accepted of {counted(n, 'prompt')} ({sampling.label})"
        setup.on_event(RunsStarted(text=text, n_runs=n))
        found = forecaster.resampled(raced.arm, sampling, n)
        if found is not None:
            total, change = found
            # A round takes at least as long as a token of the target alone.
            speedup = min(raced.speedup.estimate * change, total.n_decoded / total.n_rounds)
            known.append(Predicted(sampling=sampling, n_prompts=n, counts=total, speedup=speedup))
            yield Known(tuple(known))
