"""Models of folders that a command was given."""

import os
from collections.abc import Callable
from pathlib import Path

from spectui.errors import BadInputError, SpectuiError
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption


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
