"""Renders a diagnosis as text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from spectui.cli.doctor_memory import heading, memory_table, what_fits
from spectui.cli.doctor_models import draft_lines, target_lines
from spectui.cli.doctor_preset import preset_lines
from spectui.cli.drawing import drawn, wrapped
from spectui.doctor.findings import Finding
from spectui.format import bytes_text
from spectui.llama.buffers import HOST
from spectui.llama.planned import Backend
from spectui.severity import Severity

if TYPE_CHECKING:
    from spectui.cli.run_doctor import Diagnosis

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: ""}
_REBUILD = (
    'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-deps --no-cache-dir '
    "llama-cpp-python=={version}"
)


def told(diagnosis: "Diagnosis") -> str:
    """Render all sections of a diagnosis."""
    return drawn(*_parts(diagnosis))


def _parts(diagnosis: "Diagnosis") -> Iterator[RenderableType]:
    yield from _section("Machine", _machine(diagnosis))
    examination = diagnosis.examination
    if diagnosis.preset is not None:
        yield from _section(f"Preset {diagnosis.preset.name}", preset_lines(diagnosis.preset))
    if examination is None:
        return
    yield from _section("Target", target_lines(examination))
    has_experts = examination.traffic.n_experts > 0
    for draft in examination.drafts:
        yield from _section(f"Draft {draft.name}", draft_lines(draft, has_experts=has_experts))
    yield Text(heading(examination), style="bold")
    yield memory_table(examination)
    yield from _paragraphs(what_fits(examination))
    yield Text("")
    yield Text("Findings", style="bold")
    yield from (_finding(one) for one in diagnosis.findings)
    if not diagnosis.findings:
        yield Text("nothing speaks against it")


def _section(title: str, lines: Iterator[str | Text]) -> Iterator[RenderableType]:
    yield Text(title, style="bold")
    yield from _paragraphs(lines)
    yield Text("")


def _paragraphs(lines: Iterator[str | Text]) -> Iterator[RenderableType]:
    yield from (line if isinstance(line, Text) else Text(wrapped(line)) for line in lines)


def _machine(diagnosis: "Diagnosis") -> Iterator[str | Text]:
    machine, around, backend = diagnosis.machine, diagnosis.around, diagnosis.around.backend
    speed = around.bandwidth.ram_bytes_per_s
    read = "too full to measure its speed" if speed is None else f"read at {_speed_text(speed)}"
    memory = _free(machine.memory_bytes, around.free.by_memory.get(HOST))
    yield f"{machine.cpu}, {machine.n_cores} cores; RAM {memory}, {read}"
    for gpu in backend.gpus:
        part = ", a part of the RAM" if gpu.in_ram else ""
        yield f"{gpu.name}: {gpu.description}, {_free(gpu.total_bytes, gpu.free_bytes)}{part}"
    if not backend.gpus:
        seen = f"; the driver knows {', '.join(machine.gpus)}" if machine.gpus else ""
        yield f"no GPU that this llama.cpp can use{seen}"
    if machine.gpus and not backend.gpus:
        yield from _unused_gpus(backend)
    yield f"llama-cpp-python {backend.llama_cpp_python}, llama.cpp {backend.llama_cpp}"


def _unused_gpus(backend: Backend) -> Iterator[str | Text]:
    if backend.has_cuda:
        yield (
            "This llama.cpp was built with CUDA and finds no GPU: see whether CUDA_VISIBLE_DEVICES "
            "hides it, whether the driver is as new as the CUDA it was built with, and whether "
            "this user or container may open /dev/nvidia*"
        )
    else:
        yield "This llama.cpp was built without CUDA; build it anew:"
        # To be copied: a terminal may break it, we must not.
        command = _REBUILD.format(version=backend.llama_cpp_python)
        yield Text(command, no_wrap=True, overflow="ignore")


def _speed_text(bytes_per_s: float) -> str:
    return f"{bytes_text(round(bytes_per_s))}/s"


def _free(total_bytes: int | None, free_bytes: int | None) -> str:
    total = "of unknown size" if total_bytes is None else bytes_text(total_bytes)
    return total if free_bytes is None else f"{total}, {bytes_text(free_bytes)} free"


def _finding(one: Finding) -> Text:
    return Text(wrapped(f"{one.severity}: {one.text}"), style=_STYLES[one.severity])
