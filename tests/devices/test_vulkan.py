"""Vulkan's software driver under the commands: plans, placements, drafts, a real llama-server."""

import json
import re
from typing import Any

import pytest

from tests.devices.conftest import Bench, counts, finish
from tests.support.rounds import first_alone
from tests.support.vulkan import DEVICES

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.device, pytest.mark.ci]

FIRST, SECOND = DEVICES
RUN = ["-n", 24, "--temp", 0, "--ignore-eos", "--quiet", "--json", "-"]
_BUFFER = re.compile(r"(\S+) +(?:model|KV|compute) buffer size = +([\d.]+)")

PLANS = """
import json, sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ContextOptions, Devices, ModelOptions, TensorOverride
from tests.support.allocation import allocate, planned_bytes

target, draft = (ModelOptions(path=Path(path), mmap=False) for path in sys.argv[1:3])
context = ContextOptions(ctx_size=1024, ubatch_size=128, threads=1)
first, second = (Devices(names=(name,)) for name in ("Vulkan0", "Vulkan1"))
experts = (TensorOverride(pattern="exps", buffer="CPU"),)
rows = {
    "-dev": (replace(target, devices=first), None, context),
    "-ngl 1": (replace(target, devices=first, n_gpu_layers=1), None, context),
    "-ngl 0": (replace(target, devices=first, n_gpu_layers=0), None, context),
    "-ot exps=CPU": (replace(target, devices=first, override_tensor=experts), None, context),
    "--cpu-moe": (replace(target, devices=first, cpu_moe=True), None, context),
    "-nkvo": (replace(target, devices=first), None, replace(context, kv_offload=False)),
    "-ts 0,1": (replace(target, devices=Devices(split=(0.0, 1.0))), None, context),
    "-devd": (replace(target, devices=first), replace(draft, devices=second), context),
    "-devd none": (
        replace(target, devices=first), replace(draft, devices=Devices(names=())), context,
    ),
}
found = {}
with Planner() as planner:
    for name, (of_target, of_draft, with_context) in rows.items():
        request = PlanRequest(target=of_target, draft=of_draft, context=with_context, max_draft=8)
        planned = planned_bytes(planner.plan(request).buffers)
        real = sum((one.exact for one in allocate(request) if one is not None), Counter())
        found[name] = [{" ".join(key): n for key, n in each.items()} for each in (planned, real)]
print(json.dumps(found))
"""
"""Plans placements, and carries them out, in one process."""


def document(bench: Bench, *arguments: object) -> dict[str, Any]:
    ended = bench(*arguments)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_what_is_planned_is_what_is_allocated(on_vulkan: Bench) -> None:
    doctor = document(on_vulkan, "doctor", *on_vulkan.pair(), "-ot", "exps=CPU", "--json", "-")
    assert [gpu["name"] for gpu in doctor["gpus"]] == [FIRST, SECOND]
    assert all("llvmpipe" in gpu["description"] for gpu in doctor["gpus"])
    assert set(doctor["free_bytes"]) == {FIRST, SECOND, "CPU"}
    with on_vulkan.python("-c", PLANS, on_vulkan.target, on_vulkan.draft) as process:
        ended = finish(process)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert len(found) == 9
    for name, (planned, allocated) in found.items():
        gaps = {key: allocated[key] - planned[key] for key in planned | allocated}
        # The backend's buffers in RAM are 32 bytes larger than llama.cpp's plan: for alignment.
        extra = {key: gap for key, gap in gaps.items() if gap}
        assert all(key.startswith("Vulkan_Host ") for key in extra), name
        assert all(gap in {32, 64} for gap in extra.values()), name
    assert found["-devd"][1][f"{SECOND} weights"] > 0


PLACEMENTS: dict[str, tuple[list[object], set[str]]] = {
    "draft on the other device": (["-dev", FIRST, "-devd", SECOND], {FIRST, SECOND}),
    "draft on none": (["-dev", SECOND, "-devd", "none"], {SECOND}),
    "layers on both": (["-ts", "1,1"], {FIRST, SECOND}),
    "experts in RAM": (["-dev", FIRST, "-devd", FIRST, "-ot", "exps=CPU"], {FIRST}),
}


@pytest.mark.parametrize("name", first_alone(PLACEMENTS))
def test_a_bench_decodes_where_it_was_placed_and_loses_nothing(on_vulkan: Bench, name: str) -> None:
    placement, wanted = PLACEMENTS[name]
    ended = on_vulkan(
        *("bench", *on_vulkan.pair(), *placement, *RUN, "--verbose"),
        *("--prompts", on_vulkan.prompts),
    )
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["lossless"] is True
    assert found["speculative"]["n_accepted"] > 0
    used = {device for device, mib in _BUFFER.findall(ended.err) if float(mib)}
    assert used & set(DEVICES) == wanted


@pytest.mark.long
def test_a_real_server_keeps_what_the_engine_promises(on_vulkan: Bench) -> None:
    found = document(
        on_vulkan,
        *("verify", *on_vulkan.pair(), "-dev", FIRST, "-devd", SECOND, "--spec-draft-n-max", 4),
        *("--server-bin", on_vulkan.server_bin, *RUN, "--prompts", on_vulkan.prompts),
    )
    assert counts(found["delivered"]) == counts(found["promised"])
