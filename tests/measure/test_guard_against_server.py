"""What the real llama-server runs is not refused, and what it would have to allocate is."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from spectui.engine.demand import FreeMemory
from spectui.engine.guard import Guard
from spectui.engine.planning import Planner
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import BufferKind, parse_buffers
from spectui.llama.planned import PlanRequest
from spectui.measure.servers import Fleet
from spectui.options.drafters import DraftMtp, NgramSimple
from spectui.options.setup import ContextOptions, ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.server.binary import examine
from tests.support.allocation import KINDS, LOG_STEP_BYTES
from tests.support.architectures import write_qwen35
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, write_tiny
from tests.support.plans import room

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.server]

_STAMP = re.compile(r"^[\d. ]+ \w ", re.MULTILINE)
"""In front of every line of a server's log."""
_CONTEXT = re.compile(r"(?=llama_context: +\S+ +output buffer size)")
"""In front of the first buffer of a context."""
_VERBOSE = ("-lv", "5")

Make = Callable[[Path], Setup]


def pair(kind: str, *, draft: bool = True, n_ctx: int = 512, n_slots: int = 1) -> Make:
    def make(folder: Path) -> Setup:
        target = folder / "target.gguf"
        if kind == "mtp":
            write_qwen35(Tiny(), target)
        else:
            KINDS[kind](target)
        write_tiny(TARGET if kind == "llama" else CLOSE_DRAFT, folder / "draft.gguf")
        drafter = DraftMtp() if kind == "mtp" else None if draft else NgramSimple()
        return Setup(
            target=ModelOptions(path=target),
            draft=ModelOptions(path=folder / "draft.gguf") if draft else None,
            context=ContextOptions(ctx_size=n_ctx, threads=1),
            speculation=Speculation() if drafter is None else Speculation(drafter),
            extra=_VERBOSE,
            n_slots=n_slots,
        )

    return make


SETUPS = {
    "dense": pair("llama"),
    "dense, long": pair("llama", n_ctx=8192),
    "dense, slots": pair("llama", n_slots=4),
    "experts": pair("moe"),
    "window, slots": pair("window", draft=False, n_slots=3),
    "hybrid, slots": pair("lfm2", draft=False, n_slots=3),
    "mtp, slots": pair("mtp", draft=False, n_slots=2),
    "window": pair("window", draft=False),
    "hybrid": pair("lfm2", draft=False),
    "recurrent": pair("mamba", draft=False),
    "mtp": pair("mtp", draft=False),
}


def allocated_bytes(log: str, n_contexts: int) -> int:
    """What a server says that it has allocated, once its own plan of it was made."""
    text = _STAMP.sub("", log)
    weights = [one for one in parse_buffers(text.splitlines()) if one.kind is BufferKind.WEIGHTS]
    parts = _CONTEXT.split(text)[-n_contexts:]
    buffers = [one for part in parts for one in parse_buffers(part.splitlines())]
    buffers = [one for one in buffers if one.kind is not BufferKind.WEIGHTS] + weights
    assert len(buffers) > 2 * n_contexts
    return sum(one.size_bytes + round(LOG_STEP_BYTES) for one in buffers)


@pytest.mark.long
@pytest.mark.parametrize("make", SETUPS.values(), ids=SETUPS)
def test_a_pair_that_it_runs_is_not_refused(
    llama_server_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    setup = make(tmp_path)
    binary = examine(str(llama_server_binary))

    def fleet(free: FreeMemory | None) -> Fleet:
        guard = Guard if free is None else partial(Guard, lambda _gpus: free)
        monkeypatch.setattr("spectui.measure.servers.Guard", guard)
        return Fleet(binary, keeps_off=False, timeout_s=60.0, say=print)

    with fleet(None) as plenty:
        log = plenty.of(setup).printed
    needed = allocated_bytes(log, len(setup.models) + PlanRequest.of(setup).mtp)
    with fleet(room(CPU=needed)) as exact:
        assert exact.of(setup).complete("the tin", n_predict=4).n_predicted == 4
        assert exact.n_starts == 1
    with Planner() as planner:
        plan = planner.plan(PlanRequest.of(setup))
    own = sum(one.size_bytes for one in plan.buffers if not one.is_mapped)
    if setup.n_slots > 1:
        # As exact as the log is: it has hundredths of a MiB of every buffer.
        wanted = sum(one.size_bytes for one in plan.buffers)
        assert needed - wanted < 12 * LOG_STEP_BYTES
    with (
        fleet(replace(room(CPU=own - 1))) as short,
        pytest.raises(DoesNotFitError, match="RAM has no room"),
    ):
        short.of(setup)
    assert short.n_starts == 0
