"""Decode throughput of the engine against the real llama-server, same sources, same work.

Every prompt is decoded five ways, one right after the other, in an order that rotates from prompt
to prompt: server and engine without a draft; server, engine on the ``server`` schedule and engine
on the ``fast`` schedule with one. What counts are the ratios within a prompt, since the machine's
speed drifts between prompts.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import load_pair, start_server, write_results
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig, Schedule
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer

RATIOS = {
    "baseline": ("engine off", "server off"),
    "server_schedule": ("engine server", "server on"),
    "fast_schedule": ("engine fast", "server on"),
}

Way = Callable[[WorkItem], float]


def main() -> None:
    """Measure and write ``results/engine_vs_server.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--draft-max", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    speculation = Speculation(DraftSimple(draft_max=arguments.draft_max))
    n_predict = arguments.n_predict
    with (
        tempfile.TemporaryDirectory() as logs,
        start_server(None, Path(logs) / "off.log") as off,
        start_server(speculation, Path(logs) / "on.log") as on,
        Engine() as engine,
    ):
        workload = load_pair(
            engine,
            max_draft=arguments.draft_max,
            n_prompts=arguments.prompts,
            n_predict=n_predict,
        )
        ways: dict[str, Way] = {
            "server off": lambda item: served(off, item, n_predict),
            "engine off": lambda item: run(engine, item, n_predict, None, Schedule.SERVER),
            "server on": lambda item: served(on, item, n_predict),
            "engine server": lambda item: run(
                engine, item, n_predict, speculation, Schedule.SERVER
            ),
            "engine fast": lambda item: run(engine, item, n_predict, speculation, Schedule.FAST),
        }
        rows = measure(ways, workload.items, arguments.repeats)
    write_results(
        "engine_vs_server",
        {
            "draft_max": arguments.draft_max,
            "n_predict": n_predict,
            "ratios": {name: summary(rows, *pair) for name, pair in RATIOS.items()},
            "median_tokens_per_s": {
                way: statistics.median(row[way] for row in rows) for way in ways
            },
            "rows_tokens_per_s": rows,
        },
    )


def measure(
    ways: dict[str, Way], items: tuple[WorkItem, ...], repeats: int
) -> list[dict[str, float]]:
    """Tokens/s of every way, a row per prompt and repeat."""
    for way in ways.values():
        way(items[0])
    names = list(ways)
    rows = []
    for turn, item in enumerate(items * repeats):
        start = turn % len(names)
        row = {name: ways[name](item) for name in names[start:] + names[:start]}
        rows.append({name: row[name] for name in names})
    return rows


def summary(rows: list[dict[str, float]], ours: str, theirs: str) -> dict[str, float]:
    """Ratios within rows."""
    ratios = sorted(row[ours] / row[theirs] for row in rows)
    quartiles = statistics.quantiles(ratios, n=4)
    return {"median": statistics.median(ratios), "q1": quartiles[0], "q3": quartiles[2]}


def served(server: LlamaServer, item: WorkItem, n_predict: int) -> float:
    """Tokens/s that the server reports. The first token came with the prompt."""
    done = server.complete(item.tokens, n_predict=n_predict, ignore_eos=True)
    return (done.n_predicted - 1) / done.predicted_s


def run(
    engine: Engine,
    item: WorkItem,
    n_predict: int,
    speculation: Speculation | None,
    schedule: Schedule,
) -> float:
    """Tokens/s of the engine for the same tokens."""
    result = engine.generate(
        Generate(
            prompt=item.tokens,
            n_predict=n_predict,
            sampling=SamplingConfig(temp=0.0, ignore_eos=True),
            speculation=speculation,
            schedule=schedule,
            reuse_prompt=True,
        )
    )
    return result.n_decoded / result.decode_s


if __name__ == "__main__":
    main()
