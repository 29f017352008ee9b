"""How often a race's 95 % interval contains the truth, although it looks again and again.

``spectui.tune.race`` itself, on simulated measurements: it looks at growing data, stops when it is
decided, and chooses its leader among two finalists by the same data. Prompts and noise are those of
``interval_coverage``; the rival is a setting whose true gain is 2 % lower. A miss is an interval
that does not contain the leader's own true speedup; wrong is a recommendation of a setting that
does not gain the margin.
"""

import argparse
import math
import statistics
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from benchmarks.common import write_results
from benchmarks.interval_coverage import NOISE, SCENARIOS, SEED, population, true_log_speedup
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.tune.race import Race, Standing
from spectui.tune.race_runs import race_runs

N_PROMPTS = 24
MIN_GAIN = 0.02
RIVAL_LOSS = 0.02
"""Log-speedup that the rival lacks."""
SHIFTS = (0.0, None)
"""Log-speedup that is taken from all prompts; None is as much as leaves no gain at all."""
ARMS = tuple(Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=n))) for n in (6, 7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One kind of machine and prompts."""

    scenario: str
    noise: float
    """Standard deviation of a run's log seconds."""
    shift: float
    """Log-speedup that is taken from all prompts."""

    def truth(self, arm: Arm) -> float:
        """True log-speedup of a finalist."""
        return true_log_speedup(self.scenario) - self.shift - RIVAL_LOSS * ARMS.index(arm)


class Simulated:
    """Has the methods of ``Measurer`` that a race uses."""

    n_beside_off = None
    """All settings take turns with the target alone."""

    def __init__(self, rng: np.random.Generator, setting: Setting) -> None:
        """Draw the prompts."""
        self._rng = rng
        self._setting = setting
        self._tokens, self._seconds, gain = population(rng, N_PROMPTS, setting.scenario)
        self._gain = gain - setting.shift
        self._drift = 0.0

    def warm_up(self, speculation: Speculation | None) -> None:
        """Costs nothing."""

    def block(self, item: WorkItem, settings: list[Speculation | None], turn: int) -> list[Pair]:
        """As ``Measurer.block``: all runs of a prompt in an order that turns round."""
        runs = (None, *settings)
        order = [(turn + step) % len(runs) for step in range(len(runs))]
        results = {index: self._decode(item, runs[index]) for index in order}
        return [
            Pair(item=item, baseline=results[0], speculative=results[index])
            for index in range(1, len(runs))
        ]

    def _decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        self._drift += self._rng.normal(0, 0.005)
        prompt = int(item.id)
        log_s = math.log(self._seconds[prompt]) + self._drift
        log_s += self._rng.normal(0, self._setting.noise)
        if speculation is not None:
            rank = [arm.speculation for arm in ARMS].index(speculation)
            log_s -= self._gain[prompt] - RIVAL_LOSS * rank
        n_tokens = 1 + int(self._tokens[prompt])
        return GenerationResult(
            tokens=tuple(range(n_tokens)),
            text="",
            n_prompt_tokens=1,
            prompt_s=0.0,
            decode_s=math.exp(log_s),
            native_s=math.exp(log_s),
            counters=Counters(),
            stop=Stop.LENGTH,
        )


def run(rng: np.random.Generator, setting: Setting, n_resamples: int) -> Standing:
    """One race; return how its leader stands."""
    items = [WorkItem(id=str(i), category="", tokens=(1,)) for i in range(N_PROMPTS)]
    runs = race_runs(
        cast("Measurer", Simulated(rng, setting)),
        ARMS,
        load=lambda _arm: None,
        on_pair=lambda _pair: None,
    )
    one = Race(runs, items, min_gain=MIN_GAIN, n_resamples=n_resamples)
    one.run()
    return one.conclude()[0]


def simulate(setting: Setting, n: int, seed: int, n_resamples: int) -> dict[str, Any]:
    """Coverage, wrong recommendations and length of ``n`` races."""
    rng = np.random.default_rng([SEED, seed])
    inside, wrong, n_pairs, widths = 0, 0, [], []
    for _ in range(n):
        leader = run(rng, setting, n_resamples)
        speedup, truth = leader.speedup, math.exp(setting.truth(leader.arm))
        if speedup is None or speedup.low is None or speedup.high is None:
            raise ValueError("a race without an interval")
        inside += speedup.low <= truth <= speedup.high
        wrong += speedup.low > 1 + MIN_GAIN and truth <= 1 + MIN_GAIN
        n_pairs.append(leader.n_pairs)
        widths.append(speedup.high - speedup.low)
    return {
        "scenario": setting.scenario,
        "noise": setting.noise,
        "true_speedup": round(math.exp(setting.truth(ARMS[0])), 4),
        "coverage": round(inside / n, 4),
        "wrong_recommendations": round(wrong / n, 4),
        "mean_prompts": round(statistics.fmean(n_pairs), 1),
        "median_width": round(statistics.median(widths), 4),
    }


def main() -> None:
    """Simulate every setting and write ``results/race_coverage.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=4_000, help="a race takes more")
    arguments = parser.parse_args()
    rows = []
    for seed, (scenario, noise, shift) in enumerate(product(SCENARIOS, NOISE, SHIFTS)):
        taken = true_log_speedup(scenario) if shift is None else shift
        setting = Setting(scenario=scenario, noise=noise, shift=taken)
        rows.append(simulate(setting, arguments.simulations, seed, arguments.resamples))
        print(rows[-1], file=sys.stderr, flush=True)
    coverages = [row["coverage"] for row in rows]
    write_results(
        "race_coverage",
        {
            "n_simulations": arguments.simulations,
            "n_resamples": arguments.resamples,
            "n_prompts": N_PROMPTS,
            "lowest_coverage": min(coverages),
            "mean_coverage": round(statistics.fmean(coverages), 4),
            "settings": rows,
        },
    )


if __name__ == "__main__":
    main()
