"""How often a search advises what does not pay, and how often its interval contains the truth.

``spectui.tune.race`` itself, with the division of prompts and the verdict, on simulated
measurements. The best of many settings is chosen on the prompts that choose, by their exact
gains, and raced on the text that judges; the race looks at growing data, and stops when it is
decided. All settings gain the same on average, so whatever makes
the chosen one look better is luck: wrong is a verdict to use it where that gain is not above the
least one. A miss is an interval that does not contain the gain over all prompts there could be.

What one setting gains on one text beyond what all settings gain on that prompt has a standard
deviation of ``TASTE``; ``LASTING`` of its variance is the same in the text that follows. Prompts
and seconds are those of ``interval_coverage``. The machines: quiet, noisy (5 % per run), with
bursts (another program halves the speed for 0.5 to 3 s, after 1 to 6 s without) and with drift (2 %
from run to run, and 0.5 % slower with each).
"""

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, cast

import numpy as np

from benchmarks.common import write_results
from benchmarks.interval_coverage import SEED, Array, population, true_log_speedup
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.verdict import Basis, Verdict, judge
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.tune.division import LATER_ERROR, Division, Judged, divide
from spectui.tune.looks import ERROR
from spectui.tune.race import Race, Standing
from spectui.tune.race_runs import race_runs

MIN_GAIN = 0.02
TASTE = 0.06
"""Log-speedup: of a spread over prompts of 0.10, a third of the variance."""
LASTING = 0.5
N_WRITTEN = 4
"""Tokens that stand for an answer."""
BUSY_S, IDLE_S, SLOWER = (0.5, 3.0), (1.0, 6.0), 2.0
FEW = (4, 6, 8, 12)
MANY = 24
SUITE = 48
"""As many as the built-in prompts, of which 40 judge: five looks."""
N_TRIAL = 8
ARM = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=6)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One kind of machine, prompts and search."""

    n_prompts: int
    n_settings: int = 80
    gain: float = MIN_GAIN
    """True gain of every setting."""
    machine: str = "quiet"
    prompts: str = "log-sd 0.10"
    in_sample: bool = False
    """Whether prompts that chose judge as well, after the others: for comparison."""

    @property
    def noise(self) -> float:
        """Standard deviation of a run's log seconds."""
        return 0.05 if self.machine == "noisy" else 0.02

    @property
    def division(self) -> Division:
        """The prompts that choose, and those that judge."""
        return division(self.n_prompts)

    @property
    def judged(self) -> Judged:
        """Text of the race."""
        if self.in_sample:
            items = workload(self.n_prompts).items
            return Judged(items=(*items[N_TRIAL:], *items[:N_TRIAL]), basis=Basis.UNSEEN)
        written = {item.id: answer(N_WRITTEN, 1.0) for item in self.division.trial_items}
        return self.division.judged(written, n_predict=N_WRITTEN, n_ctx=64)

    @property
    def choosing(self) -> tuple[WorkItem, ...]:
        """Prompts that choose."""
        if self.in_sample:
            return workload(self.n_prompts).items[:N_TRIAL]
        return self.division.trial_items


@cache
def workload(n: int) -> Workload:
    """Prompts without text."""
    items = (WorkItem(id=str(i), category="", tokens=(i,)) for i in range(n))
    return Workload(items=tuple(items), n_predict=N_WRITTEN, sampling=SamplingConfig(temp=0.0))


@cache
def division(n: int) -> Division:
    """The same for all searches."""
    return divide(workload(n), N_TRIAL)


class Clock:
    """Seconds of a machine that another program slows down in bursts."""

    def __init__(self, rng: np.random.Generator, machine: str) -> None:
        """Begin at any moment."""
        self._rng = rng
        self._has_bursts = machine == "bursts"
        self._trend, self._walk = (0.005, 0.02) if machine == "drift" else (0.0, 0.005)
        self._drift = 0.0
        self._is_busy = bool(rng.random() < sum(BUSY_S) / (sum(BUSY_S) + sum(IDLE_S)))
        self._left_s = self._next()

    def _next(self) -> float:
        return float(self._rng.uniform(*(BUSY_S if self._is_busy else IDLE_S)))

    def run(self, work_s: float) -> float:
        """Seconds for what takes ``work_s`` of a quiet machine."""
        self._drift += self._rng.normal(self._trend, self._walk)
        work_s *= math.exp(self._drift)
        if not self._has_bursts:
            return work_s
        spent_s = 0.0
        while True:
            slower = SLOWER if self._is_busy else 1.0
            if work_s * slower <= self._left_s:
                self._left_s -= work_s * slower
                return spent_s + work_s * slower
            spent_s += self._left_s
            work_s -= self._left_s / slower
            self._is_busy = not self._is_busy
            self._left_s = self._next()


class Simulated(Measurer):
    """Decodes whole answers on a simulated machine, as llama-servers do: without segments."""

    def __init__(self, rng: np.random.Generator, setting: Setting) -> None:
        """Draw the prompts, and choose a setting by the gains of the trials' prompts."""
        super().__init__(cast("Backend", None), workload(setting.n_prompts))
        self._rng = rng
        self._noise = setting.noise
        self._clock = Clock(rng, setting.machine)
        n, self._own = setting.n_prompts, {int(item.id) for item in setting.choosing}
        self._tokens, self._seconds, gain = population(rng, n, setting.prompts)
        self._gain = gain - true_log_speedup(setting.prompts) + math.log1p(setting.gain)
        # What differs from text to text costs the ratio of totals a little.
        self._gain += TASTE**2 / 2
        lasting = self._drawn(LASTING, (setting.n_settings, n))
        first = lasting + self._drawn(1 - LASTING, lasting.shape)
        seconds = self._seconds * np.exp(-self._gain - first)
        best = np.argmin(seconds[:, sorted(self._own)].sum(axis=1))
        self._first = first[best]
        self._later = lasting[best] + self._drawn(1 - LASTING, (n,))

    def _drawn(self, share: float, shape: tuple[int, ...]) -> Array:
        return self._rng.normal(0, math.sqrt(share) * TASTE, shape)

    @property
    def n_beside_off(self) -> int | None:
        """All settings take turns with the target alone."""
        return None

    def warm_up(self, speculation: Speculation | None) -> None:
        """Costs nothing."""

    def block(
        self, item: WorkItem, settings: Sequence[Speculation | None], turn: int
    ) -> list[Pair]:
        """Decode with each setting, and without before or after it, in turn."""
        found = []
        for speculation in settings:
            order = (None, speculation)[:: -1 if turn % 2 else 1]
            results = {one: self.decode(item, one) for one in order}
            found.append(Pair(item=item, baseline=results[None], speculative=results[speculation]))
        return found

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        """Decode one prompt or what follows its answer."""
        prompt = int(item.id)
        log_s = math.log(self._seconds[prompt]) + self._rng.normal(0, self._noise)
        if speculation is not None:
            taste = self._later if len(item.tokens) > 1 else self._first
            log_s -= self._gain[prompt] + taste[prompt]
        return answer(1 + int(self._tokens[prompt]), self._clock.run(math.exp(log_s)))


def answer(n_tokens: int, seconds: float) -> GenerationResult:
    """An answer that goes on, by a single round: what is accepted bounds nothing here."""
    return GenerationResult(
        tokens=tuple(range(n_tokens)),
        text="",
        n_prompt_tokens=1,
        prompt_s=0.0,
        decode_s=seconds,
        native_s=seconds,
        counters=Counters(n_rounds=1, n_drafted=n_tokens, n_accepted=n_tokens - 1),
        stop=Stop.LENGTH,
    )


def run(rng: np.random.Generator, setting: Setting, n_resamples: int) -> tuple[Standing, Verdict]:
    """One search; return how its leader stands, and the verdict."""
    judged = setting.judged
    runs = race_runs(
        Simulated(rng, setting), (ARM,), load=lambda _arm: None, on_pair=lambda _pair: None
    )
    race = Race(
        runs,
        judged.items,
        min_gain=MIN_GAIN,
        error=LATER_ERROR if judged.basis is Basis.LATER else ERROR,
        n_resamples=n_resamples,
    )
    race.run()
    leader = race.conclude()[0]
    return leader, judge(leader.speedup, min_gain=MIN_GAIN, basis=judged.basis)


def simulate(setting: Setting, seed: int, *, n: int, n_resamples: int) -> dict[str, Any]:
    """Coverage, wrong advice and length of ``n`` searches."""
    rng = np.random.default_rng([SEED, seed])
    inside, n_pairs, widths, answers = list[bool](), list[int](), list[float](), list[str]()
    for _ in range(n):
        leader, verdict = run(rng, setting, n_resamples)
        interval = None if leader.speedup is None else leader.speedup.interval
        if interval is not None:
            inside.append(interval[0] <= 1 + setting.gain <= interval[1])
            widths.append(interval[1] - interval[0])
        answers.append(str(verdict.answer))
        n_pairs.append(leader.n_pairs)
    use = answers.count("use") / n
    return {
        "n_prompts": setting.n_prompts,
        "n_settings": setting.n_settings,
        "true_gain": setting.gain,
        "machine": setting.machine,
        "prompts": setting.prompts,
        "judged_on": "prompts that chose" if setting.in_sample else str(setting.judged.basis),
        "coverage": round(statistics.fmean(inside), 4) if inside else None,
        "wrong_recommendations": round(use, 4) if setting.gain <= MIN_GAIN else None,
        "answers": {name: answers.count(name) for name in sorted(set(answers))},
        "mean_prompts": round(statistics.fmean(n_pairs), 1),
        "median_width": round(statistics.median(widths), 4) if widths else None,
    }


def settings() -> Iterator[Setting]:
    """All that is simulated."""
    numbers = (*FEW, MANY)
    for n, n_settings, gain in product(numbers, (80, 3_000), (0.0, MIN_GAIN)):
        yield Setting(n_prompts=n, n_settings=n_settings, gain=gain)
    yield Setting(n_prompts=MANY, n_settings=3_000, machine="bursts")
    for n, machine in product(numbers[1:], ("noisy", "bursts", "drift")):
        yield Setting(n_prompts=n, machine=machine)
    for n, prompts in product(numbers[1:], ("log-sd 0.25", "two categories", "skewed")):
        yield Setting(n_prompts=n, prompts=prompts)
    for n, machine in product(numbers[1:], ("quiet", "bursts")):
        yield Setting(n_prompts=n, machine=machine, gain=0.2)
    for machine, gain in product(("quiet", "bursts"), (MIN_GAIN, 0.2)):
        yield Setting(n_prompts=SUITE, n_settings=3_000, machine=machine, gain=gain)
    for n, n_settings in product((8, MANY), (80, 3_000)):
        yield Setting(n_prompts=n, n_settings=n_settings, in_sample=True)


def main() -> None:
    """Simulate every setting and write ``results/race_coverage.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=2_000, help="a race takes more")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    rows = []
    every = list(settings())
    one = partial(simulate, n=arguments.simulations, n_resamples=arguments.resamples)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for row in pool.map(one, every, range(len(every))):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    ours = [row for row in rows if row["judged_on"] != "prompts that chose"]
    coverages = [row["coverage"] for row in ours if row["coverage"] is not None]
    wrong = [row["wrong_recommendations"] for row in ours]
    write_results(
        "race_coverage",
        {
            "n_simulations": arguments.simulations,
            "n_resamples": arguments.resamples,
            "taste": TASTE,
            "lasting": LASTING,
            "lowest_coverage": min(coverages),
            "mean_coverage": round(statistics.fmean(coverages), 4),
            "most_wrong_recommendations": max(one for one in wrong if one is not None),
            "settings": rows,
        },
    )


if __name__ == "__main__":
    main()
