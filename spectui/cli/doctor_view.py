"""A diagnosis for people."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.doctor_models import draft_lines, target_lines
from spectui.cli.drawing import drawn, fits, wrapped
from spectui.doctor.examination import Examination
from spectui.doctor.finding import Finding, Severity
from spectui.doctor.memory_findings import n_cpu_moe_text
from spectui.engine.fitting import CONTEXT_STEP
from spectui.llama.buffers import HOST, BufferKind
from spectui.llama.planned import Backend
from spectui.models.sizes import bytes_text
from spectui.presets import Preset

if TYPE_CHECKING:
    from spectui.cli.run_doctor import Diagnosis

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: ""}
_KINDS = {
    "weights": (BufferKind.WEIGHTS,),
    "cache": (BufferKind.KV, BufferKind.RECURRENT),
    "compute": (BufferKind.COMPUTE, BufferKind.OUTPUT),
}
_GIGA = 1e9
_REBUILD = (
    'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-deps --no-cache-dir '
    "llama-cpp-python=={version}"
)


def told(diagnosis: "Diagnosis") -> str:
    """Everything, section by section."""
    return drawn(*_parts(diagnosis))


def _parts(diagnosis: "Diagnosis") -> Iterator[RenderableType]:
    yield from _section("Machine", _machine(diagnosis))
    examination = diagnosis.examination
    if diagnosis.preset is not None:
        missing = "models" if examination is None else "drafts"
        lines = _preset(diagnosis.preset, missing)
        yield from _section(f"Preset {diagnosis.preset.name}", lines)
    if examination is None:
        return
    yield from _section("Target", target_lines(examination))
    has_experts = examination.traffic.n_experts > 0
    for draft in examination.drafts:
        yield from _section(f"Draft {draft.name}", draft_lines(draft, has_experts=has_experts))
    yield Text("Memory", style="bold")
    yield _memory(examination)
    yield from _paragraphs(_what_fits(examination))
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


def _preset(preset: Preset, missing: str) -> Iterator[str]:
    yield preset.description
    yield f"Its {missing} are not here; fetch them with spectui models pull {preset.name}."
    for role, files in (("target", preset.target), *(("draft", one) for one in preset.draft)):
        if files is not None:
            size = "" if files.size_gb is None else f", {bytes_text(round(files.size_gb * _GIGA))}"
            yield f"{role}: {files}{size}"
    for vram_gb, options in preset.placement.by_vram_gb().items():
        if options:
            given = " ".join(f"--{name} {value}" for name, value in options.items())
            yield f"with {vram_gb} GB of video memory: {given}"
    yield from (f"trap: {trap}" for trap in preset.traps)


def _memory(examination: Examination) -> Table:
    """Rows of what is wanted, per memory; the models apart where there is room for that."""
    table = _memory_table(examination, with_parts=True)
    return table if fits(table) else _memory_table(examination, with_parts=False)


def _memory_table(examination: Examination, *, with_parts: bool) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("")
    parts = [
        (f"{role} {name}", plan, kinds)
        for role, plan in (("target", examination.plan.target), ("draft", examination.plan.draft))
        if plan is not None and with_parts
        for name, kinds in _KINDS.items()
    ]
    for heading in (*(name for name, _plan, _kinds in parts), "wanted", "free", "left"):
        table.add_column(heading, justify="right")
    for demand in examination.demands:
        cells = [
            bytes_text(
                sum(
                    buffer.size_bytes
                    for buffer in plan.buffers
                    if buffer.memory in {demand.memory, *demand.includes} and buffer.kind in kinds
                )
            )
            for _name, plan, kinds in parts
        ]
        wanted = demand.allocated_bytes + demand.mapped_bytes
        style = "" if demand.fits else "yellow" if demand.can_load else "bold red"
        table.add_row(
            demand.where,
            *cells,
            bytes_text(wanted),
            _known(demand.free_bytes),
            _known(demand.left_bytes),
            style=style,
        )
    return table


def _known(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "?"
    return f"-{bytes_text(-n_bytes)}" if n_bytes < 0 else bytes_text(n_bytes)


def _what_fits(examination: Examination) -> Iterator[str]:
    request, largest = examination.request, examination.largest_context
    if largest is None:
        yield "No context fits."
    else:
        yield (
            f"The largest context that fits is {largest} tokens{_of_which(examination)}; you asked "
            f"for {request.context.ctx_size}."
        )
    if examination.smallest_n_cpu_moe is not None:
        yield f"As few experts in RAM as fit: {n_cpu_moe_text(examination)}."
    if examination.chosen is not None and examination.fits_alone and not examination.fits:
        yield "Without a draft the target fits."


def _of_which(examination: Examination) -> str:
    """What the largest context is bound by, beside room."""
    trained = ""
    if examination.largest_context == _trained_context(examination):
        trained = ", all that the target was trained for"
    return trained + (" (weights are read from disk)" if examination.from_disk else "")


def _trained_context(examination: Examination) -> int:
    return examination.plan.target.info.n_ctx_train // CONTEXT_STEP * CONTEXT_STEP


def _finding(one: Finding) -> Text:
    return Text(wrapped(f"{one.severity}: {one.text}"), style=_STYLES[one.severity])
