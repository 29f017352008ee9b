"""Vulkan's software driver under the commands: plans, placements, drafts, a real llama-server."""

import pytest

from tests.devices.conftest import (
    RUN,
    Bench,
    counts,
    devices_of_bench,
    document,
    planned_and_allocated,
)
from tests.support.rounds import first_alone
from tests.support.vulkan import DEVICES

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.device, pytest.mark.ci]

FIRST, SECOND = DEVICES
PLANS = """
target, draft, rpc = *(place(path) for path in sys.argv[1:3]), ()
first, second = (Devices(names=(name,)) for name in ("Vulkan0", "Vulkan1"))
experts = (TensorOverride(pattern="exps", buffer="CPU"),)
target = replace(target, devices=first)
plain = PlanRequest(target=target, context=context)
requests = {
    "-dev": plain,
    "-ngl 1": replace(plain, target=replace(target, n_gpu_layers=1)),
    "-ngl 0": replace(plain, target=replace(target, n_gpu_layers=0)),
    "-ot exps=CPU": replace(plain, target=replace(target, override_tensor=experts)),
    "--cpu-moe": replace(plain, target=replace(target, cpu_moe=True)),
    "-nkvo": replace(plain, context=replace(context, kv_offload=False)),
    "-ts 0,1": replace(plain, target=replace(target, devices=Devices(split=(0.0, 1.0)))),
    "-devd": replace(plain, draft=replace(draft, devices=second)),
    "-devd none": replace(plain, draft=replace(draft, devices=Devices(names=()))),
}
"""


def test_what_is_planned_is_what_is_allocated(on_vulkan: Bench) -> None:
    doctor = document(on_vulkan, "doctor", *on_vulkan.pair(), "-ot", "exps=CPU", "--json", "-")
    assert [gpu["name"] for gpu in doctor["gpus"]] == [FIRST, SECOND]
    assert all("llvmpipe" in gpu["description"] for gpu in doctor["gpus"])
    assert set(doctor["free_bytes"]) == {FIRST, SECOND, "CPU"}
    found = planned_and_allocated(on_vulkan, PLANS, on_vulkan.target, on_vulkan.draft)
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
    used = devices_of_bench(on_vulkan, *on_vulkan.pair(), *placement)
    assert used & set(DEVICES) == wanted


@pytest.mark.long
def test_a_real_server_counts_what_the_engine_counts(on_vulkan: Bench) -> None:
    placed = ("-dev", FIRST, "-devd", SECOND, "--spec-draft-n-max", 4)
    run = ("bench", *on_vulkan.pair(), *placed, *RUN, "--prompts", on_vulkan.prompts)
    served = ("--backend", "server", "--server-bin", on_vulkan.server_bin)
    assert counts(document(on_vulkan, *run, *served)) == counts(document(on_vulkan, *run))
