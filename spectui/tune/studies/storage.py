"""Storage of studies: an Optuna storage, and its errors as sentences."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError
from spectui.paths import data_dir, ensure_dir
from spectui.secret import without_passwords
from spectui.writing import PRIVATE

optuna.logging.set_verbosity(logging.WARNING)


def own_storage_file() -> Path:
    """The storage in the user's data folder."""
    return data_dir() / "studies.sqlite3"


def own_storage() -> str:
    """URL of the default storage; its folder is created if needed."""
    ensure_dir(data_dir())
    file = own_storage_file()
    # SQLite gives its journals the mode of the file.
    with suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
    return f"sqlite:///{file}"


def open_storage(url: str) -> optuna.storages.RDBStorage:
    """Open what is there, or make it.

    Raises:
        BadInputError: the storage cannot be used.
    """
    try:
        return optuna.storages.RDBStorage(url)
    except Exception as error:
        raise _unusable(url, error) from error


def close_storage(storage: optuna.storages.RDBStorage) -> None:
    """Let go of its connections."""
    storage.remove_session()
    storage.engine.dispose()


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn a storage's errors inside the block into a ``BadInputError``.

    Raises:
        BadInputError: the storage failed.
    """
    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        raise _unusable(url, error) from error


def _unusable(storage: str, error: Exception) -> BadInputError:
    # Storages raise classes of their drivers, or ImportError for a driver that is missing.
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    # Drivers repeat the address.
    reason = without_passwords(reason.replace(storage, "it"))
    return BadInputError(
        f"the storage {without_passwords(storage)} cannot be used ({reason}); "
        "check --storage, or leave it out to use a file of spectui's own"
    )
