"""Storage of studies: an Optuna storage, and its errors as sentences."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError
from spectui.paths import data_dir, ensure_dir

optuna.logging.set_verbosity(logging.WARNING)


def own_storage_file() -> Path:
    """The storage in the user's data folder."""
    return data_dir() / "studies.sqlite3"


def own_storage() -> str:
    """URL of the default storage; its folder is created if needed."""
    ensure_dir(data_dir())
    return f"sqlite:///{own_storage_file()}"


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
    return BadInputError(
        f"the storage {storage} cannot be used ({reason}); "
        "check --storage, or leave it out to use a file of spectui's own"
    )
