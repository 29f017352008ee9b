"""What the loaded models planned to take of memory."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum

from spectui.engine.events import Role
from spectui.llama.buffers import Buffer, BufferKind, ModelMemory


class Use(StrEnum):
    """What a part of a memory is for."""

    TARGET = "target"
    """The target's weights."""
    DRAFT = "draft"
    """The draft's weights."""
    KV = "KV"
    """Of both, recurrent state included."""
    COMPUTE = "compute"
    """Scratch and logits of both."""
    OTHER = "other"
    """Other programs, and what the driver and this process take besides."""


def planned(models: Mapping[Role, ModelMemory], belongs: Callable[[Buffer], bool]) -> Counter[Use]:
    """Return bytes by use, of the buffers that belong to a memory."""
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        for buffer in model.buffers:
            if belongs(buffer):
                sizes[_use(role, buffer.kind)] += buffer.size_bytes
    return sizes


def mapped(models: Mapping[Role, ModelMemory]) -> Counter[Use]:
    """Return weights that must stay in the page cache for decoding to be fast.

    A mapping spans the file from its first to its last tensor in RAM; what lies between and went to
    a GPU is not needed again.
    """
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        size_bytes = sum(buffer.size_bytes for buffer in model.buffers if buffer.is_mapped)
        if model.traffic is not None:
            size_bytes = min(size_bytes, model.traffic.cpu_bytes)
        sizes[_use(role, BufferKind.WEIGHTS)] += size_bytes
    return sizes


def _use(role: Role, kind: BufferKind) -> Use:
    if kind is BufferKind.WEIGHTS:
        return Use.TARGET if role is Role.TARGET else Use.DRAFT
    if kind in {BufferKind.KV, BufferKind.RECURRENT}:
        return Use.KV
    return Use.COMPUTE


def fill(plan: Mapping[Use, float], used_bytes: float) -> tuple[tuple[Use, float], ...]:
    """Return parts that add up to ``used_bytes``: what nobody planned is another's."""
    left_bytes = used_bytes
    parts: list[tuple[Use, float]] = []
    for use in Use:
        wanted_bytes = left_bytes if use is Use.OTHER else plan.get(use, 0)
        size_bytes = min(wanted_bytes, left_bytes)
        left_bytes -= size_bytes
        parts.append((use, size_bytes))
    return tuple(parts)
