"""What is to be said of memory: what has no room, and what would make some."""

from collections.abc import Iterator

from spectui.doctor.examination import Examination
from spectui.doctor.finding import Finding, Severity
from spectui.engine.demand import MARGIN_BYTES, Demand
from spectui.engine.fitting import expert_overrides
from spectui.llama.buffers import HOST, BufferKind
from spectui.models.sizes import bytes_text

_REPACKED = "_REPACK"
"""End of the name of a buffer type whose weights are laid out anew when they are loaded."""


def of_memory(examination: Examination) -> Iterator[Finding]:
    """Yield what every memory gives reason to say."""
    for demand in examination.demands:
        if demand.shortage is not None:
            parts = (demand.shortage, *_repacked(demand, examination), _advice(demand, examination))
            yield Finding(severity=Severity.ERROR, text="; ".join(parts))
        elif not demand.fits:
            yield Finding(severity=Severity.WARNING, text=_from_disk(demand))
        elif demand.is_tight:
            yield Finding(severity=Severity.WARNING, text=_tight(demand))


def _advice(demand: Demand, examination: Examination) -> str:
    if examination.smallest_n_cpu_moe:
        return f"use {n_cpu_moe_text(examination)}"
    if examination.largest_context:
        return f"use -c {examination.largest_context}"
    if examination.fits_alone:
        return "without the draft the target fits: give a smaller draft"
    if demand.memory != HOST:
        return "choose a smaller quantization, or keep fewer layers there with -ngl"
    return "choose a smaller quantization"


def _repacked(demand: Demand, examination: Examination) -> Iterator[str]:
    """Yield why weights take room in RAM though models are mapped."""
    repacked_bytes = sum(
        buffer.size_bytes
        for buffer in examination.plan.buffers
        if buffer.kind is BufferKind.WEIGHTS and buffer.device.endswith(_REPACKED)
    )
    if demand.memory == HOST and repacked_bytes:
        yield (
            f"{bytes_text(repacked_bytes)} of it are weights that llama.cpp repacks for this "
            "processor and so cannot map, unlike those of some other quantizations"
        )


def n_cpu_moe_text(examination: Examination) -> str:
    """The option that makes room on the GPUs, and what it stands in for."""
    placed = expert_overrides(examination.request.target)
    given = " ".join(f"-ot {one.pattern}={one.buffer}" for one in placed)
    option = f"--n-cpu-moe {examination.smallest_n_cpu_moe}"
    return f"{option} instead of {given}" if given else option


def _from_disk(demand: Demand) -> str:
    missing = bytes_text(-(demand.left_bytes or 0))
    return (
        f"{missing} of the weights have no room in {demand.where}: they are read from disk again "
        "and again, which decides the speed; choose a smaller quantization, or close other programs"
    )


def _tight(demand: Demand) -> str:
    return (
        f"{bytes_text(demand.left_bytes or 0)} stay free on {demand.where}; below "
        f"{bytes_text(MARGIN_BYTES)} the driver or another program can end a run: use a smaller -c"
    )
