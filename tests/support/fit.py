"""What ``--fit`` chooses on devices of any size: the real llama-server's log, and the engine's."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from spectui.engine.planning import Planner, fitted
from spectui.llama.log import native_log
from spectui.llama.model import Model
from spectui.llama.planned import Fitted, PlanRequest
from tests.support.rpc import RpcBuild, small_device

_LAYER = re.compile(r"load_tensors: layer +\d+ assigned to device (\S+),")
_ELSEWHERE = re.compile(r"tensor (\S+) \(.*\) buffer type overridden to (\S+)")
_FITTED = "fitting params to free memory took"
_PLACED = "load_tensors: offloaded"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A placement as llama.cpp loads it."""

    layers: tuple[str, ...]
    """Device of each layer, the output's last."""
    elsewhere: frozenset[tuple[str, str]]
    """Tensors that are not with their layer, and where they are."""


def _chosen(text: str) -> Chosen:
    return Chosen(layers=tuple(_LAYER.findall(text)), elsewhere=frozenset(_ELSEWHERE.findall(text)))


@contextmanager
def small_devices(build: RpcBuild, sizes: Sequence[int]) -> Iterator[tuple[str, ...]]:
    with ExitStack() as stack:
        real = [stack.enter_context(build.serving()).endpoint for _ in sizes]
        pairs = zip(real, sizes, strict=True)
        yield tuple(stack.enter_context(small_device(*pair)) for pair in pairs)


def server_chooses(
    binary: Path, arguments: Sequence[str], endpoints: Sequence[str], *, n_slots: int = 1
) -> Chosen:
    """Start a llama-server, and end it once it has placed its target."""
    rpc = ["--rpc", ",".join(endpoints)] if endpoints else []
    command = [str(binary), *rpc, *arguments]
    command += ["-np", str(n_slots), "-lv", "5", "--port", "0"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            lines = (line.decode(errors="replace") for line in process.stderr)
            _until(lines, _FITTED)
            loading = _until(lines, _PLACED)
        finally:
            process.kill()
    return _chosen(loading)


def _until(lines: Iterator[str], end: str) -> str:
    """The lines up to one that has ``end`` in it."""
    seen = []
    for line in lines:
        seen.append(line)
        if end in line:
            return "".join(seen)
    raise AssertionError("".join(seen[-20:]))


def engine_chooses(request: PlanRequest) -> tuple[Fitted, Chosen]:
    """Fit as the engine does, and place the target in a process of its own."""
    with Planner(rpc=request.target.devices.rpc) as planner:
        found = fitted(planner, request, request.target.fit)
    assert found is not None
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        lines = pool.submit(_placed, replace(request, target=found.target)).result()
    return found, _chosen("\n".join(lines))


def _placed(request: PlanRequest) -> tuple[str, ...]:
    with Model(request.target, no_alloc=True, load_mtp=request.mtp):
        return native_log.tail()
