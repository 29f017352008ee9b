"""What a recording costs, in passes of the target alone over the same text.

Each output is recorded once; then each draft goes along it for several depths, in turn, so that the
machine's drift is common to them. A draft that is right costs a step per token, one that is wrong a
tail of up to ``depth`` - 1 more: 1 + (1 - a)(K - 1) steps per token.
"""

import argparse
import statistics
import sys
from typing import Any

from benchmarks.common import CONTEXT, write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate, RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.measure.workload import WorkItem, tokenize
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.prompts import builtin_suite

DRAFTS = (DemoModel.DRAFT, DemoModel.DRAFT_THIN)
DEPTHS = (4, 8, 16, 32)


def main() -> None:
    """Measure and write ``results/recording_cost.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, nargs="+", default=[32, 64])
    arguments = parser.parse_args()
    rows = []
    with Engine() as engine:
        built = ensure_demo_models((DemoModel.DENSE, *DRAFTS))
        loaded = engine.load_target(
            ModelOptions(path=built[DemoModel.DENSE]), CONTEXT, max_draft=max(DEPTHS)
        )
        for draft in DRAFTS:
            engine.load_draft(ModelOptions(path=built[draft]))
            for n_predict in arguments.n_predict:
                workload = tokenize(
                    engine,
                    builtin_suite()[: arguments.prompts],
                    n_predict=n_predict,
                    sampling=SamplingConfig(temp=0.0),
                    n_ctx=loaded.n_ctx,
                )
                found = [measure(engine, item, n_predict) for item in workload.items]
                rows += [
                    {"draft": str(draft), "n_predict": n_predict, **row} for row in summary(found)
                ]
                print(rows[-len(DEPTHS) :], file=sys.stderr, flush=True)
    write_results("recording_cost", {"n_prompts": arguments.prompts, "rows": rows})


def measure(engine: Engine, item: WorkItem, n_predict: int) -> dict[str, Any]:
    """Passes, share of wrong tokens, and cost of a step, on one prompt."""
    generate = Generate(prompt=item.tokens, n_predict=n_predict, reuse_prompt=True)
    engine.generate(generate)
    baseline: GenerationResult = engine.generate(generate)
    seconds, steps, wrong = {}, {}, 0.0
    for depth in DEPTHS:
        command = RecordChains(
            prompt=item.tokens, output=baseline.tokens, depth=depth, reuse_prompt=True
        )
        engine.record_chains(command)
        told = engine.record_chains(command)
        seconds[depth] = told.seconds
        tails = told.chains.tails
        steps[depth] = len(baseline.tokens) + sum(len(tail.tokens) for tail in tails)
        wrong = len(tails) / len(baseline.tokens)
    return {
        "baseline_s": baseline.decode_s,
        "n_decoded": baseline.n_decoded,
        "seconds": seconds,
        "steps": steps,
        "wrong": wrong,
    }


def summary(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per depth, over all prompts."""
    baseline_s = sum(one["baseline_s"] for one in found)
    n_decoded = sum(one["n_decoded"] for one in found)
    rows = []
    for depth in DEPTHS:
        seconds = sum(one["seconds"][depth] for one in found)
        steps = sum(one["steps"][depth] for one in found)
        rows.append(
            {
                "depth": depth,
                "passes": seconds / baseline_s,
                "steps_per_token": steps / n_decoded,
                "wrong": statistics.fmean(one["wrong"] for one in found),
                "c": (seconds / steps) / (baseline_s / n_decoded),
            }
        )
    return rows


if __name__ == "__main__":
    main()
