"""Drafts of ``--draft-dir``: which models of a folder may serve, told before weights are loaded."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from spectui.engine.commands import ComparePair
from spectui.engine.driver import Engine
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


class DraftSearch:
    """Looks at models as drafts of one target, one by one. Loads no weights."""

    def __init__(
        self, engine: Engine, target: Path, *, n_ctx: int, free_bytes: int | None = None
    ) -> None:
        """Look at the target.

        Args:
            engine: reads the files.
            target: what the drafts are for.
            n_ctx: tokens that the context holds.
            free_bytes: memory that target and draft may take together; None for what is free now.

        Raises:
            BadInputError: the target cannot be read, or cannot continue a text.
        """
        told = engine.compare(ComparePair(target=target, draft=target))
        if told.facts is None or told.reason is not None:
            raise BadInputError(told.reason or f"{target} cannot be read; give another model")
        self.target = told.facts
        self._engine = engine
        self._seen = FoundModel(path=target, name=target.stem, size_bytes=told.facts.size_bytes)
        self._budget = replace(_ANY_SIZE, n_ctx=n_ctx)
        free_bytes = free_memory() if free_bytes is None else free_bytes
        self._left_bytes = _left_bytes(told.facts, n_ctx, free_bytes)

    def look_at(self, model: FoundModel) -> DraftOption:
        """Say what became known of ``model``; its file is read unless its size tells enough."""
        option = assess(self._seen, model, None, self._budget)
        if option.reason is None:
            target = self.target.path
            told = self._engine.compare(ComparePair(target=target, draft=model.path))
            inspected = ModelInspected(
                target=target, path=told.draft, facts=told.facts, reason=told.reason
            )
            option = assess(self._seen, model, inspected, self._budget)
        return _with_room(option, self._left_bytes)


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
    with Engine() as engine:
        search = DraftSearch(engine, target, n_ctx=n_ctx, free_bytes=free_bytes)
        options = [search.look_at(model) for model in models]
    return FolderDrafts(options=rank(search.target, options), reasons=reasons)


def _models(
    folders: Sequence[Path], target: Path
) -> tuple[tuple[FoundModel, ...], tuple[str, ...]]:
    for folder in folders:
        check_folder(folder, f"--draft-dir {folder}")
    scan = Scan(folders)
    found = tuple(model for model in scan if not is_same(model, target))
    if not found:
        names = " and ".join(map(str, folders))
        because = f" ({'; '.join(scan.reasons)})" if scan.reasons else ""
        raise BadInputError(
            f"--draft-dir {names}: no GGUF model but the target is in it{because}; give a folder "
            "with drafts"
        )
    return found, tuple(scan.reasons)


def check_folder(folder: Path, given: str) -> None:
    """Refuse what models cannot be looked for in; ``given`` is what the user wrote.

    Raises:
        BadInputError: there is no such folder.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises on a forbidden parent
        what = "is not a folder" if os.path.exists(folder) else "no such folder"  # noqa: PTH110
        raise BadInputError(f"{given}: {what}; give a folder of GGUF models")


def is_same(model: FoundModel, path: Path) -> bool:
    """Tell whether ``model`` is the file at ``path``, perhaps through links."""
    return model.path.exists() and model.path.samefile(path)


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
