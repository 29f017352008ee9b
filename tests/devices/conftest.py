"""Commands on RPC servers and on Vulkan's software driver, as fixtures."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spectui.llama.rpc import connected
from tests.support.models import Tiny, TinyPath
from tests.support.rpc import RpcBuild, RpcServer, rpc_build
from tests.support.vulkan import VulkanBuild, vulkan_build

MOE = Tiny(n_experts=4)
CLOSE = Tiny(n_experts=4, noise=0.02)
_TIMEOUT_S = 240.0
"""Limit for a command: one that waits for a server for ever fails."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Bench:
    """Commands on devices, each in a process of its own."""

    def __init__(
        self, build: RpcBuild | VulkanBuild, home: Path, models: tuple[Path, Path]
    ) -> None:
        self.build = build
        self.home = home
        self.target, self.draft = models
        self.environment = {**build.environment, "SPECTUI_HOME": str(home), "PYTHONUNBUFFERED": "1"}
        self.prompts = home / "prompts.txt"
        self.prompts.write_text("The quick brown fox jumps over the lazy dog\n")

    @property
    def server_bin(self) -> Path:
        """A llama-server with these devices."""
        return self.build.llama_server(self.home)

    def spawn(self, *arguments: object) -> AbstractContextManager["subprocess.Popen[str]"]:
        """Start a command, which ends in every case."""
        return self.python("-m", "spectui", *arguments)

    @contextmanager
    def python(self, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
        """Start Python, which ends in every case."""
        with subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def __call__(self, *arguments: object) -> Ended:
        """Run a command to its end."""
        with self.spawn(*arguments) as process:
            return finish(process)

    def pair(self, *servers: RpcServer) -> list[object]:
        """Options of target and draft on the devices of servers, or on those of this machine."""
        rpc = ["--rpc", ",".join(server.endpoint for server in servers)] if servers else []
        return ["-m", self.target, "-md", self.draft, *rpc, "-c", 1024, "-t", 1]


def finish(process: "subprocess.Popen[str]") -> Ended:
    """Wait for the end of a command."""
    out, err = process.communicate(timeout=_TIMEOUT_S)
    return Ended(code=process.returncode, out=out, err=err)


@pytest.fixture(scope="session")
def build() -> RpcBuild:
    """The RPC build; in CI it must be there, elsewhere its tests are skipped."""
    found = rpc_build()
    if found is None:
        pytest.skip("run `python tools/build_llama_server.py` with `rpc` and with `server`")
    return found


@pytest.fixture
def bench(build: RpcBuild, tmp_path: Path, tiny: TinyPath) -> Bench:
    return Bench(build, tmp_path, (tiny(MOE), tiny(CLOSE)))


@pytest.fixture
def on_vulkan(tmp_path: Path, tiny: TinyPath) -> Bench:
    """Commands on Vulkan devices; where there are none, CI included, its tests are skipped."""
    found = vulkan_build()
    if found is None:
        pytest.skip("no Vulkan device: run `python tools/build_llama_server.py vulkan`")
    return Bench(found, tmp_path, (tiny(MOE), tiny(CLOSE)))


Start = Callable[[], RpcServer]


@pytest.fixture
def start(build: RpcBuild) -> Iterator[Start]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(build.serving())


@pytest.fixture
def occupied() -> Iterator[Callable[[RpcServer], object]]:
    """Makes a server serve somebody else."""
    with ExitStack() as stack:
        yield lambda server: stack.callback(connected(server.endpoint).close)


_PLANS = """
import json, sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ContextOptions, Devices, ModelOptions, TensorOverride
from tests.support.allocation import KINDS, allocate, planned_bytes
from tests.support.architectures import WRITERS
from tests.support.models import Tiny

context = ContextOptions(ctx_size=1024, ubatch_size=128, threads=1)
def place(path, **options):
    return ModelOptions(path=Path(path), mmap=False, **options)
{requests}
found = {{}}
with Planner(rpc=rpc) as planner:
    for name, request in requests.items():
        plan = planner.plan(replace(request, max_draft=8))
        real = sum((one.exact for one in allocate(replace(request, max_draft=8)) if one), Counter())
        sides = (planned_bytes(plan.buffers), real)
        found[name] = [{{" ".join(key): n for key, n in one.items()}} for one in sides]
print(json.dumps(found))
"""
"""Plans placements, and carries them out, in one process."""


def planned_and_allocated(bench: Bench, requests: str, *arguments: object) -> dict[str, Any]:
    """Bytes of plans and of loads, by the name of a request."""
    with bench.python("-c", _PLANS.format(requests=requests), *arguments) as process:
        ended = finish(process)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def document(bench: Bench, *arguments: object) -> dict[str, Any]:
    """The JSON of a command."""
    ended = bench(*arguments)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


RUN = ["-n", 24, "--temp", 0, "--ignore-eos", "--quiet", "--json", "-"]
_BUFFER = re.compile(r"(\S+) +(?:model|KV|compute) buffer size = +([\d.]+)")


def devices_of_bench(bench: Bench, *options: object) -> set[str]:
    """Where a bench has buffers, which has to lose nothing."""
    ended = bench("bench", *options, *RUN, "--verbose", "--prompts", bench.prompts)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["lossless"] is True
    assert found["speculative"]["n_accepted"] > 0
    return {device for device, mib in _BUFFER.findall(ended.err) if float(mib)}


def counts(found: dict[str, Any]) -> tuple[int, int, int]:
    """What has to be equal of two results, however long they took."""
    done = found["speculative"]
    return done["n_tokens"], done["n_drafted"], done["n_accepted"]
