"""Decode throughput of the engine against the real llama-server, same sources, same work.

Every prompt is decoded four ways, one right after the other, in an order that rotates from prompt
to prompt: server and engine without a draft, and with one. What counts are the ratios within a
prompt, since the machine's speed drifts between prompts.

With ``--rpc`` both models are on an RPC server on loopback: each of the three that decode has one
of its own, since such a server serves one client, and only one of them works at a time.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common import load_pair, start_server, write_results
from spectui.cores import default_threads
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.setup import Devices, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from tests.support.rpc import rpc_build

RATIOS = {
    "baseline": ("engine off", "server off"),
    "draft": ("engine on", "server on"),
}

Way = Callable[[WorkItem], float]


def main() -> None:
    """Measure and write ``results/engine_vs_server.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--draft-max", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rpc", action="store_true", help="both models on an RPC server")
    parser.add_argument("--smallest", action="store_true", help="one prompt")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        rows = rows_of(stack, arguments)
    write_results(
        "engine_vs_server_rpc" if arguments.rpc else "engine_vs_server",
        {
            "draft_max": arguments.draft_max,
            "n_predict": arguments.n_predict,
            "ratios": {name: summary(rows, *pair) for name, pair in RATIOS.items()},
            "median_tokens_per_s": {
                way: statistics.median(row[way] for row in rows) for way in rows[0]
            },
            "rows_tokens_per_s": rows,
        },
    )


def rows_of(stack: ExitStack, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Start servers and engine, which end with ``stack``, and decode every way."""
    n_prompts, repeats = (1, 2) if arguments.smallest else (arguments.prompts, arguments.repeats)
    speculation = Speculation(DraftSimple(draft_max=arguments.draft_max))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    program, devices = three_devices(stack, folder) if arguments.rpc else (None, [Devices()] * 3)
    off, on = (
        stack.enter_context(start_server(how, folder / log, devices=where, program=program))
        for how, log, where in ((None, "off.log", devices[0]), (speculation, "on.log", devices[1]))
    )
    engine = stack.enter_context(Engine())
    workload = load_pair(
        engine,
        max_draft=arguments.draft_max,
        n_prompts=n_prompts,
        n_predict=arguments.n_predict,
        devices=devices[2],
    )
    return measure(ways(off, on, engine, speculation, arguments.n_predict), workload.items, repeats)


def ways(
    off: LlamaServer, on: LlamaServer, engine: Engine, speculation: Speculation, n_predict: int
) -> dict[str, Way]:
    """All ways to decode a prompt, by name."""
    return {
        "server off": lambda item: served(off, item, n_predict),
        "engine off": lambda item: run(engine, item, n_predict, None),
        "server on": lambda item: served(on, item, n_predict),
        "engine on": lambda item: run(engine, item, n_predict, speculation),
    }


def three_devices(stack: ExitStack, folder: Path) -> tuple[Path, list[Devices]]:
    """A llama-server with RPC, and three RPC servers, which end with ``stack``."""
    build = rpc_build()
    if build is None:
        raise RuntimeError("build the server first: python tools/build_llama_server.py rpc")
    os.environ |= build.environment
    n_threads = default_threads()
    servers = [stack.enter_context(build.serving(threads=n_threads)) for _ in range(3)]
    return build.llama_server(folder), [Devices(rpc=(server.endpoint,)) for server in servers]


def measure(
    by_name: dict[str, Way], items: tuple[WorkItem, ...], repeats: int
) -> list[dict[str, float]]:
    """Tokens/s of every way, a row per prompt and repeat."""
    for way in by_name.values():
        way(items[0])
    names = list(by_name)
    rows = []
    for turn, item in enumerate(items * repeats):
        start = turn % len(names)
        row = {name: by_name[name](item) for name in names[start:] + names[:start]}
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
) -> float:
    """Tokens/s of the engine for the same tokens."""
    result = engine.generate(
        Generate(
            prompt=item.tokens,
            n_predict=n_predict,
            sampling=SamplingConfig(temp=0.0, ignore_eos=True),
            speculation=speculation,
            reuse_prompt=True,
        )
    )
    return result.n_decoded / result.decode_s


if __name__ == "__main__":
    main()
