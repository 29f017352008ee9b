"""The guard on a device with memory of its own: a plan on a real RPC server decides to the byte."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import CLOSE_DRAFT, MOE, TinyPath
from tests.support.rpc import rpc_build

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
from pathlib import Path
from spectui.engine.driver import Engine
from spectui.engine.demand import FreeMemory
from spectui.engine.guard import Guard
from spectui.engine.planning import Planner
from spectui.errors import DoesNotFitError
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ContextOptions, Devices, ModelOptions

target, draft, endpoint = sys.argv[1:]
devices = Devices(rpc=(endpoint,))
request = PlanRequest(
    target=ModelOptions(path=Path(target), devices=devices),
    draft=ModelOptions(path=Path(draft), devices=devices),
    context=ContextOptions(ctx_size=512, threads=1),
)
with Planner(rpc=(endpoint,)) as planner:
    buffers = planner.plan(request).buffers
name = f"RPC0[{endpoint}]"
needed = sum(one.size_bytes for one in buffers if one.memory == name)

def why_not(n_bytes):
    free = FreeMemory(by_memory={name: n_bytes, "CPU": 1 << 40})
    try:
        Guard(lambda _gpus: free).check(request)
    except DoesNotFitError as error:
        return str(error)

found = {"needed": needed, "exact": why_not(needed), "short": why_not(needed - 1)}
# With the guard's own reading of the device.
with Engine() as engine:
    engine.load_target(request.target, request.context, max_draft=3, draft=request.draft)
    engine.load_draft(request.draft)
print(json.dumps(found))
"""


def test_a_pair_is_refused_for_a_byte_and_loaded_without(tiny: TinyPath) -> None:
    build = rpc_build()
    if build is None:
        pytest.skip("the RPC server is not built yet: run `tools/build_llama_server.py rpc`")
    with build.serving() as server:
        endpoint = server.endpoint
        found = run(build.environment, tiny(MOE), tiny(CLOSE_DRAFT), endpoint)
    assert found["needed"] > 0
    assert found["exact"] is None
    assert f"RPC0[{endpoint}] has no room" in str(found["short"])


def run(environment: dict[str, str], target: Path, draft: Path, endpoint: str) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(target), str(draft), endpoint]
    ended = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document
