"""Storage of studies: an Optuna storage, its errors as sentences, and who may write a study."""

import glob
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
from filelock import FileLock, Timeout
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from spectui.errors import BadInputError, UsageError
from spectui.paths import data_dir, ensure_dir
from spectui.secret import without_passwords
from spectui.writing import PRIVATE

optuna.logging.set_verbosity(logging.WARNING)

_OPEN_S = 30.0
"""Time after which another process that opens the same file counts as hung."""

_PROBED_S = 0.5
"""Time for which a lock may be held by others who only look whether it is."""


def own_storage_file() -> Path:
    """The storage in the user's data folder."""
    return data_dir() / "studies.sqlite3"


def own_storage() -> str:
    """URL of the default storage; its folder is created if needed.

    Raises:
        BadInputError: there is none, and none can be made.
    """
    file = own_storage_file()
    try:
        ensure_dir(data_dir())
    except BadInputError:
        # It can be read all the same.
        if not file.exists():
            raise
    # SQLite gives its journals the mode of the file.
    with suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
    return f"sqlite:///{file}"


def check_writable(storage: str | None) -> None:
    """Refuse a storage whose file or folder takes nothing, before hours of measuring.

    Raises:
        BadInputError: says what to do.
    """
    if storage is None:
        ensure_dir(data_dir())
    file = own_storage_file() if storage is None else file_of(storage)
    if file is None:
        return
    # SQLite needs a journal beside it.
    for one in (file, file.parent):
        if one.exists() and not os.access(one, os.W_OK):
            raise BadInputError(
                f"{one} cannot be written, and trials are kept there; make it writable, or give "
                "another --storage"
            )


def open_storage(url: str) -> optuna.storages.RDBStorage:
    """Open what is there, or make it.

    Raises:
        BadInputError: the storage cannot be used.
    """
    try:
        # Two that make the tables of a new file at once would both fail.
        with _held(_lock_of(url, "open")):
            return optuna.storages.RDBStorage(url)
    except Exception as error:
        raise _unusable(url, error) from error


def lock_study(url: str, name: str) -> FileLock | None:
    """Keep a study for this process until it ends, however that comes, or releases the lock.

    Returns:
        None where the storage has no file beside which a lock could be, or its file system has no
        locks.

    Raises:
        UsageError: another process has it.
    """
    lock = _lock_of(url, f"study {name}")
    if lock is None:
        return None
    try:
        # ``is_locked`` holds it for a moment.
        lock.acquire(timeout=_PROBED_S, poll_interval=_PROBED_S / 20)
    except Timeout:
        raise UsageError(
            f"another spectui is working on the study {name}; wait for it, or choose another "
            "--study"
        ) from None
    except (OSError, NotImplementedError):
        return None
    return lock


def is_locked(url: str, name: str) -> bool:
    """Whether another process keeps a study for itself, as far as can be told."""
    lock = _lock_of(url, f"study {name}")
    if lock is None or not Path(lock.lock_file).exists():
        return False
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False
    lock.release()
    return False


def study_locks(file: Path, url: str) -> tuple[Path, ...]:
    """Locks of studies beside a storage's file, whether or not a process has them."""
    opening = _lock_of(url, "open")
    found = file.parent.glob(f"{glob.escape(file.name)}.*.lock")
    return tuple(one for one in found if opening is None or one != Path(opening.lock_file))


def file_of(url: str) -> Path | None:
    """The file of a storage; None where it has none."""
    try:
        address = make_url(url)
    except ArgumentError:
        return None
    if address.get_backend_name() != "sqlite" or not address.database:
        return None
    if address.database == ":memory:" or address.query:
        return None
    return Path(address.database)


def _lock_of(url: str, purpose: str) -> FileLock | None:
    """A lock beside the file of a storage."""
    file = file_of(url)
    if file is None:
        return None
    # Names may hold anything, and be longer than a file's.
    digest = hashlib.sha256(purpose.encode(errors="surrogateescape")).hexdigest()[:16]
    path = Path(f"{file}.{digest}.lock")
    # It would make the folder, whose name may be a slip of the pen.
    return FileLock(path, mode=PRIVATE, thread_local=False) if path.parent.is_dir() else None


@contextmanager
def _held(lock: FileLock | None) -> Iterator[None]:
    """Hold a lock, where there is one that can be held."""
    if lock is not None:
        with suppress(OSError, NotImplementedError):
            lock.acquire(timeout=_OPEN_S)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


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
    if (of_optuna := _of_another_optuna(error)) is not None:
        return BadInputError(f"the storage {without_passwords(storage)} {of_optuna}")
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    # Drivers repeat the address.
    reason = without_passwords(reason.replace(storage, "it"))
    return BadInputError(
        f"the storage {without_passwords(storage)} cannot be used ({reason}); "
        "check --storage, or leave it out to use a file of spectui's own"
    )


def _of_another_optuna(error: Exception) -> str | None:
    """What to do about tables of another version of Optuna's; None where they are not that."""
    text = str(error)
    if not isinstance(error, RuntimeError) or "table schema" not in text:
        return None
    if "storage upgrade" in text:
        return (
            "was made by an older Optuna; bring it up to date with spectui studies repair, which "
            "keeps a copy of a file"
        )
    return "was made by a newer Optuna; update spectui, or give another --storage"
