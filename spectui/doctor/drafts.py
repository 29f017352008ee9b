"""Drafts of ``--draft-dir``: usable models of a folder, judged without loading their weights."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.engine.demand import Demand, free_memory
from spectui.errors import BadInputError, SpectuiError
from spectui.format import bytes_text
from spectui.llama.architectures import inspect_pair
from spectui.llama.buffers import HOST
from spectui.llama.devices import gpu_memories
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel, Scan
from spectui.models.ranking import DraftOption, ModelInspected, assess, rank

Compare = Callable[[Path, Path], ModelInspected]
"""Looks at a target and a draft."""


class Room:
    """Memory that a target leaves to a draft.

    Weights are mapped: those that have no room are read from disk. So a target that is larger than
    memory does not rule its drafts out: they share with its cache what is free.
    """

    def __init__(self, target: ModelFacts, *, n_ctx: int, free_bytes: int) -> None:
        """Compute the target's demand.

        Args:
            target: its header's facts.
            n_ctx: tokens that the context holds.
            free_bytes: free bytes of all memories together.
        """
        self._alone = Demand(
            memory=HOST,
            allocated_bytes=n_ctx * (target.kv_bytes_per_token or 0),
            mapped_bytes=target.file_bytes,
            free_bytes=free_bytes,
        )
        kept = self._alone if self._alone.fits else replace(self._alone, mapped_bytes=0)
        self._left_bytes = max(0, kept.left_bytes or 0)

    @property
    def doubt(self) -> str | None:
        """Warning about the target's own memory demand; None if it fits."""
        alone = self._alone
        if alone.fits:
            return None
        cache, free = bytes_text(alone.allocated_bytes), bytes_text(alone.free_bytes or 0)
        if not alone.can_load:
            return f"the target's cache takes {cache}, and {free} are free; give a smaller -c"
        needed = bytes_text(alone.allocated_bytes + alone.mapped_bytes)
        return (
            f"the target takes {needed} with its cache, and {free} are free: weights that have no "
            "room are read from disk again and again, which decides the speed"
        )

    def judge(self, option: DraftOption) -> DraftOption:
        """Return the option, with a reason against it if it does not fit in memory."""
        needed_bytes = option.memory_bytes or option.model.size_bytes
        if option.reason is not None or needed_bytes <= self._left_bytes:
            return option
        beside = "the target" if self._alone.fits else "the target's cache"
        needed, left = bytes_text(needed_bytes), bytes_text(self._left_bytes)
        reason = f"would not fit: needs {needed}, and beside {beside} {left} are free"
        return replace(option, reason=reason)


def free_bytes_of_all() -> int:
    """Free bytes of RAM and of the GPUs that llama.cpp uses.

    What does not fit in both together fits nowhere.
    """
    free = free_memory(gpu_memories())
    return sum(n_bytes for name, n_bytes in free.by_memory.items() if name not in free.in_ram)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDrafts:
    """The models of folders, seen as drafts of one target."""

    options: tuple[DraftOption, ...]
    """The most promising first; unusable ones last, with the reason."""
    reasons: tuple[str, ...]
    """A sentence for every path that could not be examined."""
    doubt: str | None
    """A warning about a target that does not fit in memory even alone; None if it fits."""


class DraftSearch:
    """Examines models as drafts of one target, one by one. Loads no weights."""

    def __init__(
        self, compare: Compare, target: Path, *, n_ctx: int, free_bytes: int | None = None
    ) -> None:
        """Read the target's header.

        Args:
            compare: looks at a target and a draft.
            target: model for which drafts are sought.
            n_ctx: tokens that the context holds.
            free_bytes: memory that target and draft may take together; None for what is free now.

        Raises:
            BadInputError: the target cannot be read, or cannot continue a text.
        """
        told = compare(target, target)
        if told.facts is None or told.reason is not None:
            raise BadInputError(told.reason or f"{target} cannot be read; give another model")
        self.target = told.facts
        self._compare = compare
        self._seen = FoundModel(path=target, name=target.stem, size_bytes=told.facts.file_bytes)
        self._n_ctx = n_ctx
        free_bytes = free_bytes_of_all() if free_bytes is None else free_bytes
        self._room = Room(told.facts, n_ctx=n_ctx, free_bytes=free_bytes)

    @property
    def doubt(self) -> str | None:
        """Warning about the target's own memory demand; None if it fits."""
        return self._room.doubt

    def look_at(self, model: FoundModel) -> DraftOption:
        """Assess ``model`` as a draft; read its file unless its size is enough to exclude it."""
        option = assess(self._seen, model, None, self._n_ctx)
        if option.reason is None:
            told = self._compare(self.target.path, model.path)
            option = assess(self._seen, model, told, self._n_ctx)
        return self._room.judge(option)


def look_into(
    folders: Sequence[Path], target: Path, *, n_ctx: int, free_bytes: int | None = None
) -> FolderDrafts:
    """Rank the models in ``folders``, the target left out.

    Args:
        folders: folders of ``--draft-dir``; sub-folders count.
        target: model for which drafts are sought.
        n_ctx: tokens that the context holds.
        free_bytes: memory that target and draft may take together; None for what is free now.

    Raises:
        BadInputError: a folder is missing, cannot be read or holds no other model, or the target
            cannot be read.
    """
    scan = Scan(folders)
    models = _models(scan, folders, target)
    search = DraftSearch(inspect_pair, target, n_ctx=n_ctx, free_bytes=free_bytes)
    options = [or_why_not(search.look_at, model) for model in models]
    ranked = rank(search.target, options)
    return FolderDrafts(options=ranked, reasons=tuple(scan.reasons), doubt=search.doubt)


def _models(scan: Scan, folders: Sequence[Path], target: Path) -> tuple[FoundModel, ...]:
    for folder in folders:
        check_folder(folder, f"--draft-dir {folder}")
    found = tuple(model for model in scan if not is_same(model, target))
    if not found:
        names = " and ".join(map(str, folders))
        because = f" ({'; '.join(scan.reasons)})" if scan.reasons else ""
        raise BadInputError(
            f"--draft-dir {names}: no GGUF model but the target is in it{because}; give a folder "
            "with drafts"
        )
    return found


def check_folder(folder: Path, given: str) -> None:
    """Refuse paths that cannot be searched for models; ``given`` is the user's spelling.

    Raises:
        BadInputError: there is no such folder.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises on a forbidden parent
        what = "is not a folder" if os.path.exists(folder) else "no such folder"  # noqa: PTH110
        raise BadInputError(f"{given}: {what}; give a folder of GGUF models")


def is_same(model: FoundModel, path: Path) -> bool:
    """Whether ``model`` is the file at ``path``, perhaps through links."""
    return model.path.exists() and model.path.samefile(path)


def or_why_not(look: Callable[[FoundModel], DraftOption], model: FoundModel) -> DraftOption:
    """Assess a model; any failure becomes its reason and does not end the search."""
    try:
        return look(model)
    except Exception as error:  # noqa: BLE001 - told in its row: one odd file must not cost all others
        kind = "" if isinstance(error, SpectuiError) else f"{type(error).__name__}: "
        reason = f"cannot be examined ({kind}{error}); leave it out, or download it again"
        return DraftOption(model=model, facts=None, reason=reason, memory_bytes=None)
