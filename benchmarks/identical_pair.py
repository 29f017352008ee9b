"""A setting that drafts nothing, raced against the target alone: its gain is 0.

The n-gram drafter looks for a passage that is longer than any that comes twice, so that each round
decodes one token, as the target alone does. Both sides take turns as in ``tune``: how often the
verdict is to use it, how far the estimates are from 1, and how wide the intervals are.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.common import add_row, load_pair, read_rows, write_results
from spectui.demo import DemoModel
from spectui.engine.driver import Engine
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.verdict import Basis, judge
from spectui.measure.workload import Workload
from spectui.options.drafters import NgramSimple
from spectui.options.speculation import Speculation
from spectui.tune.race import BASELINE_SHARE, Race, RaceRuns

MIN_GAIN = 0.02
SETTING = Speculation(NgramSimple(size_n=256, size_m=256))
NEVER = Arm(draft=None, speculation=SETTING)
_N_PREDICT = 32


def main() -> None:
    """Race again and again, and write ``results/identical_pair.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=Path, help="JSON lines; an interrupted run goes on")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    with Engine() as engine:
        workload = load_pair(
            engine,
            target=DemoModel.DENSE,
            max_draft=SETTING.longest,
            n_prompts=arguments.prompts,
            n_predict=_N_PREDICT,
        )
        for number in range(len(rows), arguments.runs):
            rows.append(_raced(engine, workload, number))
            add_row(arguments.rows, rows[-1])
            print(rows[-1], file=sys.stderr, flush=True)
    speedups = [row["speedup"] for row in rows]
    write_results(
        "identical_pair",
        {
            "n_prompts": arguments.prompts,
            "n_predict": _N_PREDICT,
            "n_runs": len(rows),
            "n_use": sum(row["answer"] == "use" for row in rows),
            "n_intervals_that_hold_the_truth": sum(row["low"] <= 1 <= row["high"] for row in rows),
            "mean_speedup": math.exp(fmean(map(math.log, speedups))),
            "lowest_speedup": min(speedups),
            "highest_speedup": max(speedups),
            "median_half_width": median((row["high"] - row["low"]) / 2 for row in rows),
            "runs": rows,
        },
    )


def _raced(engine: Engine, workload: Workload, number: int) -> dict[str, Any]:
    # Its seed says who begins; what is greedy draws nothing by it.
    ordered = replace(workload, sampling=replace(workload.sampling, seed=number))
    measurer = Measurer(engine, ordered, baseline_share=BASELINE_SHARE)
    runs = RaceRuns(measurer, NEVER, load=lambda _arm: None, on_pair=lambda _pair: None)
    race = Race(runs, workload.items, min_gain=MIN_GAIN)
    race.run()
    leader = race.conclude()
    if leader.speedup is None or leader.speedup.interval is None:
        raise RuntimeError("nothing was decoded")
    if any(pair.speculative.counters.n_drafted for pair in leader.pairs):
        raise RuntimeError("something was drafted, so that the gain need not be 0")
    low, high = leader.speedup.interval
    verdict = judge(leader.speedup, min_gain=MIN_GAIN, basis=Basis.UNSEEN)
    return {
        "answer": str(verdict.answer),
        "reason": verdict.reason,
        "n_prompts": len(leader.pairs),
        "speedup": leader.speedup.estimate,
        "low": low,
        "high": high,
    }


if __name__ == "__main__":
    main()
