"""The storage of studies: an Optuna storage, its errors as sentences, and the locks of studies.

A file of SQLite is for one process at a study at a time, PostgreSQL for several machines: a trial
that is measured has Optuna's heartbeat there, and connections wait for a database that is away.
"""

import hashlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy import URL, Dialect, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from spectui.closing import Closing
from spectui.errors import BadInputError, UsageError
from spectui.files import PRIVATE
from spectui.paths import STORAGE_VARIABLE, data_dir, ensure_dir, own_storage_file
from spectui.secret import without_passwords

optuna.logging.set_verbosity(logging.WARNING)
# Heartbeats are an experiment of Optuna's, which expects them around its own loop.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used with")

_OPEN_S = 30.0
"""Time after which another process that opens the same file counts as hung."""
_OPENINGS = 3
_CONNECT_S = 10
_WAITS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0)
"""Pauses between attempts to connect to a database that is away."""
_HEARTBEAT_S = 10
_STALE_S = 60
"""Time without a heartbeat after which the process of a trial has ended."""
_PSYCOPG = "postgresql+psycopg"
RETRY = RetryHeartbeatStaleTrialCallback(max_retry=1)
"""Queues the trial of a process that has ended once more: no oftener, as it may have ended that."""


def address_of(storage: str | None) -> str:
    """URL of a storage; of None the environment's, or that of spectui's own file."""
    return storage or os.environ.get(STORAGE_VARIABLE) or f"sqlite:///{own_storage_file()}"


def is_file(storage: str | None) -> bool:
    """Whether a storage is SQLite's, where one process at a time works on a study."""
    return address_of(storage).startswith("sqlite")


def file_of(storage: str | None) -> Path | None:
    """The file of a storage, which need not be there; None where it has none."""
    try:
        address = make_url(address_of(storage))
    except ArgumentError:
        return None
    path = address.database or ":memory:"
    is_kept = address.get_backend_name() == "sqlite" and path != ":memory:" and not address.query
    return Path(path) if is_kept else None


class Storage(Closing):
    """An open storage of studies, with the locks of those that this process works on."""

    def __init__(self, storage: str | None) -> None:
        """Open it by its URL; None for spectui's own.

        Raises:
            BadInputError: it cannot be used.
        """
        self.url = address_of(storage)
        self.database = open_storage(self.url)
        """Optuna's."""
        self._locks = ExitStack()

    @property
    def is_shared(self) -> bool:
        """Whether several processes may work on a study."""
        return not is_file(self.url)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the storage inside the block into a ``BadInputError``.

        Raises:
            BadInputError: the storage failed.
        """
        try:
            yield
        except (StorageInternalError, SQLAlchemyError) as error:
            raise _unusable(self.url, error) from error

    def lock(self, name: str) -> None:
        """Keep a study for this process until this is closed; raises as ``lock_study``."""
        self._locks.enter_context(lock_study(self.url, name))

    def close(self) -> None:
        """Let go of connections and locks."""
        close_storage(self.database)
        self._locks.close()


def open_storage(url: str) -> RDBStorage:
    """Open a storage, and make one that is not there.

    Raises:
        BadInputError: the storage cannot be used.
    """
    try:
        if not is_file(url):
            return _open_database(_with_driver(url))
        # Two that make the tables of a new file at once would both fail.
        if file_of(url) == own_storage_file():
            _make_own_file()
        with _acquired(_lock_of(url, ""), _OPEN_S):
            return RDBStorage(url)
    except BadInputError:
        raise
    except Exception as error:
        raise _unusable(url, error) from error


def _make_own_file() -> None:
    """Make spectui's own file, for its user alone, if it is not there.

    Raises:
        BadInputError: its folder cannot be made.
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


class _Database(RDBStorage):
    """A database that several machines share; a heartbeat that it misses is no failure."""

    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(SQLAlchemyError, StorageInternalError):
            super().record_heartbeat(trial_id)


def _open_database(address: URL, attempts: int = _OPENINGS) -> RDBStorage:
    limits = {"connect_timeout": _CONNECT_S} if address.drivername == _PSYCOPG else {}
    try:
        database = _Database(
            # Text of the URL with its password: it stays in this process.
            address.render_as_string(hide_password=False),
            {"pool_pre_ping": True, "connect_args": limits},
            heartbeat_interval=_HEARTBEAT_S,
            grace_period=_STALE_S,
            heartbeat_stale_trial_callback=RETRY,
        )
    except (SQLAlchemyError, StorageInternalError):
        # Another one may be making the tables, which takes a few transactions.
        if attempts == 1:
            raise
        return _open_database(address, attempts - 1)
    # Only now: an address that is wrong is an error at once.
    event.listen(database.engine, "do_connect", _connected)
    return database


def _connected(
    dialect: Dialect, _record: object, words: list[Any], options: dict[str, Any]
) -> object:
    """Connect to a database, waiting for one that is away; the pool tries each before its use."""
    for wait_s in _WAITS_S:
        with suppress(dialect.loaded_dbapi.OperationalError):
            return dialect.connect(*words, **options)
        time.sleep(wait_s)
    # SQLAlchemy's own attempt is the last one.
    return None


def _with_driver(url: str) -> URL:
    """The address with the driver that spectui's extra brings, where none is named.

    Raises:
        ArgumentError: it is none.
        BadInputError: the driver is not installed.
    """
    address = make_url(url)
    if address.drivername in {"postgresql", "postgres"}:
        address = address.set(drivername=_PSYCOPG)
    if address.drivername == _PSYCOPG and find_spec("psycopg") is None:
        raise BadInputError(
            f"the storage {without_passwords(url)} cannot be used (its driver is not installed); "
            "run in spectui's folder: pip install '.[postgresql]'"
        )
    return address


def close_storage(storage: BaseStorage) -> None:
    """Let go of its connections."""
    storage.remove_session()
    if isinstance(storage, RDBStorage):
        storage.engine.dispose()


def lock_study(url: str, name: str) -> AbstractContextManager[object]:
    """Keep a study for this process until it ends, however that comes, or leaves the lock.

    Args:
        url: address of the storage.
        name: name of the study.

    Returns:
        The lock, which this process has by now. It locks nothing where the storage has no file
        beside which a lock could be, or its file system has no locks.

    Raises:
        UsageError: another process has it.
    """
    try:
        return _acquired(_lock_of(url, name), 0)
    except Timeout:
        raise UsageError(
            f"another spectui is working on the study {name}; wait for it, or choose another "
            "--study"
        ) from None


def _lock_of(url: str, name: str) -> FileLock | None:
    """The lock of a study beside the file of its storage, of no name for the opening of that."""
    file = file_of(url)
    # A lock would make the folder, whose name may be a slip of the pen.
    if file is None or not file.parent.is_dir():
        return None
    # Names may hold anything, and be longer than a file's.
    purpose = f"study {name}" if name else "open"
    digest = hashlib.sha256(purpose.encode(errors="surrogateescape")).hexdigest()[:16]
    return FileLock(f"{file}.{digest}.lock", mode=PRIVATE, thread_local=False)


def _acquired(lock: FileLock | None, wait_s: float) -> AbstractContextManager[object]:
    """The lock, once this process has it; none where there is none, or it cannot be had.

    Raises:
        Timeout: another process has it for so long.
    """
    if lock is None:
        return nullcontext()
    try:
        return lock.acquire(timeout=wait_s, poll_interval=0.025)
    except Timeout:
        raise
    except (OSError, NotImplementedError):
        # The folder takes no file, or the file system has no locks.
        return nullcontext()


_BESIDE = ("-journal", "-wal", "-shm", "")
"""Endings of files that SQLite keeps beside its own, and of that."""


def _unusable(url: str, error: Exception) -> BadInputError:
    """The sentence for an error of a storage; a damaged file of studies is moved aside."""
    # Optuna guesses where the database has said what is wrong, and SQLAlchemy adds the statement.
    is_guess = isinstance(error, StorageInternalError) and error.__cause__ is not None
    cause = error.__cause__ if is_guess else error
    cause = getattr(cause, "orig", None) or cause
    reason = without_passwords((str(cause).splitlines() or [type(cause).__name__])[0])
    file = file_of(url)
    # Another file than spectui's own may be something else.
    is_garbage = "file is not a database" in reason and file == own_storage_file()
    if file is not None and ("malformed" in reason or is_garbage):
        return _moved_aside(file)
    problem = (
        f"cannot be used ({reason}); check --storage and {STORAGE_VARIABLE}, and that its disk has "
        "room and is writable; what was stored before is kept"
    )
    if "optuna storage upgrade" in reason:
        optuna_program = Path(sys.executable).with_name("optuna")
        problem = (
            "was made by an older Optuna; copy it, and bring it up to date with "
            f"{optuna_program} storage upgrade --storage URL"
        )
    return BadInputError(f"the storage {without_passwords(url)} {problem}")


def _moved_aside(file: Path) -> BadInputError:
    """Rename a damaged file beside itself; return the error with its new name."""
    aside = f"{file}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    try:
        # A journal that is left would be played back into a new file.
        for ending in _BESIDE:
            with suppress(FileNotFoundError):
                Path(f"{file}{ending}").rename(f"{aside}{ending}")
    except OSError as error:
        return BadInputError(
            f"{file} is damaged, and cannot be moved aside ({error.strerror}); move it away, or "
            "give another --storage"
        )
    return BadInputError(
        f"{file} was damaged, and is {aside} now; the same command begins with a new file"
    )
