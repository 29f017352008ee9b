"""``spectui doctor``: what it says of a machine, of pairs that work, and of those that do not."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.doctor.examination import try_draft
from spectui.doctor.findings import hard_to_win
from spectui.doctor.speed import SpeedBound, fastest_gpu_bytes_per_s, speed_bound
from spectui.engine.demand import FreeMemory
from spectui.errors import UsageError
from spectui.llama.buffers import DeviceMemory
from spectui.llama.planned import Plan, PlanRequest
from spectui.models.weights import WeightTraffic
from tests.support.architectures import write_glm4moe, write_mamba
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, MOE, N_CTX_TRAIN, TARGET, Tiny, TinyPath
from tests.support.nvml import StandIn
from tests.support.plans import BAD, GOOD, HUGE, ODD, OTHER, REQUEST, Script, room

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.cli_fixtures",
    "tests.support.nvml_fixtures",
]
pytestmark = pytest.mark.slow

GIGA = 1_000_000_000
DENSE = WeightTraffic(
    cpu_dense_bytes=10 * GIGA,
    cpu_expert_bytes=0,
    gpu_dense_bytes=0,
    gpu_expert_bytes=0,
    n_experts=0,
    n_experts_used=0,
)
EXPERTS = replace(
    DENSE, cpu_dense_bytes=GIGA, cpu_expert_bytes=64 * GIGA, n_experts=64, n_experts_used=1
)
RAM = 50.0 * GIGA
"""Bytes per second."""


def bound(traffic: WeightTraffic, gpu_bytes_per_s: float | None = None) -> SpeedBound:
    found = speed_bound(traffic, RAM, gpu_bytes_per_s)
    assert found is not None
    return found


def test_a_target_is_bound_by_its_bytes() -> None:
    dense = bound(DENSE)
    assert dense.tokens_per_s == pytest.approx(5.0)
    assert set(dense.verify.values()) == {1.0}
    experts = bound(EXPERTS)
    assert experts.token_s == pytest.approx(2 / 50)
    # Two tokens touch 1 - (63/64)^2 of the experts.
    assert experts.verify[1] == pytest.approx((1 + 64 * (1 - (63 / 64) ** 2)) / 2)


def test_weights_in_a_memory_of_unknown_speed_have_no_bound() -> None:
    on_gpu = replace(EXPERTS, cpu_dense_bytes=0, gpu_dense_bytes=GIGA)
    assert speed_bound(on_gpu, RAM) is None
    assert bound(on_gpu, 1000.0 * GIGA).token_s == pytest.approx(1 / 50 + 1 / 1000)
    assert speed_bound(replace(DENSE, cpu_dense_bytes=0, gpu_dense_bytes=GIGA), RAM) is None
    assert speed_bound(DENSE, None) is None


@pytest.mark.parametrize(
    ("target", "draft_bytes", "alpha", "if_perfect", "begin"),
    [
        # One token: (1 + alpha) / (0.1 + 1) is 1 at 0.1, and no longer draft needs less.
        (DENSE, GIGA, 0.1, 17 / 2.6, "None"),
        (DENSE, 8 * GIGA, 0.8, 17 / 13.8, "has to be right nearly always: a step takes 80 %"),
        (DENSE, 10 * GIGA, None, 1.0, "cannot pay by bandwidth"),
        # Experts at random make two tokens read 1.5 times as much as one.
        (EXPERTS, GIGA * 6 // 5, None, 17 / 10.6, "pays only where neighbouring tokens share"),
        (EXPERTS, 2 * GIGA, None, 1.0, "cannot pay by bandwidth"),
    ],
    ids=["cheap", "hard", "as large", "beside experts", "hopeless"],
)
def test_a_draft_pays_from_the_acceptance_on_at_which_it_wins_back_its_steps(
    *, target: WeightTraffic, draft_bytes: int, alpha: float | None, if_perfect: float, begin: str
) -> None:
    found = bound(target).draft_bound(replace(DENSE, cpu_dense_bytes=draft_bytes))
    assert found is not None
    assert found.break_even_alpha == (alpha if alpha is None else pytest.approx(alpha, abs=0.011))
    assert found.speedup_if_perfect == pytest.approx(if_perfect)
    assert str(hard_to_win(found)).startswith(begin)
    assert bound(DENSE).draft_bound(replace(DENSE, gpu_dense_bytes=1)) is None


def test_only_gpus_that_count_tell_their_speed(nvml: StandIn) -> None:
    for name, clock_mhz in ((b"Same", 1000), (b"Same", 2000), (b"Same", 9000), (b"Fast", 4000)):
        nvml.add_gpu(name=name, memory_clock_mhz=clock_mhz, memory_bits=256)
    gpu = DeviceMemory(name="CUDA0", description="Same", free_bytes=None, total_bytes=None)
    # Equal models, of which llama.cpp sees two, in another order than the driver.
    first, second, absent = (replace(gpu, id=f"0000:0{slot}:00.0") for slot in "21a")
    for gpus, clock_mhz in (([first, second], 2000), ([second], 1000)):
        # Two transfers per cycle of 32 bytes.
        assert fastest_gpu_bytes_per_s(gpus) == 2 * clock_mhz * 1e6 * 32
    # Nor does one whose address is not told.
    assert fastest_gpu_bytes_per_s([absent]) is fastest_gpu_bytes_per_s([gpu]) is None


def test_drafts_are_tried_beside_the_target() -> None:
    no_room = "beside the target, CUDA0 has no room: 1 MB are needed, 6 kB are free"
    for options, reason, is_planned, is_compatible, fits in (
        (GOOD, None, True, True, True),
        (HUGE, no_room, True, True, False),
        (BAD, "bad.gguf is no model", False, None, None),
        (OTHER, "token 7 differs", True, False, True),
        (ODD, "no context can be made for odd.gguf", False, None, None),
    ):
        found = try_draft(Script(), "d", replace(REQUEST, draft=options), room(CUDA0=6000))
        assert (found.options, found.reason) == (options, reason)
        assert (found.plan is not None, found.is_compatible, found.fits) == (
            *(is_planned, is_compatible),
            fits,
        )

    def refuse(_request: PlanRequest) -> Plan:
        raise UsageError("-ctk q9: unknown")

    # What is wrong with the target is no draft's fault.
    with pytest.raises(UsageError, match="-ctk q9"):
        try_draft(refuse, "d", replace(REQUEST, draft=GOOD), FreeMemory())


def document(spectui: Spectui, *arguments: object, code: int = 0) -> dict[str, Any]:
    assert spectui("doctor", *arguments, "--json", "-", "--quiet") == code, spectui.err
    found: dict[str, Any] = json.loads(spectui.out)
    assert found["schema"] == "spectui.doctor/1"
    assert list(unreasoned(found)) == []
    return found


def unreasoned(value: object, path: str = "") -> Iterator[str]:
    """Where a null has no reason beside it."""
    if isinstance(value, dict):
        for name, one in value.items():
            if one is None and not value.get(f"{name}_reason"):
                yield f"{path}.{name}"
            yield from unreasoned(one, f"{path}.{name}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            if one is None:
                yield f"{path}[{index}]"
            yield from unreasoned(one, f"{path}[{index}]")


def texts(found: dict[str, Any], severity: str) -> list[str]:
    return [one["text"] for one in found["findings"] if one["severity"] == severity]


def test_mtp_layers_are_a_draft_that_a_target_brings(spectui: Spectui, tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    write_glm4moe(Tiny(), target)
    found = document(spectui, "-m", target, "-c", 256)
    (draft,), (memory,) = found["drafts"], found["memory"]
    assert (draft["name"], found["draft"], draft["path"]) == (*["draft-mtp"] * 2, str(target))
    assert (draft["compatible"], draft["fits"]) == (True, True)
    assert found["target"]["mtp_layers"] == 1
    alone = document(spectui, "-m", target, "-c", 256, "--spec-type", "draft-simple")
    assert alone["drafts"] == []
    assert alone["memory"][0]["allocated_bytes"] < memory["allocated_bytes"]
    assert spectui("doctor", "-m", target, "-c", 256) == 0
    assert "the target's own 1 layer for multi-token prediction" in spectui.out


def test_llama_cpp_is_loaded_by_its_children_alone(tiny: TinyPath) -> None:
    given = ["spectui", "doctor", "--quiet", "-m", str(tiny(TARGET)), "-md", str(tiny(CLOSE_DRAFT))]
    code = (
        f"import sys; from spectui.cli import main; sys.argv = {given}\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('llama_cpp', 'optuna', 'textual') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Findings" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_mtp_layers_that_were_asked_for_and_are_not_there_are_an_error(
    spectui: Spectui, tiny: TinyPath
) -> None:
    asked = ("-m", tiny(TARGET), "-c", 256, "--spec-type", "draft-mtp")
    found = document(spectui, *asked, code=3)
    assert [one["compatible"] for one in found["drafts"]] == [None]
    (error,) = texts(found, "error")
    assert "cannot draft with MTP layers" in error
    assert "cannot draft with MTP layers" in spectui.err


def test_it_fits_the_terminal(
    spectui: Spectui, tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        assert spectui("doctor", "-m", tiny(MOE), "-md", tiny(CLOSE_DRAFT), "-c", 256) == 0
        # The next step stays on one line where nobody reads it on a terminal.
        *lines, _next_step = spectui.out.splitlines()
        assert [one for one in lines if len(one) > width and " " in one.strip()] == []
        assert "Memory" in spectui.out


def test_what_costs_is_warned_of_and_what_would_end_llama_server_cannot_serve(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path
) -> None:
    recurrent = tmp_path / "mamba.gguf"
    write_mamba(TARGET, recurrent)
    found = document(spectui, "-m", tiny(TARGET), "-md", recurrent, "-c", 256, code=3)
    assert found["drafts"][0]["compatible"] is False
    (error,) = texts(found, "error")
    assert "it would abort" in error
    # Both are saved and restored together.
    found = document(spectui, "-m", recurrent, "-md", recurrent, "-c", 256)
    assert found["drafts"][0]["compatible"] is True
    options = ("-m", recurrent, "-md", tiny(CLOSE_DRAFT))
    found = document(spectui, *options, "-c", 2 * N_CTX_TRAIN)
    assert found["target"]["rollback"] == "checkpoint"
    warnings = " ".join(texts(found, "warning"))
    assert f"the target was trained for {N_CTX_TRAIN:,} tokens" in warnings
    assert "llama-server uses no more" in warnings
