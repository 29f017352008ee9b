"""Gains of the race's leader at other temperatures, predicted from counts.

How many tokens are accepted depends on the temperature, what a round of a kind costs does not. So
a few prompts of the race are decoded with speculation alone, which takes less time than a pair, and
their rounds, which are counted exactly, cost what rounds of their kinds did in the race. These few
prompts may gain more or less than all do, at any temperature: they are compared with themselves in
the race, and the race's gain changes by that factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.documents import Json, or_reason
from spectui.engine.events import RoundPrice
from spectui.format import counted, gain_percent
from spectui.known import Known
from spectui.measure.measurer import NOTHING_DRAFTED, Pair, total_counters
from spectui.measure.predicted import Prices
from spectui.options.setup import GREEDY, SamplingConfig
from spectui.speculative.counters import Counters
from spectui.tune.events import TemperatureStarted
from spectui.tune.pace import Pace
from spectui.tune.race import Standing
from spectui.tune.setup import SearchSetup

_ASKED = (SamplingConfig().temp, GREEDY.temp, 1.0)
"""Temperatures that requests ask for: llama-server's default, and those of most clients."""
_N_TEMPS = 2
_MOST, _FEWEST = 6, 3
"""Prompts of a temperature."""
_NONE_CONFIRMED = "no setting was confirmed"
_NOT_SEEN = "single rounds and their seconds are only known where both sides ran in this process"
_NO_TIME = "the time budget had no room for it"
_ENDED = "it was ended before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The leader at another temperature."""

    sampling: SamplingConfig
    n_prompts: int
    counters: Counters
    """Counts of the rounds."""
    speedup: float
    """Over the target alone, predicted."""

    def document(self) -> Json:
        """The prediction in documents."""
        rate = self.counters.acceptance_rate
        return {
            "temp": self.sampling.temp,
            "n_prompts": self.n_prompts,
            "n_rounds": self.counters.n_rounds,
            "n_drafted": self.counters.n_drafted,
            "n_accepted": self.counters.n_accepted,
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

    def __init__(self, setup: SearchSetup, pace: Pace) -> None:
        """Prepare; nothing is decoded yet.

        Args:
            setup: setup of the search.
            pace: time keeper of the search.
        """
        self._setup = setup
        self._pace = pace
        own = setup.workload.sampling
        others = [temp for temp in _ASKED if temp != own.temp][:_N_TEMPS]
        self._samplings = [replace(own, temp=temp) for temp in sorted(others)]
        self._found: list[Predicted] = []
        self._reason: str | None = _ENDED

    def run(self, standings: Sequence[Standing]) -> None:
        """Decode what there is time for. May be interrupted."""
        if not standings or standings[0].speedup is None or standings[0].arm.is_off:
            self._reason = _NONE_CONFIRMED
            return
        leader, race = standings[0], standings[0].speedup
        pairs = [pair for pair in leader.pairs if pair.has_decoded]
        if not all(pair.segments for pair in pairs):
            self._reason = _NOT_SEEN
            return
        # Of several samples of a prompt the first one.
        few = list({pair.item.id: pair for pair in reversed(pairs)}.values())[::-1]
        few = few[: self._n_affordable(few)]
        if not few:
            self._reason = _NO_TIME
            return
        prices = Prices([part for pair in pairs for part in pair.segments])
        own = _rate(
            prices, [price for pair in few for part in pair.segments for price in part.rounds]
        )
        self._setup.loader.load(leader.arm.draft)
        for sampling in self._samplings:
            self._predict(leader, few, sampling, prices, race.estimate / own)

    def _n_affordable(self, pairs: Sequence[Pair]) -> int:
        runs = [pair.speculative for pair in pairs]
        prompt_s = sum(run.decode_s + run.prompt_s for run in runs) / len(runs)
        n = min(_MOST, len(pairs))
        if self._pace.is_bounded:
            n = min(n, int(self._pace.left_s / (prompt_s * len(self._samplings))))
        return n if n >= min(_FEWEST, len(pairs)) else 0

    def _predict(
        self,
        leader: Standing,
        pairs: Sequence[Pair],
        sampling: SamplingConfig,
        prices: Prices,
        level: float,
    ) -> None:
        setup = self._setup
        setup.on_event(TemperatureStarted(sampling=sampling, n_prompts=len(pairs)))
        measurer = setup.measurer.sampled(sampling)
        results = []
        for pair in pairs:
            if self._pace.is_bounded and self._pace.left_s <= 0:
                # Of fewer prompts than the others nothing is said.
                self._reason = _NO_TIME
                return
            results.append(measurer.decode(pair.item, leader.arm.speculation))
        rounds = [price for result in results for price in result.rounds]
        if not rounds:
            return
        counters = total_counters(results)
        # A round takes at least as long as a token of the target alone.
        most = sum(one.n_tokens for one in rounds) / len(rounds)
        self._found.append(
            Predicted(
                sampling=sampling,
                n_prompts=len(pairs),
                counters=counters,
                speedup=min(level * _rate(prices, rounds), most),
            )
        )

    def conclude(self) -> Temperatures:
        """The predictions so far, also after an interrupt."""
        return Known(tuple(self._found)) if self._found else Known(None, self._reason)


def _rate(prices: Prices, rounds: Sequence[RoundPrice]) -> float:
    """Tokens that rounds write in the time of a token of the target alone."""
    return sum(one.n_tokens for one in rounds) / prices.cost(rounds)
