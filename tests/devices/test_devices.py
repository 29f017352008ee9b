"""Real RPC devices under the commands: placements, plans, exports, servers."""

import json
import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from spectui.server.process import LlamaServer
from tests.devices.conftest import (
    RUN,
    Bench,
    Start,
    counts,
    devices_of_bench,
    document,
    planned_and_allocated,
)
from tests.support.architectures import WRITERS
from tests.support.models import Tiny, vocabulary, write_tiny
from tests.support.rounds import first_alone
from tests.support.rpc import Held, small_device

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.device, pytest.mark.ci]


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 8])
def test_the_doctor_plans_on_every_device_and_measures_its_link(
    bench: Bench, start: Start, n: int
) -> None:
    servers = [start() for _ in range(n)]
    found = document(bench, "doctor", *bench.pair(*servers), "-ot", "exps=CPU", "--json", "-")
    names = [f"RPC0[{server.endpoint}]" for server in servers]
    assert [gpu["name"] for gpu in found["gpus"]] == names
    assert set(found["free_bytes"]) == {*names, "CPU"}
    text = bench("doctor", *bench.pair(*servers), "-ot", "exps=CPU")
    assert text.code == 0, text.err
    listed = [f"RPC{number}: {server.endpoint}, " for number, server in enumerate(servers)]
    assert all(one in text.out for one in listed)


PLACEMENTS: dict[str, tuple[list[object], set[int]]] = {
    "all experts in RAM": (["--cpu-moe", "--cpu-moe-draft"], {0, 1}),
    "draft on the other device": (["-dev", "RPC0", "-devd", "RPC1"], {0, 1}),
    "draft on none": (["-dev", "RPC1", "-devd", "none"], {1}),
    "all on the second": (["-ts", "0,1"], {1}),
    "one device": (["-sm", "none", "-mg", "1"], {1}),
    "no layers": (["-ngl", "0", "-ngld", "0", "--no-op-offload"], set()),
}


@pytest.mark.parametrize("name", first_alone(PLACEMENTS))
def test_a_bench_decodes_where_it_was_placed_and_loses_nothing(
    bench: Bench, start: Start, name: str
) -> None:
    placement, wanted = PLACEMENTS[name]
    servers = [start(), start()]
    used = devices_of_bench(bench, *bench.pair(*servers), *placement)
    names = {f"RPC0[{servers[number].endpoint}]" for number in wanted}
    assert used - {"CPU", "CPU_Mapped"} == names


SERVED: dict[str, list[object]] = {
    "bench": [],
    "tune": ["--trials", 2],
    "sweep": ["--spec-draft-n-max", "2,3"],
}


@pytest.mark.long
@pytest.mark.parametrize("command", SERVED)
def test_llama_servers_take_turns_on_devices_that_serve_one_client(
    bench: Bench, start: Start, command: str
) -> None:
    pair, served = bench.pair(start()), ["--backend", "server", "--server-bin", bench.server_bin]
    run = ["-n", 16, "--temp", 0, "--ignore-eos", "--prompts", bench.prompts]
    ended = bench(command, *pair, *served, *run, *SERVED[command])
    assert ended.code == 0, ended.err
    assert "one llama-server at a time" in ended.err


DRAFT_OUTPUTS_BYTES = 32 * len(vocabulary(Tiny())) * 4
CONFIRMED: dict[str, tuple[bool, list[str]]] = {
    "layers": (False, ["-ngl", "2", "-ngld", "1"]),
    "experts": (False, ["-ngl", "99", "-ot", "exps=CPU", "-ts", "1,3"]),
    "attention": (False, ["-ngl", "99", "-ot", "attn=RPC0[SECOND]", "--cpu-moe-draft"]),
    "layers with MTP": (True, ["-ngl", "2"]),
    "tensors with MTP": (True, ["-ngl", "99", "-ot", "ffn=CPU", "-ts", "1,2"]),
}


@pytest.mark.parametrize("name", first_alone(CONFIRMED))
def test_the_server_counts_alike_and_allocates_what_was_planned(
    bench: Bench, start: Start, name: str
) -> None:
    has_mtp, placement = CONFIRMED[name]
    models = ["-m", str(bench.target), "-md", str(bench.draft), "--spec-type", "draft-simple"]
    if has_mtp:
        WRITERS["qwen35"](Tiny(), bench.home / "mtp.gguf")
        models = ["-m", str(bench.home / "mtp.gguf"), "--spec-type", "draft-mtp"]
    held: list[Held] = [{}, {}]
    with ExitStack() as stack:
        devices = (small_device(start().endpoint, 1 << 34, held=one) for one in held)
        rpc = [stack.enter_context(one) for one in devices]
        placement = [one.replace("SECOND", rpc[1]) for one in placement]
        arguments = [*models, "--rpc", ",".join(rpc), *placement, "-c", "1536", "-t", "1"]
        arguments += ["--spec-draft-n-max", "4", "-ub", "128"]
        command = shlex.join(["llama-server", *arguments])
        plan = document(bench, "doctor", "--from", command, "--draft-max", 4, "--json", "-")
        run = ("bench", "--from", command, *RUN, "--prompts", bench.prompts)
        here = document(bench, *run)
        found = document(bench, *run, "--backend", "server", "--server-bin", bench.server_bin)
        served = found["server"]["arguments"]["on"]
        with LlamaServer(bench.server_bin, served, log_path=bench.home / "server.log") as server:
            server.complete("The quick brown fox", n_predict=24)
            allocated = [sum(one.values()) for one in held]
    planned = {one["memory"]: one["allocated_bytes"] for one in plan["memory"]}
    gaps = [planned[f"RPC0[{rpc[n]}]"] - allocated[n] for n in range(2)]
    assert all(allocated)
    # Drafts of the engine have outputs for several tokens, those of a server for one.
    assert all(0 <= gap < DRAFT_OUTPUTS_BYTES for gap in gaps)
    if not has_mtp:
        assert counts(found) == counts(here)


_WEIGHTS = re.compile(r"(\S+) +model buffer size = +([\d.]+)")


@pytest.mark.long
def test_a_search_moves_experts_for_drafts_and_its_command_places_what_was_measured(
    bench: Bench, start: Start
) -> None:
    recipes = {
        "target": Tiny(n_layers=6, n_experts=8),
        "close": Tiny(n_layers=6, n_experts=8, noise=0.02),
        "huge": Tiny(n_layers=48),
    }
    paths = {name: bench.home / f"{name}.gguf" for name in recipes}
    for name, recipe in recipes.items():
        write_tiny(recipe, paths[name])
    prompts = bench.home / "prompts.jsonl"
    prompts.write_text(
        "".join(
            json.dumps({"id": str(n), "category": "chat", "prompt": f"The fox {n}"}) + "\n"
            for n in range(6)
        )
    )
    with ExitStack() as stack:
        devices = (small_device(start().endpoint, 5_000_000) for _ in range(2))
        rpc = ",".join(stack.enter_context(one) for one in devices)
        models = ["-m", paths["target"], "-md", paths["close"], "-md", paths["huge"]]
        sizes = ["--rpc", rpc, "-ts", "1,1", "-c", 1024, "-ub", 64, "-t", 1, "--fit-target", 0]
        search = ["--trials", 2, "--tune", "n_cpu_moe", "--spec-type", "draft-simple"]
        # All places are as fast here, whatever the clock says.
        search += ["--min-gain", 9]
        run = ["-n", 8, "--ignore-eos", "--prompts", prompts]
        ended = bench("tune", *models, *sizes, *search, *run, "--verbose", "--json", "-")
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
        again = bench("bench", "--from", found["best_command"], *run, "--quiet", "--verbose")
        assert again.code == 0, again.err
    reasons = {one["name"]: one["reason"] or "" for one in found["drafts"]}
    assert "does not fit beside the target even with the experts of all" in reasons["huge"]
    assert found["layouts"]["alone"]["n_cpu_moe"] == 0
    n_moved = found["layouts"]["beside"]["close"]["n_cpu_moe"]
    assert 0 < n_moved <= 6
    # Nothing is nearly full: all that is to stay free does.
    assert "stay free" not in ended.err
    assert f"--n-cpu-moe {n_moved}" in found["best_command"]
    assert "-ts 1,1" in found["best_command"]
    # Two models, each on both devices and in RAM, as they were measured.
    weights = set(_WEIGHTS.findall(again.err))
    assert len(weights) >= 4
    assert weights <= set(_WEIGHTS.findall(ended.err))


@pytest.mark.long
def test_fit_lays_the_target_out_without_a_draft_and_beside_each(
    bench: Bench, start: Start
) -> None:
    target, draft = (bench.home / f"{name}.gguf" for name in ("fitted", "close"))
    write_tiny(Tiny(n_layers=6, n_experts=8), target)
    write_tiny(Tiny(n_layers=6, n_experts=8, noise=0.02), draft)
    with ExitStack() as stack:
        rpc = stack.enter_context(small_device(start().endpoint, 9_000_000))
        models = ["-m", target, "-md", draft, "--spec-type", "draft-simple"]
        sizes = ["--rpc", rpc, "-c", 1024, "-ub", 64, "-t", 1, "--fit-target", 0]
        run = ["-n", 8, "--ignore-eos", "--prompts", bench.prompts, "--min-gain", 9]
        ended = bench("tune", *models, *sizes, *run, "--verbose", "--json", "-")
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
    alone, beside = found["layouts"]["alone"], found["layouts"]["beside"]["close"]
    assert f"{alone['text']} without a draft; {beside['text']} beside close" in ended.err
    assert len(beside["override_tensor"]) > len(alone["override_tensor"])
    assert found["baseline"]["params"]["layout"] == alone["text"]
    drafted = [one for one in found["finalists"] if one["params"]["draft"] == "close"]
    assert all(one["params"]["layout"] == beside["text"] for one in drafted)
    # A server with the same models chooses the same by itself.
    assert "-ngl" not in found["command"]
    assert "-ot" not in found["command"]


PLANNED = """
folder, *rpc = sys.argv[1:]
attention = TensorOverride(pattern="attn", buffer=f"RPC0[{rpc[1]}]")
split, rpc = Devices(rpc=tuple(rpc), split=(1.0, 3.0)), tuple(rpc)
requests = {}
for kind in ("lfm2", "window", "qwen35"):
    path = Path(folder, kind)
    KINDS[kind](path) if kind in KINDS else WRITERS[kind](Tiny(), path)
    for target in (
        place(path, devices=split),
        place(path, devices=Devices(rpc=rpc), override_tensor=(attention,)),
    ):
        for offload in (True, False):
            requests[f"{len(requests)} {kind}"] = PlanRequest(
                target=target, context=replace(context, kv_offload=offload), mtp=kind in WRITERS
            )
"""


def test_a_plan_on_two_devices_is_what_is_allocated_to_the_byte(
    bench: Bench, start: Start, tmp_path: Path
) -> None:
    endpoints = [start().endpoint for _ in range(2)]
    found = planned_and_allocated(bench, PLANNED, tmp_path, *endpoints)
    assert len(found) == 12
    for name, (planned, allocated) in found.items():
        assert planned == allocated, name
