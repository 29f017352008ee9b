"""Hold memory plans against what llama.cpp allocates on two devices, to the byte.

    python -m benchmarks.device_plan             # every kind of model and placement, on RPC servers
    python -m benchmarks.device_plan --vulkan    # on Vulkan's software driver
    python -m benchmarks.device_plan --smallest  # one kind

Tiny models of every kind are planned and loaded with every placement that llama-server has options
for: layers, tensors and experts on either device or in RAM, caches, drafts elsewhere. Weights,
caches and compute buffers are compared, of every memory. What llama.cpp maps of a file is no
allocation, and spans what lies between as well: it is compared where files are not mapped.

Vulkan's buffers in RAM are 32 bytes larger each than what they are asked for, which no plan has.
"""

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.common import write_results
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
from spectui.options.setup import (
    ContextOptions,
    Devices,
    ModelOptions,
    SplitMode,
    TensorOverride,
)
from tests.support.allocation import KINDS, Bytes, allocate, planned_bytes
from tests.support.architectures import WRITERS
from tests.support.models import Tiny, write_tiny
from tests.support.rpc import RpcBuild, rpc_build
from tests.support.vulkan import DEVICES, VulkanBuild, vulkan_build

CONTEXT = ContextOptions(ctx_size=1024, ubatch_size=128, threads=1)
MAX_DRAFT = 8
TARGET = 60
"""Least number of placements; the plan of each is to be equal to the byte."""
_MAPPED = "CPU_Mapped"
_PADDED = "Vulkan_Host"
_MTP = "with MTP layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the parts of a pair go."""

    name: str
    target: ModelOptions
    draft: ModelOptions | None
    context: ContextOptions = CONTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One model with one placement."""

    model: str
    placement: str
    planned_bytes: dict[str, int]
    """By memory."""
    allocated_bytes: dict[str, int]
    gaps_bytes: dict[str, int]
    """Planned less allocated, by memory and use, where they differ."""


def main() -> None:
    """Compare and write ``results/device_plan.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="one kind of model")
    parser.add_argument("--vulkan", action="store_true", help="on Vulkan devices, not on RPC's")
    arguments = parser.parse_args()
    what, build = ("vulkan", vulkan_build()) if arguments.vulkan else ("rpc", rpc_build())
    if build is None:
        parser.error(f"build the devices first: python tools/build_llama_server.py {what}")
    os.environ |= build.environment
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rpc = _endpoints(build, stack)
        models = dict(_models(folder))
        kinds = list(models)[1:2] if arguments.smallest else list(models)
        with Planner(rpc=rpc) as planner:
            rows = [
                compared(planner, kind, placement)
                for kind in kinds
                for placement in _placements(models[kind], folder, rpc, mtp=_MTP in kind)
            ]
    n_equal = sum(not row.gaps_bytes for row in rows)
    gaps = [gap for row in rows for gap in row.gaps_bytes.values()]
    write_results(
        "device_plan_vulkan" if arguments.vulkan else "device_plan",
        {
            "devices": len(DEVICES),
            "placements": len(rows),
            "equal_to_the_byte": n_equal,
            "equal_on_devices": sum(
                all(where.startswith(_PADDED) for where in row.gaps_bytes) for row in rows
            ),
            "equal_weights_and_caches": sum(
                all(where.endswith("compute") for where in row.gaps_bytes) for row in rows
            ),
            "largest_gap_bytes": max(abs(gap) for gap in gaps) if gaps else 0,
            "target": TARGET,
            "met": len(rows) >= TARGET and n_equal == len(rows),
            "rows": [asdict(row) for row in rows],
        },
    )


def _endpoints(build: RpcBuild | VulkanBuild, stack: ExitStack) -> tuple[str, ...]:
    """Start RPC servers; Vulkan's devices need none."""
    if isinstance(build, VulkanBuild):
        return ()
    return tuple(stack.enter_context(build.serving()).endpoint for _ in DEVICES)


def _models(folder: Path) -> Iterator[tuple[str, Path]]:
    for kind, write in KINDS.items():
        path = folder / f"{kind}.gguf"
        write(path)
        yield kind, path
    for arch, write_mtp in WRITERS.items():
        path = folder / f"{arch}-mtp.gguf"
        write_mtp(Tiny(), path)
        yield f"{arch} {_MTP}", path


def _placements(
    path: Path, folder: Path, rpc: tuple[str, ...], *, mtp: bool
) -> Iterator[Placement]:
    """Placements of one model; the first half is of the target, the rest of a draft as well."""
    target = ModelOptions(path=path, devices=Devices(rpc=rpc), mmap=False)
    of_target = _of_layers(target) | _of_tensors(target)
    for name, options in of_target.items():
        yield Placement(name=name, target=options, draft=None)
    in_ram, alone = replace(CONTEXT, kv_offload=False), replace(CONTEXT, op_offload=False)
    yield Placement(name="-nkvo", target=target, draft=None, context=in_ram)
    yield Placement(
        name="--no-op-offload -ngl 1", target=of_target["-ngl 1"], draft=None, context=alone
    )
    if mtp:
        return
    draft = replace(target, path=folder / "draft.gguf")
    write_tiny(Tiny(noise=0.1), draft.path)
    for name, options in _of_draft(draft).items():
        yield Placement(name=name, target=of_target["-ngl 2"], draft=options)


def _on(model: ModelOptions, **values: object) -> ModelOptions:
    return replace(model, devices=replace(model.devices, **values))  # type: ignore[arg-type] # its fields' values


def _two_devices(model: ModelOptions) -> tuple[str, str]:
    return ("RPC0", "RPC1") if model.devices.rpc else DEVICES


def _of_layers(target: ModelOptions) -> dict[str, ModelOptions]:
    one, other = _two_devices(target)
    return {
        "all layers": target,
        "-ngl 0": replace(target, n_gpu_layers=0),
        "-ngl 1": replace(target, n_gpu_layers=1),
        "-ngl 2": replace(target, n_gpu_layers=2),
        "-ts 1,0": _on(target, split=(1.0, 0.0)),
        "-ts 1,3": _on(target, split=(1.0, 3.0)),
        f"-dev {other}": _on(target, names=(other,)),
        f"-dev {other},{one}": _on(target, names=(other, one)),
        "-dev none": _on(target, names=()),
        "-sm none -mg 1": _on(target, split_mode=SplitMode.NONE, main=1),
    }


def _of_tensors(target: ModelOptions) -> dict[str, ModelOptions]:
    def override(pattern: str, memory: str) -> ModelOptions:
        return replace(target, override_tensor=(TensorOverride(pattern=pattern, buffer=memory),))

    rpc = target.devices.rpc
    first, second = (f"RPC0[{endpoint}]" for endpoint in rpc) if rpc else DEVICES
    return {
        "-ot exps=CPU": override("exps", "CPU"),
        "-ot ffn=first": override("ffn", first),
        "-ot attn=second": override("attn", second),
        "--cpu-moe": replace(target, cpu_moe=True),
        "--n-cpu-moe 1": replace(target, n_cpu_moe=1),
        "-ctk q8_0 -ctv q8_0": replace(target, cache_type_k="q8_0", cache_type_v="q8_0"),
        "mapped": replace(target, mmap=True),
        "mapped, --cpu-moe": replace(target, mmap=True, cpu_moe=True),
    }


def _of_draft(draft: ModelOptions) -> dict[str, ModelOptions]:
    _, other = _two_devices(draft)
    return {
        f"-devd {other}": _on(draft, names=(other,)),
        "-devd none": _on(draft, names=()),
        "-ngld 1": replace(draft, n_gpu_layers=1),
    }


def compared(planner: Planner, kind: str, placement: Placement) -> Comparison:
    """Plan a placement, allocate it, and free it again."""
    request = PlanRequest(
        target=placement.target,
        draft=placement.draft,
        context=placement.context,
        max_draft=MAX_DRAFT,
        mtp=_MTP in kind,
    )
    planned = planned_bytes(planner.plan(request).buffers)
    real: Bytes = sum((one.exact for one in allocate(request) if one is not None), Counter())
    names = _names(placement.target.devices)
    gaps = {
        f"{names.get(memory, memory)} {use}": planned[memory, use] - real[memory, use]
        for memory, use in planned | real
        if memory != _MAPPED and planned[memory, use] != real[memory, use]
    }
    return Comparison(
        model=kind,
        placement=placement.name,
        planned_bytes=_by_memory(planned, names),
        allocated_bytes=_by_memory(real, names),
        gaps_bytes=gaps,
    )


def _names(devices: Devices) -> dict[str, str]:
    """Short names of the devices, in the order of ``--rpc``: ports differ from run to run."""
    return {f"RPC0[{endpoint}]": f"RPC{number}" for number, endpoint in enumerate(devices.rpc)}


def _by_memory(found: Bytes, names: Mapping[str, str]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for (memory, _use), n_bytes in found.items():
        sizes[names.get(memory, memory)] += n_bytes
    return dict(sorted(sizes.items()))


if __name__ == "__main__":
    main()
