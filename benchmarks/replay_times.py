"""The time model against real runs: is predicted throughput what is measured, in order and size?

Each prompt is decoded with every setting, in an order of its own, with the target alone after every
fourth: a run is compared with the runs of the target alone around it, on the same prompt. The costs
are probed in between, since the machine itself changes from minute to minute: there are minutes in
which single tokens take longer and batches do not. What the costs of a trace from the
minutes before would have predicted is told beside it.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.config import SamplingConfig, Schedule, SpeculationConfig
from spectui.demo import DemoModel
from spectui.engine.driver import Engine
from spectui.prompts import builtin_suite
from spectui.replay.cost_fit import Probed, fit_costs, pooled
from spectui.replay.costs import Costs
from spectui.replay.grid import Grid
from spectui.replay.totals import replay_trace
from spectui.tune.candidates import Candidate
from spectui.tune.measurement import Measurer
from spectui.tune.probing import CostProbe
from spectui.tune.tracing import Tracer, Tracing
from spectui.tune.workload import Workload, tokenize

DEPTH = 16
GRID = Grid(draft_max=(1, 2, 3, 4, 6, 8, 12, 16), draft_p_min=(0.0, 0.3, 0.5, 0.75, 0.9))
DRAFT = "draft"
_BLOCK = 4
"""Settings between two runs of the target alone."""
_PROBE_EVERY = 2
"""Blocks between two probes of the costs."""


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
        before = predict(tracing, tracing.costs[DRAFT])
        measured, costs = measure(engine, workload, schedule, choose(before, arguments.settings))
    predicted = predict(tracing, costs)
    rows = [told(config, speedup, predicted, before) for config, speedup in measured.items()]
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
            "kendall_tau": kendall(rows, "predicted"),
            "with_costs_of_minutes_before": {
                "median_error": statistics.median(abs(row["error_before"]) for row in rows),
                "kendall_tau": kendall(rows, "predicted_before"),
            },
            "baseline_s": tracing.baseline_s,
            "draft_s": tracing.draft_s,
            "spread": costs.spread,
            "verify": verify_costs(costs),
            "verify_before": verify_costs(tracing.costs[DRAFT]),
            "rows": rows,
        },
    )


def predict(tracing: Tracing, costs: Costs) -> dict[SpeculationConfig, float]:
    """Predicted speedup of every setting."""
    totals = replay_trace(tracing.recordings, DRAFT, GRID, costs)
    return {total.speculation: total.speedup or 0.0 for total in totals}


def choose(predicted: dict[SpeculationConfig, float], n: int) -> list[SpeculationConfig]:
    """Settings across the range of predictions."""
    ordered = sorted(predicted, key=lambda config: predicted[config])
    return [ordered[index * (len(ordered) - 1) // (n - 1)] for index in range(n)]


def measure(
    engine: Engine, workload: Workload, schedule: Schedule, chosen: Sequence[SpeculationConfig]
) -> tuple[dict[SpeculationConfig, float], Costs]:
    """Measured speedup of each setting, and the costs of the same minutes."""
    measurer = Measurer(engine, workload, schedule)
    dice = random.Random(1)  # noqa: S311 - an order needs no secrets
    seconds = dict.fromkeys(chosen, 0.0)
    off_s = dict.fromkeys(chosen, 0.0)
    probed: list[Probed] = []
    for item in workload.items:
        measurer.warm_up(chosen[0])
        before = measurer.decode(item, None).decode_s
        for index, block in enumerate(blocks(dice.sample(chosen, len(chosen)))):
            own = {config: measurer.decode(item, config).decode_s for config in block}
            after = measurer.decode(item, None).decode_s
            for config, spent in own.items():
                seconds[config] += spent
                off_s[config] += (before + after) / 2
            before = after
            if index % _PROBE_EVERY == 0:
                probe = CostProbe(engine, workload, schedule, depth=DEPTH, seed=len(probed))
                probed += filter(None, [probe.run([item])])
        print(item.id, file=sys.stderr, flush=True)
    measured = {config: off_s[config] / seconds[config] for config in chosen}
    return measured, fit_costs(pooled(probed))


def told(
    config: SpeculationConfig,
    speedup: float,
    predicted: dict[SpeculationConfig, float],
    before: dict[SpeculationConfig, float],
) -> dict[str, Any]:
    """What is told of a setting."""
    return {
        "draft_max": config.draft_max,
        "draft_p_min": config.draft_p_min,
        "predicted": predicted[config],
        "predicted_before": before[config],
        "measured": speedup,
        "error": predicted[config] / speedup - 1,
        "error_before": before[config] / speedup - 1,
    }


def blocks(chosen: Sequence[SpeculationConfig]) -> Iterator[Sequence[SpeculationConfig]]:
    """Settings in groups of ``_BLOCK``."""
    for first in range(0, len(chosen), _BLOCK):
        yield chosen[first : first + _BLOCK]


def verify_costs(costs: Costs) -> dict[int, float]:
    """V(n + 1)/V(1) by drafted tokens."""
    pairs = zip(costs.lengths, costs.verify_s, strict=True)
    return {length: seconds / costs.verify_s[0] for length, seconds in pairs}


def kendall(rows: Sequence[dict[str, Any]], name: str) -> float:
    """Kendall's tau between predicted and measured order; no ties among measurements."""
    signs = [
        (one[name] - other[name]) * (one["measured"] - other["measured"])
        for one, other in combinations(rows, 2)
    ]
    agreeing = sum(int(sign > 0) - int(sign < 0) for sign in signs)
    return agreeing / len(signs)


if __name__ == "__main__":
    main()
