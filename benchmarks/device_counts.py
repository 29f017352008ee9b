"""Drafted and accepted counts on RPC devices: the engine's beside the real llama-server's.

    python -m benchmarks.device_counts             # 12 settings
    python -m benchmarks.device_counts --smallest  # one

Greedy, on a tiny mixture of experts and a draft that is often right, each on the devices that the
setting names. Both decode every prompt one after the other, since an RPC server serves one client.
The counts are exact numbers, so the machine's noise does not matter.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common import write_results
from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.workload import tokenize
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import (
    ContextOptions,
    Devices,
    ModelOptions,
    SamplingConfig,
    SplitMode,
    TensorOverride,
)
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer
from tests.support.models import Tiny, write_tiny
from tests.support.rpc import rpc_build

CONTEXT = ContextOptions(ctx_size=4096, threads=1)
SHORT = Speculation(DraftSimple(draft_max=3))
LONG = Speculation(DraftSimple(draft_max=8, draft_p_min=0.3))
MIXED = Speculation(DraftSimple(draft_max=6, draft_min=2, draft_p_min=0.5))
_EXPERTS_IN_RAM = TensorOverride(pattern="exps", buffer="CPU")

Counts = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Placement of a pair, and how it speculates."""

    name: str
    target: ModelOptions
    draft: ModelOptions
    context: ContextOptions = CONTEXT
    speculation: Speculation


def main() -> None:
    """Compare and write ``results/device_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--smallest", action="store_true", help="one setting on one prompt")
    arguments = parser.parse_args()
    build = rpc_build()
    if build is None:
        parser.error("build the servers first: python tools/build_llama_server.py rpc")
    os.environ |= build.environment
    n_prompts, n_settings = (1, 1) if arguments.smallest else (arguments.prompts, None)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rpc = tuple(stack.enter_context(build.serving()).endpoint for _ in range(2))
        program = build.llama_server(folder)
        rows = [
            compare(setting, program, folder, n_prompts, arguments.n_predict)
            for setting in tuple(settings(folder, rpc))[:n_settings]
        ]
    n_equal = sum(row["equal"] for row in rows)
    write_results(
        "device_counts",
        {
            "n_predict": arguments.n_predict,
            "n_prompts": n_prompts,
            "n_settings": len(rows),
            "n_equal": n_equal,
            "met": n_equal == len(rows),
            "rows": rows,
        },
    )


def settings(folder: Path, rpc: tuple[str, ...]) -> Iterator[Setting]:
    """Every kind of placement, with different speculation."""
    devices, (experts, close) = Devices(rpc=rpc), (folder / "target.gguf", folder / "draft.gguf")
    write_tiny(Tiny(n_experts=4), experts)
    write_tiny(Tiny(n_experts=4, noise=0.02), close)
    target, draft = (ModelOptions(path=path, devices=devices) for path in (experts, close))
    first, second = (replace(devices, names=(name,)) for name in ("RPC0", "RPC1"))
    on_first, on_second = replace(target, devices=first), replace(draft, devices=second)
    none = replace(draft, devices=replace(devices, names=()))
    split = replace(devices, split=(1.0, 3.0))
    alone = replace(devices, split_mode=SplitMode.NONE, main=1)
    in_ram = replace(CONTEXT, kv_offload=False)
    for name, ours, theirs, context, speculation in (
        ("all on both", target, draft, CONTEXT, SHORT),
        ("target first, draft second", on_first, on_second, CONTEXT, SHORT),
        ("target first, draft second, long", on_first, on_second, CONTEXT, LONG),
        ("target first, draft on none", on_first, none, CONTEXT, MIXED),
        ("experts in RAM", replace(target, cpu_moe=True), draft, CONTEXT, LONG),
        ("-ot exps=CPU", replace(target, override_tensor=(_EXPERTS_IN_RAM,)), none, CONTEXT, SHORT),
        ("--n-cpu-moe 1", replace(on_first, n_cpu_moe=1), on_second, CONTEXT, MIXED),
        ("-ts 1,3", replace(target, devices=split), replace(draft, devices=split), CONTEXT, LONG),
        (
            "-sm none -mg 1",
            replace(target, devices=alone),
            replace(draft, devices=alone),
            CONTEXT,
            SHORT,
        ),
        ("-ngl 1", replace(target, n_gpu_layers=1), draft, CONTEXT, MIXED),
        ("-nkvo", target, on_second, in_ram, LONG),
        (
            "caches of 8 bits",
            replace(on_first, cache_type_k="q8_0", cache_type_v="q8_0"),
            on_second,
            CONTEXT,
            SHORT,
        ),
    ):
        yield Setting(
            name=name, target=ours, draft=theirs, context=context, speculation=speculation
        )


def compare(
    setting: Setting, program: Path, folder: Path, n_prompts: int, n_predict: int
) -> dict[str, Any]:
    """Decode every prompt in-process, and then through a server."""
    prompts, ours = in_process(setting, n_prompts, n_predict)
    arguments = server_arguments(
        setting.target,
        setting.draft,
        setting.context,
        setting.speculation,
        dialect=Dialect.LLAMA_CPP,
    )
    theirs = []
    with LlamaServer(program, [*arguments, "-np", "1"], log_path=folder / "log") as server:
        for prompt in prompts:
            done = server.complete(prompt, n_predict=n_predict)
            theirs.append((done.tokens, (done.n_drafted, done.n_accepted)))
    return {
        "setting": setting.name,
        "config": setting.speculation.document(),
        "engine": [counts for _, counts in ours],
        "server": [counts for _, counts in theirs],
        "equal": ours == theirs,
        "same_output": [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs],
    }


def in_process(
    setting: Setting, n_prompts: int, n_predict: int
) -> tuple[list[tuple[int, ...]], list[tuple[tuple[int, ...], Counts]]]:
    """Prompts, and for each the output with its counts; the devices are free again after it."""
    with Engine() as engine:
        loaded = engine.load_target(
            LoadTarget(
                options=setting.target,
                context=setting.context,
                max_draft=setting.speculation.longest,
            )
        )
        engine.load_draft(setting.draft)
        workload = tokenize(
            engine,
            builtin_suite()[:n_prompts],
            n_predict=n_predict,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        )
        prompts = [item.tokens for item in workload.items]
        found = []
        for prompt in prompts:
            done = engine.generate(
                Generate(
                    prompt=prompt,
                    n_predict=n_predict,
                    speculation=setting.speculation,
                    reuse_prompt=True,
                )
            )
            found.append((done.tokens, (done.counters.n_drafted, done.counters.n_accepted)))
        return prompts, found


if __name__ == "__main__":
    main()
