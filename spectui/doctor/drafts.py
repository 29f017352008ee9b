"""Models seen as drafts of one target, judged without loading their weights."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from spectui.engine.demand import free_memory
from spectui.errors import BadInputError
from spectui.format import bytes_text
from spectui.llama.architectures import inspect_pair
from spectui.llama.devices import gpu_memories
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, ModelInspected, assess


class DraftSearch:
    """Examines models as drafts of one target, one by one. Loads no weights."""

    def __init__(
        self,
        target: ModelFacts,
        compare: Callable[[Path], ModelInspected],
        *,
        n_ctx: int,
        free_bytes: int | None = None,
    ) -> None:
        """Know the target, and what memory it leaves.

        Args:
            target: facts of the model for which drafts are sought.
            compare: looks at a draft beside it.
            n_ctx: tokens that the context holds.
            free_bytes: memory that target and draft may take together; None for what is free now
                in RAM and on the GPUs that llama.cpp uses.
        """
        self.target = target
        self._compare = compare
        self._seen = FoundModel(
            path=target.path, name=target.path.stem, size_bytes=target.file_bytes
        )
        self._n_ctx = n_ctx
        if free_bytes is None:
            free_bytes = free_memory(gpu_memories()).total_bytes
        # Weights are mapped: those of a target that is larger than memory leave room to others.
        own_bytes = target.file_bytes + n_ctx * (target.kv_bytes_per_token or 0)
        self._left_bytes = free_bytes - own_bytes if own_bytes <= free_bytes else free_bytes

    def look_at(self, model: FoundModel) -> DraftOption:
        """Assess ``model`` as a draft; read its file unless its size is enough to exclude it."""
        option = assess(self._seen, model, None, self._n_ctx)
        if option.reason is None:
            option = assess(self._seen, model, self._compare(model.path), self._n_ctx)
        needed_bytes = option.memory_bytes or model.size_bytes
        if option.reason is not None or needed_bytes <= self._left_bytes:
            return option
        needed, left = bytes_text(needed_bytes), bytes_text(self._left_bytes)
        reason = f"would not fit: needs {needed}, and {left} are free beside the target"
        return replace(option, reason=reason)


def search_here(target: Path, *, n_ctx: int, free_bytes: int | None = None) -> DraftSearch:
    """Return a search among files of this machine.

    Args:
        target: model for which drafts are sought.
        n_ctx: tokens that the context holds.
        free_bytes: as ``DraftSearch`` takes it.

    Raises:
        BadInputError: the target cannot be read, or cannot continue a text.
    """
    told = inspect_pair(target, target)
    if told.facts is None or told.reason is not None:
        raise BadInputError(told.reason or f"{target} cannot be read; give another model")
    compare = partial(inspect_pair, target)
    return DraftSearch(told.facts, compare, n_ctx=n_ctx, free_bytes=free_bytes)


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
