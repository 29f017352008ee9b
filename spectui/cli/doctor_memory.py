"""The memory section of a diagnosis: demand per memory, and what fits."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import fits
from spectui.doctor.examination import Examination
from spectui.doctor.findings import n_cpu_moe_text
from spectui.engine.demand import Demand
from spectui.engine.long_contexts import CONTEXT_STEP
from spectui.format import bytes_text
from spectui.llama.buffers import BufferKind
from spectui.llama.planned import ModelPlan

_KINDS = {
    "weights": (BufferKind.WEIGHTS,),
    "cache": (BufferKind.KV, BufferKind.RECURRENT),
    "compute": (BufferKind.COMPUTE, BufferKind.OUTPUT),
}


def heading(examination: Examination) -> str:
    """Heading of a memory table, with the name of the chosen draft."""
    if examination.chosen is not None:
        return f"Memory, with {examination.chosen.name}"
    return "Memory, without a draft" if examination.drafts else "Memory"


def memory_table(examination: Examination) -> Table:
    """A column per memory, and a row per part; without the parts where those have no room."""
    by_part = _by_part(examination)
    return by_part if fits(by_part) else _by_memory(examination)


def _by_part(examination: Examination) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("")
    for demand in examination.demands:
        table.add_column(demand.where, justify="right", style=_style(demand))
    for role, plan in (("target", examination.plan.target), ("draft", examination.plan.draft)):
        if plan is None:
            continue
        for name, kinds in _KINDS.items():
            cells = (_bytes(plan, demand, kinds) for demand in examination.demands)
            table.add_row(f"{role} {name}", *cells)
    for name in ("wanted", "free", "left"):
        cells = (_totals(demand)[name] for demand in examination.demands)
        table.add_row(Text(name, style="bold"), *cells)
    return table


def _by_memory(examination: Examination) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("")
    for name in ("wanted", "free", "left"):
        table.add_column(name, justify="right")
    for demand in examination.demands:
        table.add_row(demand.where, *_totals(demand).values(), style=_style(demand))
    return table


def _style(demand: Demand) -> str:
    return "" if demand.fits else "yellow" if demand.can_load else "bold red"


def _bytes(plan: ModelPlan, demand: Demand, kinds: tuple[BufferKind, ...]) -> str:
    memories = {demand.memory, *demand.includes}
    return bytes_text(
        sum(
            buffer.size_bytes
            for buffer in plan.buffers
            if buffer.memory in memories and buffer.kind in kinds
        )
    )


def _totals(demand: Demand) -> dict[str, str]:
    return {
        "wanted": bytes_text(demand.allocated_bytes + demand.mapped_bytes),
        "free": _known(demand.free_bytes),
        "left": _known(demand.left_bytes),
    }


def _known(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "?"
    return f"-{bytes_text(-n_bytes)}" if n_bytes < 0 else bytes_text(n_bytes)


def what_fits(examination: Examination) -> Iterator[str]:
    """Yield the configurations that would fit."""
    if examination.largest_context is None:
        yield "No context fits."
    else:
        yield _largest_context(examination, examination.largest_context)
    if examination.smallest_n_cpu_moe is not None:
        yield f"As few experts in RAM as fit: {n_cpu_moe_text(examination)}."
    if examination.chosen is not None and examination.fits_alone and not examination.fits:
        yield "Without a draft the target fits."


def _largest_context(examination: Examination, largest: int) -> str:
    what = "The largest context that fits"
    if examination.from_disk and not examination.always_from_disk:
        what = "The largest context with which no weights are read from disk"
    bound = ""
    if largest == _trained_context(examination):
        bound = ", all that the target was trained for"
    if examination.always_from_disk:
        bound += " (weights are read from disk with any context)"
    asked = examination.request.context.ctx_size
    return f"{what} is {largest} tokens{bound}; you asked for {asked}."


def _trained_context(examination: Examination) -> int:
    return examination.plan.target.info.n_ctx_train // CONTEXT_STEP * CONTEXT_STEP
