"""The same answer tomorrow? Tuning again and again with other seeds, as a user would ask for it.

Every run has a home of its own, so nothing is resumed. What the runs chose is then measured side by
side, in turn on every prompt, since the speedup that a run reports has the noise of that run in it:
two runs that choose different settings have disagreed only if those settings differ.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.common import CONTEXT, demo_pair, write_results
from benchmarks.demo_verdicts import PRESETS, run
from spectui.demo import DemoModel
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.measurer import Measurer, measurements, steady
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import tokenize
from spectui.options.drafters import DraftSimple, Ngram
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite

TARGETS = {preset: target for target, preset in PRESETS.items()}
_N_PREDICT = 32


def main() -> None:
    """Measure and write ``results/tuning_stability_<preset>.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=TARGETS, default="demo")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--time-budget", default="4m")
    parser.add_argument("--prompts", type=int, default=24, help="for the measurement side by side")
    arguments = parser.parse_args()
    runs = []
    for seed in range(1, arguments.runs + 1):
        runs.append(run(arguments.preset, seed, arguments.time_budget))
        print(seed, runs[-1]["verdict"]["reason"], file=sys.stderr, flush=True)
    chosen = [setting_of(one) for one in runs]
    together = measure_together(TARGETS[arguments.preset], chosen, arguments.prompts)
    found = list(together.values())
    write_results(
        f"tuning_stability_{arguments.preset}",
        {
            "n_verdicts_to_use_it": sum(one["verdict"]["use_speculation"] for one in runs),
            "n_runs": len(runs),
            "lowest_over_highest": min(found) / max(found) if found else None,
            "speedups_together": [
                {"setting": describe(setting), "speedup": value}
                for setting, value in together.items()
            ],
            "runs": runs,
        },
    )


def setting_of(one: dict[str, Any]) -> Speculation | None:
    """What a run says to use; None for off, and for n-gram drafters."""
    parameters = (one["best"] or {}).get("params", {})
    if not one["verdict"]["use_speculation"] or "draft_p_min" not in parameters:
        return None
    names = ("draft_max", "draft_min", "draft_p_min")
    own = Speculation(DraftSimple(**{name: parameters[name] for name in names}))
    return own.after([ngram_of(one) for one in parameters.get("ahead", ())])


def ngram_of(parameters: dict[str, Any]) -> Ngram:
    """An n-gram drafter, as a document describes it."""
    found: Ngram = msgspec.convert(parameters["ngram"], Ngram)
    return found


def measure_together(
    target: DemoModel, chosen: Sequence[Speculation | None], n_prompts: int
) -> dict[Speculation, float]:
    """Speedup over off of each distinct setting, all in turn on every prompt."""
    distinct = list(dict.fromkeys(setting for setting in chosen if setting is not None))
    if not distinct:
        return {}
    options, draft = demo_pair(target)
    pairs: dict[Speculation, list[Any]] = {setting: [] for setting in distinct}
    with Engine() as engine:
        longest = max(setting.longest for setting in distinct)
        loaded = engine.load_target(LoadTarget(options=options, context=CONTEXT, max_draft=longest))
        engine.load_draft(draft)
        workload = tokenize(
            engine,
            builtin_suite()[:n_prompts],
            n_predict=_N_PREDICT,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        )
        measurer = Measurer(engine, workload)
        measurer.warm_up(None)
        for turn, item in enumerate(workload.items):
            for setting in distinct[:: -1 if turn % 2 else 1]:
                pairs[setting].append(measurer.pair(item, setting, turn))
    return {
        setting: paired_speedup(measurements(steady(found))).estimate
        for setting, found in pairs.items()
    }


def describe(setting: Speculation) -> dict[str, Any]:
    """As the results have it."""
    return {
        **setting.own.numbers,
        "ahead": [f"{one.kind}: {one.summary}" for one in setting.ahead],
    }


if __name__ == "__main__":
    main()
