"""How often a search advises what does not pay, and how often its interval contains the truth.

``spectui.tune.race`` itself, with the evidence of recorded prompts and the verdict, on simulated
measurements. The best of many settings is chosen on recorded prompts, by counts and prices, and
timed on some of them; the race looks at growing data, and stops when it is decided. All settings
gain the same on average, so whatever makes the chosen one look better is luck: wrong is a verdict
to use it where that gain is not above the least one. A miss is an interval that does not contain
the gain over all prompts there could be; of a dozen prompts or fewer, over all text that just these
could be answered with, by the setting that was chosen.

What one setting gains on one text beyond what all settings gain on that prompt has a standard
deviation of ``TASTE``; ``LASTING`` of its variance is the prompt's, the rest is drawn for each part
of an answer. Prices are off by ``PRICES`` for each setting, and by half of that for each answer.
Prompts and seconds are those of ``interval_coverage``; rare gains: one prompt in ten, or twenty,
gains ``RARE`` times. The machines: quiet, noisy (5 % per run), with bursts (another program halves
the speed for 0.5 to 3 s, after 1 to 6 s without) and with drift (2 % from run to run, and 0.5 %
slower with each). Rows without a recording are of searches through a llama-server that cannot be
forecast: there some prompts choose by trials, and the others judge.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, cast

import numpy as np

from benchmarks.common import write_results
from benchmarks.interval_coverage import SEED, Array, population, true_log_speedup
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer, Pair, measurements
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Answer, Basis, Verdict, is_sparse, judge
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.tune.evidence import Evidence, evidence_of
from spectui.tune.forecast import Answers, Forecast, promising
from spectui.tune.forecasting import STAGE
from spectui.tune.race import Race, RaceRuns, Standing
from spectui.tune.setup import divide

MIN_GAIN = 0.02
TASTE = 0.06
"""Log-speedup: of a spread over prompts of 0.10, a third of the variance."""
LASTING = 0.5
N_WRITTEN = 4
"""Tokens that stand for an answer."""
BUSY_S, IDLE_S, SLOWER = (0.5, 3.0), (1.0, 6.0), 2.0
PRICES = 0.02
"""Log-speedup: of forecasts (``replay_times``)."""
RARE = 2.5
FEW = (1, 2, 4, 6, 8, 12)
MANY = (13, 24, 48)
"""The last is the number of built-in prompts."""
N_CATEGORIES = 8
N_PARTS = 4
FEWEST_TOLD = 20
"""Searches that have said anything, of which a share is worth telling."""
ARM = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=6)))
ARMS = tuple(
    Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=n, draft_p_min=p / 1000)))
    for p in range(63)
    for n in range(1, 17)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One kind of machine, prompts and search."""

    n_prompts: int
    n_settings: int = 80
    gain: float = MIN_GAIN
    """True gain of every setting."""
    machine: str = "quiet"
    prompts: str = "log-sd 0.10"
    is_recorded: bool = True
    """Whether counts and prices are known, as of models in this process."""

    @property
    def rare(self) -> float:
        """Share of the prompts that gain ``RARE`` times; 0 where that is not how they differ."""
        told = self.prompts.removeprefix("rare ").removesuffix(" %")
        return int(told) / 100 if told.isdigit() else 0.0

    @property
    def true_gain(self) -> float:
        """Gain over all prompts that there could be."""
        return math.expm1(rare_log_speedup(self.rare)) if self.rare else self.gain

    @property
    def noise(self) -> float:
        """Standard deviation of a run's log seconds."""
        return 0.05 if self.machine == "noisy" else 0.02

    @property
    def n_categories(self) -> int:
        """Categories of prompts, alike in number; those of the built-in ones gain alike here."""
        return 2 if self.prompts == "two categories" else N_CATEGORIES

    @property
    def judged(self) -> tuple[tuple[WorkItem, ...], Basis]:
        """Text of a race without a recording."""
        division = divide(workload(self.n_prompts, self.n_categories))
        return division.judges, division.basis

    @property
    def choosing(self) -> list[int]:
        """Prompts that choose."""
        if self.is_recorded:
            return list(range(self.n_prompts))
        trials = divide(workload(self.n_prompts, self.n_categories)).trial_items
        return sorted(int(item.id) for item in trials)


@cache
def workload(n: int, n_categories: int) -> Workload:
    """Prompts without text, of every category in turn."""
    items = (WorkItem(id=str(i), category=str(i % n_categories), tokens=(i,)) for i in range(n))
    return Workload(items=tuple(items), n_predict=N_WRITTEN, sampling=SamplingConfig(temp=0.0))


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
        super().__init__(cast("Backend", None), workload(setting.n_prompts, setting.n_categories))
        self._rng = rng
        self._noise = setting.noise
        self._clock = Clock(rng, setting.machine)
        n, m = setting.n_prompts, setting.n_settings
        self._tokens, self._seconds, self._gains = drawn(rng, setting)
        gain = self._gains
        # Prompts that gain nothing where gains are rare are those on which nothing is accepted.
        self._accepts = gain > 0 if setting.rare else np.ones(n, bool)
        self._lasting = rng.normal(0, math.sqrt(LASTING) * TASTE, (m, n))
        text = rng.normal(0, math.sqrt((1 - LASTING) * N_PARTS) * TASTE, (m, n, N_PARTS))
        # What differs from text to text costs the ratio of totals a little.
        self._part_gain = gain[:, None] + self._lasting[:, :, None] + text
        self._part_gain += (LASTING + (1 - LASTING) * N_PARTS) * TASTE**2 / 2
        self._off_s = np.repeat(self._seconds[:, None] / N_PARTS, N_PARTS, axis=1)
        self._on_s = self._off_s * np.exp(-self._part_gain)
        wrong = rng.normal(0, PRICES, (m, 1, 1)) + rng.normal(0, PRICES / 2, (m, n, 1))
        predicted = self._on_s * np.exp(wrong)
        both = zip(ARMS, predicted, strict=False)
        self.all_forecasts = [self._forecast(arm, on_s) for arm, on_s in both]
        self.forecasts = [part(one, slice(STAGE)) for one in self.all_forecasts]
        """Of the prompts that are recorded at first."""
        if setting.is_recorded:
            self.best = [one.arm for one in self.forecasts].index(
                promising(sorted(self.forecasts, key=lambda one: -one.speedup), 1)[0]
            )
        else:
            self.best = int(np.argmin(self._on_s[:, setting.choosing].sum(axis=(1, 2))))
        self._share = self._on_s[self.best].sum(axis=1) / self._seconds

    def _forecast(self, arm: Arm, on_s: Array) -> Forecast:
        tokens = np.repeat(self._tokens[:, None] / N_PARTS, N_PARTS, axis=1)
        answers = Answers(
            tokens=tokens,
            drafted=tokens,
            accepted=tokens * self._accepts[:, None],
            on_s=on_s,
            off_s=self._off_s,
        )
        return forecast_of(arm, answers)

    @property
    def true_here(self) -> float:
        """Gain of the chosen setting on all text that these prompts could be answered with."""
        expected = self._seconds * np.exp(-self._gains - self._lasting[self.best] - TASTE**2 / 2)
        return float(self._seconds.sum() / expected.sum())

    @property
    def n_beside_off(self) -> int | None:
        """All settings take turns with the target alone."""
        return None

    def warm_up(self, speculation: Speculation | None) -> None:
        """Costs nothing."""

    def pair(self, item: WorkItem, speculation: Speculation | None, turn: int) -> Pair:
        """Decode with a setting, and without before or after it, in turn."""
        order = (None, speculation)[:: -1 if turn % 2 else 1]
        results = {one: self.decode(item, one) for one in order}
        return Pair(item=item, baseline=results[None], speculative=results[speculation])

    n_streams = 1
    block = Measurer.block

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        """Decode one prompt."""
        prompt = int(item.id)
        work_s = self._seconds[prompt] * math.exp(self._rng.normal(0, self._noise))
        if speculation is not None:
            work_s *= self._share[prompt]
        return answer(1 + int(self._tokens[prompt]), self._clock.run(work_s))


@cache
def rare_log_speedup(share: float) -> float:
    """Log of the ratio of totals over all prompts, of which ``share`` gain ``RARE`` times."""
    return -math.log(1 - share + share / RARE)


def drawn(rng: np.random.Generator, setting: Setting) -> tuple[Array, Array, Array]:
    """Tokens, baseline seconds and log-speedup of the prompts of a search."""
    n, wanted = setting.n_prompts, math.log1p(setting.gain)
    if not setting.prompts.startswith("rare"):
        tokens, seconds, gain = population(rng, n, setting.prompts, np.arange(n) % 2 == 1)
        return tokens, seconds, gain - true_log_speedup(setting.prompts) + wanted
    tokens, seconds, _gain = population(rng, n, "log-sd 0.10")
    is_rare = rng.random(n) < setting.rare
    return tokens, seconds, np.where(is_rare, math.log(RARE), 0.0)


def forecast_of(arm: Arm, answers: Answers) -> Forecast:
    """The forecast that follows from answers."""
    speedup = float(answers.off_s.sum() / answers.on_s.sum())
    return Forecast(arm=arm, speedup=speedup, n_drafted=9, n_accepted=6, answers=answers)


def part(one: Forecast, rows: slice) -> Forecast:
    """A forecast from some of its prompts."""
    return forecast_of(one.arm, Answers(*(values[rows] for values in one.answers)))


def answer(n_tokens: int, seconds: float) -> GenerationResult:
    """An answer that goes on, by a single round: what is accepted bounds nothing here."""
    return GenerationResult(
        tokens=tuple(range(n_tokens)),
        text="",
        n_prompt_tokens=1,
        prompt_s=0.0,
        decode_s=seconds,
        counters=Counters(n_rounds=1, n_drafted=n_tokens, n_accepted=n_tokens - 1),
        stop=Stop.LENGTH,
    )


def recorded(simulated: Simulated, names: Sequence[tuple[str, str]], n_resamples: int) -> Evidence:
    """Evidence of the first stage of prompts, by their names and categories."""
    evidence = evidence_of(
        simulated.forecasts[simulated.best].arm,
        simulated.forecasts,
        names[:STAGE],
        lambda _arm: None,
        {},
        n_given=len(names),
        n_planned=len(names),
    )
    if evidence is None:
        raise RuntimeError("nothing was decoded")
    return replace(evidence, n_resamples=n_resamples)


def run(
    rng: np.random.Generator, setting: Setting, n_resamples: int
) -> tuple[Standing, Verdict, Simulated, Speedup | None]:
    """One search: its leader, the verdict, what is true, and what is said of other prompts."""
    simulated = Simulated(rng, setting)
    arm = simulated.forecasts[simulated.best].arm
    runs = RaceRuns(simulated, arm, load=lambda _arm: None, on_pair=lambda _pair: None)
    evidence, names = None, list[tuple[str, str]]()
    whole = workload(setting.n_prompts, setting.n_categories)
    items, basis = setting.judged
    if setting.is_recorded:
        names = [(item.id, item.category) for item in whole.items]
        evidence = recorded(simulated, names, n_resamples)
        items = tuple(whole.passes(whole.items[:STAGE], range(evidence.n_passes)))
        basis = evidence.basis
    race = Race(
        runs,
        items,
        min_gain=MIN_GAIN,
        basis=basis,
        evidence=evidence,
        n_resamples=n_resamples,
    )
    race.run()
    for start in range(STAGE, len(names), STAGE):
        if evidence is None or race.is_decided:
            break
        stage = slice(start, start + STAGE)
        further = part(simulated.all_forecasts[simulated.best], stage)
        evidence = evidence.followed_by(names[stage], further.answers)
        race.extend(evidence, whole.items[stage])
        if not race.is_decided:
            race.run()
    leader = race.conclude()
    others = None if evidence is None else evidence.of_others(measurements(leader.pairs))
    if leader.speedup is None:
        raise RuntimeError("the leader was not timed")
    return leader, judge(leader.speedup, min_gain=MIN_GAIN, basis=basis), simulated, others


def holds(speedup: Speedup | None, gain: float) -> bool | None:
    """Whether the interval contains the gain; None without one."""
    interval = None if speedup is None else speedup.interval
    return None if interval is None else interval[0] <= gain <= interval[1]


def simulate(setting: Setting, seed: int, *, n: int, n_resamples: int) -> dict[str, Any]:
    """Coverage, wrong advice and length of ``n`` searches."""
    rng = np.random.default_rng([SEED, seed])
    inside, of_others = list[bool | None](), list[bool | None]()
    n_pairs, widths, answers, wrong = list[int](), list[float](), list[str](), 0
    basis = None
    for _ in range(n):
        leader, verdict, simulated, others = run(rng, setting, n_resamples)
        basis, everywhere = verdict.basis, 1 + setting.true_gain
        true = simulated.true_here if basis is Basis.THESE else everywhere
        # Of other prompts nothing is said where drafts were accepted on few.
        is_open = basis is not Basis.THESE and leader.speedup and is_sparse(leader.speedup)
        inside.append(None if is_open else holds(leader.speedup, true))
        of_others.append(None if others and is_sparse(others) else holds(others, everywhere))
        if leader.speedup is not None and leader.speedup.interval is not None:
            low, high = leader.speedup.interval
            widths.append(high - low)
        answers.append(str(verdict.answer))
        wrong += verdict.answer is Answer.USE and true <= 1 + MIN_GAIN
        n_pairs.append(len(leader.pairs))
    return {
        "n_prompts": setting.n_prompts,
        "n_settings": setting.n_settings,
        "true_gain": round(setting.true_gain, 4),
        "machine": setting.machine,
        "prompts": setting.prompts,
        "judged_on": str(basis),
        "coverage": share_of(inside),
        "coverage_of_others": share_of(of_others),
        "wrong_recommendations": round(wrong / n, 4),
        "answers": {name: answers.count(name) for name in sorted(set(answers))},
        "mean_timed": round(statistics.fmean(n_pairs), 1),
        "median_width": round(statistics.median(widths), 4) if widths else None,
    }


def share_of(inside: Sequence[bool | None]) -> float | None:
    """Share of those that are known; None where hardly any is."""
    told = [one for one in inside if one is not None]
    return round(statistics.fmean(told), 4) if len(told) >= FEWEST_TOLD else None


def settings() -> Iterator[Setting]:
    """All that is simulated."""
    numbers = (*FEW, *MANY)
    for n, gain in product(numbers, (0.0, MIN_GAIN)):
        yield Setting(n_prompts=n, gain=gain)
    for n in (6, 12, 48):
        yield Setting(n_prompts=n, n_settings=1_000)
    for n, machine in product((6, 13, 48), ("noisy", "bursts", "drift")):
        yield Setting(n_prompts=n, machine=machine)
    for n, prompts in product((6, 13, 24, 48), ("log-sd 0.25", "two categories", "skewed")):
        yield Setting(n_prompts=n, prompts=prompts)
    for n, gain in product((13, 24, 48), (0.05, 0.1, 0.2)):
        yield Setting(n_prompts=n, gain=gain)
    for n, share in product((6, 13, 24, 48), (5, 10)):
        yield Setting(n_prompts=n, prompts=f"rare {share} %")
    for n in (13, 24, 48):
        yield Setting(n_prompts=n, is_recorded=False)


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
    coverages = [row["coverage"] for row in rows if row["coverage"] is not None]
    wrong = [row["wrong_recommendations"] for row in rows]
    write_results(
        "race_coverage",
        {
            "n_simulations": arguments.simulations,
            "n_resamples": arguments.resamples,
            "taste": TASTE,
            "lasting": LASTING,
            "prices": PRICES,
            "lowest_coverage": min(coverages),
            "mean_coverage": round(statistics.fmean(coverages), 4),
            "most_wrong_recommendations": max(wrong),
            "settings": rows,
        },
    )


if __name__ == "__main__":
    main()
