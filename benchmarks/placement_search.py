"""Hold the place that a search finds against the best of a full grid of places.

    python -m benchmarks.placement_search                # all cases
    python -m benchmarks.placement_search --case dense   # one of them

Two cases of the demo targets: the dense one on this processor from one thread, and the mixture of
experts with its layers on two RPC devices and all experts in RAM. Each search runs as ``spectui
tune`` runs it, from the command's own place. Then every combination of the values that it chooses
from is timed like a trial of it, but on two prompts and in several rounds, each in a random order,
so that drift cancels. Regret is the best combination's speed in requests over the chosen one's.
"""

import argparse
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from itertools import product
from statistics import geometric_mean

import optuna

from benchmarks.common import CONTEXT, demo_pair, use_servers_library, write_results
from spectui.cores import usable_processors
from spectui.demo import DemoModel
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.llama.buffers import HOST
from spectui.measure.requests import usual_shape
from spectui.measure.workload import tokenize
from spectui.options.setup import Devices, SamplingConfig
from spectui.prompts import builtin_suite
from spectui.tune.places import Knob, Parameter, Placing, Value, Values, knobs_of
from spectui.tune.placing import PlaceSearch
from spectui.tune.setup import mixed
from spectui.tune.studies.study import PlaceStudy
from tests.support.rpc import RpcBuild, rpc_build

CASES = ("dense", "experts")
N_PROMPTS = 16
N_PREDICT = 64


def main() -> None:
    """Search, time the grid, and write ``results/placement_search.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--rounds", type=int, default=2, help="of the grid")
    arguments = parser.parse_args()
    use_servers_library()
    build = rpc_build()
    if build is None:
        parser.error("build the devices first: python tools/build_llama_server.py rpc")
    # Backends are looked for once, with the library.
    os.environ.update(build.environment)
    cases = CASES if arguments.case is None else (arguments.case,)
    found = {}
    for case in cases:
        with devices(case, build) as placed, Engine() as engine:
            found[case] = compare(engine, case, placed, arguments.rounds)
    write_results("placement_search", found)


@contextmanager
def devices(case: str, build: RpcBuild) -> Iterator[Devices]:
    """Two RPC devices for the mixture of experts; the processor alone for the dense target."""
    if case == "dense":
        yield Devices()
        return
    with ExitStack() as stack:
        servers = [stack.enter_context(build.serving()) for _ in range(2)]
        yield Devices(rpc=tuple(one.endpoint for one in servers))


def compare(engine: Engine, case: str, placed: Devices, n_rounds: int) -> dict[str, object]:
    """Search one target's place, and time the grid."""
    is_moe = case == "experts"
    options, _draft = demo_pair(DemoModel.MOE if is_moe else DemoModel.DENSE, placed)
    options = replace(options, cpu_moe=is_moe)
    command = LoadTarget(options=options, context=replace(CONTEXT, threads=1), max_draft=1)
    loaded = engine.load_target(LoadTarget(options=options, context=command.context, max_draft=1))
    workload = tokenize(
        engine,
        builtin_suite(),
        n_predict=N_PREDICT,
        sampling=SamplingConfig(temp=0.0),
        n_ctx=loaded.n_ctx,
    )
    workload = replace(workload, items=mixed(workload.items)[:N_PROMPTS])
    knobs = knobs_of(
        frozenset(Parameter) - {Parameter.SPLIT_MODE, Parameter.UBATCH_SIZE},
        replace(command, options=options),
        n_processors=usable_processors(),
        n_devices=len({one.memory for one in loaded.memory.buffers} - {HOST}),
        n_layers=loaded.info.n_layers if is_moe else 0,
    )
    search = PlaceSearch(
        engine,
        command,
        PlaceStudy(optuna.storages.InMemoryStorage(), case, knobs),
        workload=workload,
        shape=usual_shape(workload),
        min_gain=0.02,
        say=print,
    )
    began_s = time.perf_counter()
    placing = search.run()
    search_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    grid = timed_grid(search, knobs, n_rounds)
    grid_s = (time.perf_counter() - began_s) / n_rounds
    return report(placing, knobs, grid, search_s=search_s, grid_s=grid_s)


def timed_grid(
    search: PlaceSearch, knobs: Sequence[Knob], n_rounds: int
) -> dict[tuple[Value, ...], list[float]]:
    """Seconds of a request by combination of values, in each round."""
    order = random.Random(0)  # noqa: S311 - an order of measurements needs no secrets
    cells = list(product(*(one.values for one in knobs)))
    found: dict[tuple[Value, ...], list[float]] = {cell: [] for cell in cells}
    for n in range(n_rounds):
        for cell in order.sample(cells, len(cells)):
            values = {one.name: value for one, value in zip(knobs, cell, strict=True)}
            found[cell].append(search.request_s(search.timed(values, n_prompts=2)))
            print(f"round {n + 1}: {values}: {found[cell][-1]:.2f} s")
    return found


def report(
    placing: Placing,
    knobs: Sequence[Knob],
    grid: Mapping[tuple[Value, ...], Sequence[float]],
    *,
    search_s: float,
    grid_s: float,
) -> dict[str, object]:
    """What was found, and what it gives away."""
    speeds = {cell: 1 / geometric_mean(seconds) for cell, seconds in grid.items()}
    best = max(speeds, key=lambda cell: speeds[cell])
    chosen = speeds[tuple(placing.values[one.name] for one in knobs)]
    given = speeds[tuple(one.own for one in knobs)]
    return {
        "placing": asdict(placing),
        "best": named(knobs, best),
        "chosen_over_best": chosen / speeds[best],
        "chosen_over_given": chosen / given,
        "best_over_given": speeds[best] / given,
        "n_cells": len(grid),
        "search_s": search_s,
        "grid_s_per_round": grid_s,
        "cells": [
            {"values": named(knobs, cell), "request_s": list(seconds)}
            for cell, seconds in grid.items()
        ],
    }


def named(knobs: Sequence[Knob], cell: Sequence[Value]) -> Values:
    """Values by parameter."""
    return {one.name: value for one, value in zip(knobs, cell, strict=True)}


if __name__ == "__main__":
    main()
