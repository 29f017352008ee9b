"""Drafts of ``--draft-dir``: which models of a folder may serve, told before weights are loaded."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from spectui.engine.commands import ComparePair
from spectui.engine.inspection import Inspector
from spectui.errors import BadInputError
from spectui.llama.library import buffer_types
from spectui.models.discovery import Scan
from spectui.models.files import FoundModel
from spectui.models.ranking import (
    Budget,
    DraftOption,
    ModelFacts,
    ModelInspected,
    assess,
    incompleteness,
    rank,
)
from spectui.models.sizes import bytes_text
from spectui.monitor.gpus import Gpus

_ANY_SIZE = Budget(free_bytes=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDrafts:
    """The models of folders, seen as drafts of one target."""

    options: tuple[DraftOption, ...]
    """The most promising first; those that cannot serve last, with the reason."""
    reasons: tuple[str, ...]
    """A sentence for everything that could not be looked at."""


def look_into(
    folders: Sequence[Path], target: Path, *, n_ctx: int, free_bytes: int | None = None
) -> FolderDrafts:
    """Rank the models in ``folders``, the target left out.

    Args:
        folders: of ``--draft-dir``; sub-folders count.
        target: what the drafts are for.
        n_ctx: tokens that the context holds.
        free_bytes: memory that target and draft may take together; None for what is free now.

    Raises:
        BadInputError: a folder is missing, cannot be read or holds no other model, or the target
            cannot be read.
    """
    models, reasons = _models(folders, target)
    inspector = Inspector()
    try:
        inspected = [_inspect(inspector, target, model) for model in models]
        own = _target(inspector, target)
    finally:
        inspector.close()
    left = _left_bytes(own, n_ctx, free_memory() if free_bytes is None else free_bytes)
    found = FoundModel(path=target, name=target.stem, size_bytes=own.size_bytes)
    options = [
        _with_room(assess(found, model, told, replace(_ANY_SIZE, n_ctx=n_ctx)), left)
        for model, told in zip(models, inspected, strict=True)
    ]
    return FolderDrafts(options=rank(own, options), reasons=reasons)


def _models(
    folders: Sequence[Path], target: Path
) -> tuple[tuple[FoundModel, ...], tuple[str, ...]]:
    for folder in folders:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "no such folder"
            raise BadInputError(f"--draft-dir {folder}: {what}; give a folder of GGUF models")
    scan = Scan(folders)
    found = tuple(model for model in scan if not _is(model, target))
    if not found:
        names = " and ".join(map(str, folders))
        because = f" ({'; '.join(scan.reasons)})" if scan.reasons else ""
        raise BadInputError(
            f"--draft-dir {names}: no GGUF model but the target is in it{because}; give a folder "
            "with drafts"
        )
    return found, tuple(scan.reasons)


def _is(model: FoundModel, path: Path) -> bool:
    return model.path.exists() and model.path.samefile(path)


def _inspect(inspector: Inspector, target: Path, model: FoundModel) -> ModelInspected | None:
    if incompleteness(model) is not None:
        return None
    told = inspector.compare(ComparePair(target=target, draft=model.path), lambda: False)
    return ModelInspected(target=target, path=told.draft, facts=told.facts, reason=told.reason)


def _target(inspector: Inspector, target: Path) -> ModelFacts:
    told = inspector.compare(ComparePair(target=target, draft=target), lambda: False)
    if told.facts is None:
        raise BadInputError(told.reason or f"{target} cannot be read; give another model")
    return told.facts


def _left_bytes(target: ModelFacts, n_ctx: int, free_bytes: int) -> int:
    taken_bytes = target.size_bytes + n_ctx * (target.kv_bytes_per_token or 0)
    return max(0, free_bytes - taken_bytes)


def _with_room(option: DraftOption, left_bytes: int) -> DraftOption:
    needed_bytes = option.memory_bytes or option.model.size_bytes
    if option.reason is not None or needed_bytes <= left_bytes:
        return option
    reason = (
        f"would not fit: needs {bytes_text(needed_bytes)}, and beside the target "
        f"{bytes_text(left_bytes)} are free"
    )
    return replace(option, reason=reason)


def free_memory() -> int:
    """Bytes of RAM and, where llama.cpp can use them, of the GPUs that nobody has taken.

    What does not fit in both together fits nowhere.
    """
    free_bytes = float(psutil.virtual_memory().available)
    if any(not name.startswith("CPU") for name in buffer_types()):
        free_bytes += sum(_free_on_gpus())
    return int(free_bytes)


def _free_on_gpus() -> Iterator[float]:
    gpus = Gpus(time.monotonic)
    try:
        for gpu in gpus.read(time.monotonic())[0]:
            total, used = gpu.memory_total_bytes.value, gpu.memory_used_bytes.value
            if total is not None and used is not None:
                yield total - used
    finally:
        gpus.close()
