"""Folders for spectui's files: the platform's own, or all below ``SPECTUI_HOME``."""

import os
from contextlib import suppress
from errno import ENOTDIR
from pathlib import Path

import platformdirs

from spectui.errors import BadInputError

HOME_VARIABLE = "SPECTUI_HOME"
STORAGE_VARIABLE = "SPECTUI_STORAGE"
"""Address of the studies' storage; it may hold a password, which a command line must not."""
_PRIVATE, _FOR_OTHERS = 0o700, 0o077


def data_dir() -> Path:
    """Folder of studies and traces: what the user made."""
    home = os.environ.get(HOME_VARIABLE)
    return Path(home) / "data" if home else platformdirs.user_data_path("spectui")


def config_dir() -> Path:
    """Folder of the configuration and of the user's own presets."""
    home = os.environ.get(HOME_VARIABLE)
    return Path(home) / "config" if home else platformdirs.user_config_path("spectui")


def cache_dir() -> Path:
    """Folder of models that were built or downloaded: can be deleted at any time."""
    home = os.environ.get(HOME_VARIABLE)
    return Path(home) / "cache" if home else platformdirs.user_cache_path("spectui")


def demo_folder() -> Path:
    """Folder of the demo models that are built."""
    return cache_dir() / "demo"


def own_storage_file() -> Path:
    """The studies' storage in the user's data folder."""
    return data_dir() / "studies.sqlite3"


def log_path() -> Path:
    """The log of the screen: lines of native code, and tracebacks of defects."""
    return data_dir() / "logs" / "spectui.log"


def text_of(name: str) -> str:
    """A file's name as text that JSON can hold: bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def ensure_dir(path: Path) -> Path:
    """Create ``path`` with its parents, for the user alone, and return it.

    Spectui's own folders of earlier versions are closed to others as well.

    Raises:
        BadInputError: the folder cannot be created or is not writable.
    """
    remedy = f"make it writable or point {HOME_VARIABLE} at a folder that is"
    try:
        _make_private(path)
    except OSError as error:
        raise BadInputError(
            f"cannot create the folder {path} ({error.strerror}); {remedy}"
        ) from error
    if not os.access(path, os.W_OK):
        raise BadInputError(f"cannot write to the folder {path}; {remedy}")
    return path


def _make_private(path: Path) -> None:
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for folder in reversed(missing):
        folder.mkdir(_PRIVATE, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path))
    for own in (data_dir(), config_dir()):
        if path.is_relative_to(own):
            status = own.stat()
            if status.st_uid == os.geteuid() and status.st_mode & _FOR_OTHERS:
                # A folder that is not writable is reported by the caller.
                with suppress(OSError):
                    own.chmod(_PRIVATE)
