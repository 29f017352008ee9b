"""Promised against delivered on the demo pairs: speedups in-process and by the real llama-server.

Every prompt is decoded four ways, one right after the other, in an order that changes: without and
with the draft, by the engine and by servers of the same sources that run
the exported flags. The ratio of the two speedups is told with its interval, paired by prompt;
drafted and accepted counts and the output have to be equal.

``spectui verify`` measures the same one after the other, as a user can. Then a machine that drifts
meanwhile, which need not slow down small and large batches alike, comes on top of what is measured
here.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import load_pair, start_server, write_results
from spectui.demo import DemoModel
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.promise import observed_of, totals
from spectui.measure.server_backend import result_of
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from spectui.verify.comparison import ratio_of, verdict

_TOLERANCE = 0.05
DRAFT_MAX = {DemoModel.DENSE: 4, DemoModel.MOE: 3}
Ways = dict[str, Callable[[], Any]]


def main() -> None:
    """Measure both pairs and write ``results/verify_promise.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    targets = [str(target) for target in DRAFT_MAX]
    parser.add_argument("--targets", nargs="+", choices=targets, default=targets)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pairs = {target: compared(DemoModel(target), arguments) for target in arguments.targets}
    asked = {name: getattr(arguments, name) for name in ("prompts", "n_predict", "repeats", "seed")}
    write_results("verify_promise", {**asked, "tolerance": _TOLERANCE, "pairs": pairs})


def compared(target: DemoModel, arguments: argparse.Namespace) -> dict[str, Any]:
    """What engine and servers do with one pair."""
    speculation = Speculation(DraftSimple(draft_max=DRAFT_MAX[target]))
    with (
        tempfile.TemporaryDirectory() as logs,
        start_server(None, Path(logs) / "off.log", target=target) as off,
        start_server(speculation, Path(logs) / "on.log", target=target) as on,
        Engine() as engine,
    ):
        workload = load_pair(
            engine,
            target=target,
            max_draft=speculation.longest,
            n_prompts=arguments.prompts,
            n_predict=arguments.n_predict,
        )
        measurer = Measurer(engine, workload)

        def ways(item: WorkItem) -> Ways:
            return {
                "engine off": lambda: measurer.decode(item, None),
                "engine on": lambda: measurer.decode(item, speculation),
                "server off": lambda: served(off, item, workload.n_predict),
                "server on": lambda: served(on, item, workload.n_predict),
            }

        promised, delivered = measured(
            ways, workload, repeats=arguments.repeats, seed=arguments.seed
        )
    return summary(promised, delivered)


def measured(
    ways: Callable[[WorkItem], Ways], workload: Workload, *, repeats: int, seed: int
) -> tuple[list[Pair], list[Pair]]:
    """Every prompt four ways, ``repeats`` times."""
    orders = random.Random(seed)  # noqa: S311 - an order, not a secret
    for warm_up in ways(workload.items[0]).values():
        warm_up()
    promised: list[Pair] = []
    delivered: list[Pair] = []
    for item in workload.items * repeats:
        found = {name: way() for name, way in shuffled(ways(item), orders)}
        for who, pairs in (("engine", promised), ("server", delivered)):
            off, on = found[f"{who} off"], found[f"{who} on"]
            pairs.append(Pair(item=item, baseline=off, speculative=on))
        print(item.id, {name: one.tokens_per_s for name, one in found.items()}, file=sys.stderr)
    return promised, delivered


def shuffled(ways: Ways, orders: random.Random) -> list[tuple[str, Callable[[], Any]]]:
    """The ways in an order of chance."""
    return orders.sample(list(ways.items()), len(ways))


def served(server: LlamaServer, item: WorkItem, n_predict: int) -> GenerationResult:
    """One prompt, greedy, as ``spectui verify`` sends it."""
    done = server.complete(item.tokens, n_predict=n_predict)
    return result_of(done, len(item.tokens), redoes_rounds=True)


def _counted(pair: Pair) -> tuple[int, int, tuple[int, ...]]:
    """What has to be equal: drafted and accepted tokens, and the output."""
    done = pair.speculative
    return done.counters.n_drafted, done.counters.n_accepted, done.tokens


def summary(promised: list[Pair], delivered: list[Pair]) -> dict[str, Any]:
    """What the benchmark is about, with a row per measurement."""
    ours, theirs = observed_of(delivered), observed_of(promised)
    ratio = ratio_of(ours, theirs)
    if ratio is None:
        raise RuntimeError("no prompt was decoded on both sides")
    both = zip(promised, delivered, strict=True)
    different = [ours.item.id for ours, theirs in both if _counted(ours) != _counted(theirs)]
    sides = {"promised": theirs, "delivered": ours}
    speedups = {
        name: paired_speedup([one.measurement for one in side]) for name, side in sides.items()
    }
    return {
        "verdict": verdict(speedups["promised"], speedups["delivered"], ratio),
        "delivered_over_promised": asdict(ratio),
        "within_tolerance": abs(ratio.estimate - 1) <= _TOLERANCE,
        "counts_equal": f"{len(delivered) - len(different)} of {len(delivered)}",
        "different": different,
        **{
            name: {**asdict(totals(side)), "speedup": asdict(speedups[name])}
            for name, side in sides.items()
        },
        "rows": [
            {
                "prompt_id": pair.item.id,
                "engine_off": pair.baseline.tokens_per_s,
                "engine_on": pair.speculative.tokens_per_s,
                "server_off": other.baseline.tokens_per_s,
                "server_on": other.speculative.tokens_per_s,
                "n_drafted": other.speculative.counters.n_drafted,
                "n_accepted": other.speculative.counters.n_accepted,
            }
            for pair, other in zip(promised, delivered, strict=True)
        ],
    }


if __name__ == "__main__":
    main()
