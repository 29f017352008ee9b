"""Memory plans against what llama.cpp then allocates, byte by byte, and the seconds of a plan.

Plans tiny models of every kind, the demo models and SmolLM2 with several contexts and cache types,
loads each of them as the engine does, and compares. Then it plans headers with the shapes of large
models, which have no weights, from a cold start: a fresh process per plan.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.common import write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.demand import FreeMemory
from spectui.engine.fitting import largest_context
from spectui.engine.planning import Planner
from spectui.llama.buffers import HOST
from spectui.llama.planned import PlanRequest
from spectui.models.header import read_header
from spectui.options.setup import ContextOptions, ModelOptions
from tests.support.allocation import (
    KINDS,
    LOG_STEP_BYTES,
    Bytes,
    allocate,
    log_gaps_bytes,
    planned_bytes,
)
from tests.support.architectures import WRITERS, write_pair
from tests.support.models import Tiny
from tests.support.shapes import QWEN3_0_6B, QWEN3_30B_A3B, QWEN3_NEXT_80B_A3B, write_header

CONTEXTS = (512, 4096, 8192)
CACHE_TYPES = (("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"))
MAX_DRAFT = 16
SHAPES = {
    "Qwen3-Next-80B-A3B": QWEN3_NEXT_80B_A3B,
    "Qwen3-30B-A3B": QWEN3_30B_A3B,
    "Qwen3-0.6B": QWEN3_0_6B,
}
TARGET_S = 2.0
_Files = tuple[Path, Path | None]
"""A target, and a file of MTP layers."""
RAM_BYTES = 64 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One model with one context."""

    model: str
    ctx_size: int
    cache_types: str
    planned_bytes: int
    """Weights, cache and compute."""
    allocated_bytes: int
    is_equal: bool
    """Of every use in every memory, to the byte."""
    largest_log_gap_bytes: int
    """Of any line in the log, which has hundredths of a MiB."""


def main() -> None:
    """Measure and write ``results/memory_plan.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    parser.add_argument("--runs", type=int, default=7, help="cold starts per header")
    parser.add_argument("--no-demo", action="store_true", help="leave out the demo models")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = dict(_models(folder, with_demo=not arguments.no_demo))
        compared = compare(models, arguments.contexts)
        seconds = {title: time_plans(title, folder, arguments.runs) for title in SHAPES}
    worst_s = max(timing["cold_plan_s_max"] for timing in seconds.values())
    write_results(
        "memory_plan",
        {
            "plans": len(compared),
            "equal_to_the_byte": sum(one.is_equal for one in compared),
            "largest_log_gap_bytes": max(one.largest_log_gap_bytes for one in compared),
            "log_step_bytes": LOG_STEP_BYTES,
            "headers": seconds,
            "target_s": TARGET_S,
            "met": all(one.is_equal for one in compared) and worst_s <= TARGET_S,
            "rows": [asdict(one) for one in compared],
        },
    )


def _models(folder: Path, *, with_demo: bool) -> Iterator[tuple[str, _Files]]:
    for kind, write in KINDS.items():
        path = folder / f"{kind}.gguf"
        write(path)
        yield f"tiny {kind}", (path, None)
    for arch, write_mtp in WRITERS.items():
        path = folder / f"{arch}-mtp.gguf"
        write_mtp(Tiny(), path)
        yield f"tiny {arch} with MTP layers", (path, None)
    for arch in (*WRITERS, "gemma4"):
        pair = write_pair(arch, folder / arch)
        yield f"tiny {arch} beside a file of MTP layers", pair
    demo = tuple(DemoModel) if with_demo else (DemoModel.DRAFT,)
    for model, path in ensure_demo_models(demo).items():
        yield f"demo {model}", (path, None)


def compare(models: Mapping[str, _Files], contexts: Sequence[int]) -> list[Comparison]:
    """Plan and load every model with every context and cache type."""
    found = []
    with Planner() as planner:
        for title, (path, layers) in models.items():
            for ctx_size in contexts:
                for types in CACHE_TYPES:
                    key, value = types
                    options = ModelOptions(
                        path=path,
                        cache_type_k=key,
                        cache_type_v=value,
                        cache_type_k_mtp=key,
                        cache_type_v_mtp=value,
                    )
                    context = ContextOptions(ctx_size=ctx_size)
                    request = PlanRequest(target=options, context=context, max_draft=MAX_DRAFT)
                    with_layers = planner.plan(request).target.info.mtp_layers > 0
                    request = replace(request, mtp=with_layers)
                    if layers is not None:
                        request = request.beside(replace(options, path=layers))
                    found.append(_comparison(title, planner, request))
    return found


def _comparison(title: str, planner: Planner, request: PlanRequest) -> Comparison:
    plan = planner.plan(request)
    contexts = [one for one in allocate(request) if one is not None]
    real: Bytes = sum((one.exact for one in contexts), Counter())
    planned = planned_bytes(plan.buffers)
    logged = [buffer for one in contexts for buffer in one.logged]
    gaps = log_gaps_bytes(plan.buffers, logged)
    return Comparison(
        model=title,
        ctx_size=request.context.ctx_size,
        cache_types=f"{request.target.cache_type_k}, {request.target.cache_type_v}",
        planned_bytes=planned.total(),
        allocated_bytes=real.total(),
        is_equal=planned == real,
        largest_log_gap_bytes=max(abs(gap) for gap in gaps.values()),
    )


def time_plans(title: str, folder: Path, n_runs: int) -> dict[str, Any]:
    """Time a plan in a process of its own, a second one in the same, and the search for a context.

    The header's check alone, which every loading command makes, is timed beside them.
    """
    path = folder / f"{title}.gguf"
    write_header(SHAPES[title], path)
    request = PlanRequest(target=ModelOptions(path=path), max_draft=MAX_DRAFT)
    # Equal plans are remembered.
    another = replace(request, context=replace(request.context, ctx_size=8192))
    cold, warm, checks = [], [], []
    for _run in range(n_runs):
        began_s = time.perf_counter()
        with Planner() as planner:
            planner.plan(request)
            cold.append(time.perf_counter() - began_s)
            began_s = time.perf_counter()
            planner.plan(another)
            warm.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        read_header(path)
        checks.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    with Planner() as planner:
        n_ctx = largest_context(
            cache(planner.plan), request, FreeMemory(by_memory={HOST: RAM_BYTES})
        )
    return {
        "cold_plan_s": statistics.median(cold),
        "cold_plan_s_max": max(cold),
        "next_plan_s": statistics.median(warm),
        "check_s": statistics.median(checks),
        "largest_context_in_64_gb": n_ctx,
        "largest_context_s": time.perf_counter() - began_s,
    }


if __name__ == "__main__":
    main()
