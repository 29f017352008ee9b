"""The time model against real runs: is predicted throughput what is measured, in order and size?

Each prompt is decoded with every setting, several times, in an order of its own each time, with the
target alone after every fourth: a run is compared with the runs of the target alone around it, on
the same prompt, and of the times a setting had its turn the middle one counts. The costs are probed
in between, since the machine itself changes from minute to minute: there are minutes in which
single tokens take longer and batches do not. What the costs of a trace from the minutes before
would have predicted is told beside it, and how well one turn agrees with the next: no prediction
can agree better with either.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.demo import DemoModel
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload, tokenize
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.trace.costs import Costs
from spectui.trace.fit import Probed, fit_costs, pooled
from spectui.trace.replay import Grid, replay_trace
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.probing import probe_costs
from spectui.tune.tracing import Tracer, Tracing

DEPTH = 16
GRID = Grid(draft_max=(1, 2, 3, 4, 6, 8, 12, 16), draft_p_min=(0.0, 0.3, 0.5, 0.75, 0.9))
DRAFT = "draft"
_BLOCK = 4
"""Settings between two runs of the target alone."""
_PROBE_EVERY = 4
"""Blocks between two probes of the costs."""


def main() -> None:
    """Compare and write ``results/replay_times.json``."""
    arguments = parsed()
    with Engine() as engine:
        workload, tracing = record(engine, arguments)
        before = predict(tracing, tracing.trace.costs[DRAFT])
        chosen = choose(before, arguments.settings)
        runs, costs = measure(engine, workload, chosen, arguments.repeats)
    predicted = predict(tracing, costs)
    rows = [told(config, runs, predicted, before) for config in chosen]
    write_results(
        "replay_times",
        {
            "target": str(arguments.target),
            "n_settings": len(rows),
            "n_prompts": len(workload.items),
            "n_predict": arguments.n_predict,
            "n_repeats": arguments.repeats,
            **agreement(rows),
            "verify": verify_costs(costs),
            "verify_before": verify_costs(tracing.trace.costs[DRAFT]),
            "rows": rows,
        },
    )


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=DemoModel, default=DemoModel.DENSE)
    parser.add_argument("--settings", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--n-predict", type=int, default=48)
    return parser.parse_args()


def record(engine: Engine, arguments: argparse.Namespace) -> tuple[Workload, Tracing]:
    """Load the pair, and record the draft on some prompts of the suite."""
    target, draft = demo_pair(arguments.target)
    loaded = engine.load_target(LoadTarget(options=target, context=CONTEXT, max_draft=DEPTH))
    engine.load_draft(draft)
    suite = builtin_suite()
    workload = tokenize(
        engine,
        suite[:: len(suite) // arguments.prompts][: arguments.prompts],
        n_predict=arguments.n_predict,
        sampling=SamplingConfig(temp=0.0),
        n_ctx=loaded.n_ctx,
    )
    tracer = Tracer(
        workload,
        Loader(engine, [Candidate(name=DRAFT, options=draft, loaded=None)]),
        depth=DEPTH,
        target=loaded,
        on_event=lambda step: print(step, file=sys.stderr),
    )
    return workload, tracer.run()


def agreement(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far predictions are off, and whether they order the settings as they were measured."""
    errors = [abs(row["error"]) for row in rows]
    common = statistics.median(row["error"] for row in rows)
    measured = column(rows, "measured")
    return {
        "median_error": statistics.median(errors),
        "p90_error": statistics.quantiles(errors, n=10)[-1],
        "median_signed_error": common,
        "median_error_beside_others": statistics.median(abs(row["error"] - common) for row in rows),
        "kendall_tau": kendall(measured, column(rows, "predicted")),
        "kendall_tau_between_repeats": between_repeats(rows),
        "with_costs_of_minutes_before": {
            "median_error": statistics.median(abs(row["error_before"]) for row in rows),
            "kendall_tau": kendall(measured, column(rows, "predicted_before")),
        },
    }


def predict(tracing: Tracing, costs: Costs) -> dict[Speculation, float]:
    """Predicted speedup of every setting."""
    totals = replay_trace(tracing.trace.recordings, DRAFT, GRID, costs)
    return {total.speculation: total.speedup or 0.0 for total in totals}


def choose(predicted: dict[Speculation, float], n: int) -> list[Speculation]:
    """Settings across the range of predictions."""
    ordered = sorted(predicted, key=lambda config: predicted[config])
    return [ordered[index * (len(ordered) - 1) // (n - 1)] for index in range(n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One prompt decoded with one setting."""

    prompt: str
    config: Speculation
    repeat: int
    seconds: float
    off_s: float
    """Of the same prompt without a draft, the mean of the nearest runs before and after."""


def measure(
    engine: Engine,
    workload: Workload,
    chosen: Sequence[Speculation],
    n_repeats: int,
) -> tuple[list[Run], Costs]:
    """All runs, and the costs of the same minutes."""
    measurer = Measurer(engine, workload)
    dice = random.Random(1)  # noqa: S311 - an order needs no secrets
    runs: list[Run] = []
    probed: list[Probed] = []
    for item in workload.items:
        measurer.warm_up(chosen[0])
        before = measurer.decode(item, None).decode_s
        turns = [(repeat, block) for repeat in range(n_repeats) for block in blocks(chosen, dice)]
        for index, (repeat, block) in enumerate(turns):
            own = {config: measurer.decode(item, config).decode_s for config in block}
            after = measurer.decode(item, None).decode_s
            runs += [
                Run(
                    prompt=item.id,
                    config=config,
                    repeat=repeat,
                    seconds=seconds,
                    off_s=(before + after) / 2,
                )
                for config, seconds in own.items()
            ]
            before = after
            if index % _PROBE_EVERY == 0:
                drafter = DraftSimple(draft_max=DEPTH)
                found = probe_costs(engine, workload.sampling, drafter, [item], seed=len(probed))
                probed += filter(None, [found])
        print(item.id, file=sys.stderr, flush=True)
    return runs, fit_costs(pooled(probed))


def speedup_of(runs: Sequence[Run]) -> float:
    """Speedup over all prompts; of the runs of one prompt the middle one counts."""
    prompts = {run.prompt for run in runs}
    seconds = off_s = 0.0
    for prompt in prompts:
        own = [run for run in runs if run.prompt == prompt]
        alone_s = statistics.median(run.off_s for run in own)
        off_s += alone_s
        seconds += alone_s * statistics.median(run.seconds / run.off_s for run in own)
    return off_s / seconds


def told(
    config: Speculation,
    runs: Sequence[Run],
    predicted: dict[Speculation, float],
    before: dict[Speculation, float],
) -> dict[str, Any]:
    """What is told of a setting."""
    own = [run for run in runs if run.config == config]
    speedup = speedup_of(own)
    repeats = sorted({run.repeat for run in own})
    return {
        **{name: config.own.numbers[name] for name in ("draft_max", "draft_p_min")},
        "predicted": predicted[config],
        "predicted_before": before[config],
        "measured": speedup,
        "measured_each": [
            speedup_of([run for run in own if run.repeat == repeat]) for repeat in repeats
        ],
        "error": predicted[config] / speedup - 1,
        "error_before": before[config] / speedup - 1,
    }


def blocks(chosen: Sequence[Speculation], dice: random.Random) -> Iterator[Sequence[Speculation]]:
    """Settings in random order, in groups of ``_BLOCK``."""
    shuffled = dice.sample(chosen, len(chosen))
    for first in range(0, len(shuffled), _BLOCK):
        yield shuffled[first : first + _BLOCK]


def verify_costs(costs: Costs) -> dict[int, float]:
    """V(n + 1)/V(1) by drafted tokens."""
    pairs = zip(costs.lengths, costs.verify_s, strict=True)
    return {length: seconds / costs.verify_s[0] for length, seconds in pairs}


def column(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    """One value of every row."""
    return [row[name] for row in rows]


def between_repeats(rows: Sequence[dict[str, Any]]) -> float | None:
    """Mean of Kendall's tau between the orders that two turns of all settings gave."""
    turns = list(zip(*(row["measured_each"] for row in rows), strict=True))
    taus = [kendall(one, other) for one, other in combinations(turns, 2)]
    return statistics.fmean(taus) if taus else None


def kendall(ones: Sequence[float], others: Sequence[float]) -> float:
    """Kendall's tau; no ties among measurements."""
    pairs = combinations(zip(ones, others, strict=True), 2)
    signs = [(one[0] - other[0]) * (one[1] - other[1]) for one, other in pairs]
    return sum(int(sign > 0) - int(sign < 0) for sign in signs) / len(signs)


if __name__ == "__main__":
    main()
