"""The time model against real trials: is predicted throughput what is measured, in order and size?

A trace of the demo pair with its costs predicts the speedup of settings. Each setting is then
measured as a trial of ``tune`` is: between two anchor runs of the target alone, in random order.
Speedups are compared, since the machine drifts; ``draft_max`` 0 is the target alone.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.config import SamplingConfig, Schedule, SpeculationConfig
from spectui.demo import DemoModel
from spectui.engine.driver import Engine
from spectui.prompts import builtin_suite
from spectui.replay.grid import Grid
from spectui.replay.totals import replay_trace
from spectui.tune.candidates import Candidate
from spectui.tune.measurement import Measurer, throughput
from spectui.tune.tracing import Tracer, Tracing
from spectui.tune.workload import Workload, tokenize

DEPTH = 16
GRID = Grid(draft_max=(1, 2, 3, 4, 6, 8, 12, 16), draft_p_min=(0.0, 0.3, 0.5, 0.75, 0.9))
DRAFT = "draft"


def main() -> None:
    """Compare and write ``results/replay_times.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=DemoModel, default=DemoModel.DENSE)
    parser.add_argument("--schedule", type=Schedule, default=Schedule.SERVER)
    parser.add_argument("--settings", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=48)
    arguments = parser.parse_args()
    schedule = arguments.schedule
    with Engine() as engine:
        target, draft = demo_pair(arguments.target)
        loaded = engine.load_target(target, CONTEXT, max_draft=DEPTH)
        engine.load_draft(draft)
        workload = tokenize(
            engine,
            builtin_suite()[:: 24 // arguments.prompts],
            n_predict=arguments.n_predict,
            sampling=SamplingConfig(),
            n_ctx=loaded.n_ctx,
        )
        tracing = Tracer(
            engine,
            workload,
            [Candidate(name=DRAFT, options=draft, loaded=None)],
            depth=DEPTH,
            n_ctx=loaded.n_ctx,
            schedule=schedule,
            on_event=lambda event: print(type(event).__name__, file=sys.stderr),
        ).run()
        predicted = predict(tracing)
        chosen = choose(predicted, arguments.settings)
        rows = measure(engine, workload, schedule, chosen, predicted)
    errors = [abs(row["error"]) for row in rows]
    write_results(
        "replay_times",
        {
            "target": str(arguments.target),
            "schedule": str(schedule),
            "n_settings": len(rows),
            "n_prompts": len(workload.items),
            "n_predict": arguments.n_predict,
            "median_error": statistics.median(errors),
            "p90_error": statistics.quantiles(errors, n=10)[-1],
            "median_signed_error": statistics.median(row["error"] for row in rows),
            "kendall_tau": kendall(rows),
            "baseline_s": tracing.baseline_s,
            "draft_s": tracing.draft_s,
            "spread": tracing.costs[DRAFT].spread,
            "verify": verify_costs(tracing),
            "rows": rows,
        },
    )


def predict(tracing: Tracing) -> dict[SpeculationConfig, float]:
    """Predicted speedup of every setting."""
    totals = replay_trace(tracing.recordings, DRAFT, GRID, tracing.costs[DRAFT])
    return {total.speculation: total.speedup or 0.0 for total in totals}


def choose(predicted: dict[SpeculationConfig, float], n: int) -> list[SpeculationConfig | None]:
    """Settings across the range of predictions, in random order, the target alone among them."""
    ordered = sorted(predicted, key=lambda config: predicted[config])
    dice = random.Random(1)  # noqa: S311 - an order needs no secrets
    spread: list[SpeculationConfig | None] = [
        ordered[index * (len(ordered) - 1) // (n - 1)] for index in range(n)
    ]
    dice.shuffle(spread)
    step = max(1, n // 4)
    for position in range(0, n + 4, step + 1):
        spread.insert(position, None)
    return spread


def measure(
    engine: Engine,
    workload: Workload,
    schedule: Schedule,
    chosen: Sequence[SpeculationConfig | None],
    predicted: dict[SpeculationConfig, float],
) -> list[dict[str, Any]]:
    """One row per setting."""
    measurer = Measurer(engine, workload, schedule)
    found: list[tuple[SpeculationConfig | None, float]] = []
    measurer.warm_up(None)
    before = measurer.anchor()
    for config in chosen:
        measurer.warm_up(config)
        results = [measurer.decode(item, config) for item in workload.items]
        after = measurer.anchor()
        found.append((config, (throughput(results) or 0.0) / ((before + after) / 2)))
        print(config, found[-1][1], file=sys.stderr)
        before = after
    off = statistics.mean(relative for config, relative in found if config is None)
    rows = []
    for config, relative in found:
        if config is not None:
            speedup = relative / off
            rows.append(
                {
                    "draft_max": config.draft_max,
                    "draft_p_min": config.draft_p_min,
                    "predicted": predicted[config],
                    "measured": speedup,
                    "error": predicted[config] / speedup - 1,
                }
            )
    return rows


def verify_costs(tracing: Tracing) -> dict[int, float]:
    """V(n + 1)/V(1) by drafted tokens."""
    costs = tracing.costs[DRAFT]
    pairs = zip(costs.lengths, costs.verify_s, strict=True)
    return {length: seconds / costs.verify_s[0] for length, seconds in pairs}


def kendall(rows: Sequence[dict[str, Any]]) -> float:
    """Kendall's tau between predicted and measured order; no ties among measurements."""
    signs = [
        (one["predicted"] - other["predicted"]) * (one["measured"] - other["measured"])
        for one, other in combinations(rows, 2)
    ]
    agreeing = sum(int(sign > 0) - int(sign < 0) for sign in signs)
    return agreeing / len(signs)


if __name__ == "__main__":
    main()
