"""Storage of studies: an Optuna storage, its errors as sentences, and who may write a study.

A file of SQLite is for one process at a study at a time, PostgreSQL for several machines: a trial
that is measured has Optuna's heartbeat there. What a database that is away cannot do is done once
it is back.
"""

import functools
import hashlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.storages import BaseStorage
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

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
_PROBED_S = 0.5
"""Time for which a lock may be held by others who only look whether it is."""
_CONNECT_S = 10
_WAITS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, *(15.0,) * 7)
"""Pauses between attempts at an operation while a database is away."""
_QUIET = 2
"""Attempts that fail before that is worth a line."""
_PAUSE = threading.Event()
"""Never set."""
_HEARTBEAT_S = 10
_STALE_S = 60
"""Time without a heartbeat after which the process of a trial has ended."""
_CLASS = re.compile(r"^\([\w.]+\) ")
_PSYCOPG = "postgresql+psycopg"
_OPERATIONS = (
    *BaseStorage.__abstractmethods__,
    *("_get_trials", "_create_new_trial", "_set_trial_param", "_get_stale_trial_ids"),
)
"""Operations of Optuna's and of its cache before a database."""


def address_of(storage: str | None) -> str:
    """Address of a storage; of None the environment's, or that of spectui's own file."""
    return storage or os.environ.get(STORAGE_VARIABLE) or own_storage()


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


def is_file(storage: str | None) -> bool:
    """Whether a storage is SQLite's, where one process at a time works on a study."""
    return address_of(storage).startswith("sqlite")


def file_of(storage: str | None) -> Path | None:
    """The file of a storage, which need not be there; None where it has none."""
    url = storage or os.environ.get(STORAGE_VARIABLE)
    if not url:
        return own_storage_file()
    try:
        address = make_url(url)
    except ArgumentError:
        return None
    is_kept = address.get_backend_name() == "sqlite" and address.database not in {
        None,
        "",
        ":memory:",
    }
    return Path(str(address.database)) if is_kept and not address.query else None


def check_writable(storage: str | None) -> None:
    """Refuse a storage whose file or folder takes nothing, before hours of measuring.

    Raises:
        BadInputError: says what to do.
    """
    file = file_of(storage)
    if file is None:
        return
    if file == own_storage_file():
        ensure_dir(data_dir())
    # SQLite needs a journal beside it.
    for one in (file, file.parent):
        if one.exists() and not os.access(one, os.W_OK):
            raise BadInputError(
                f"{one} cannot be written, and trials are kept there; make it writable, or give "
                "another --storage"
            )


def open_storage(url: str, say: Callable[[str], None] = lambda _text: None) -> BaseStorage:
    """Open what is there, or make it.

    Args:
        url: its address.
        say: told when a database is away, and when it is back.

    Raises:
        BadInputError: the storage cannot be used.
    """
    try:
        address = _with_driver(url)
        if is_file(url):
            # Two that make the tables of a new file at once would both fail.
            with ExitStack() as held:
                lock = _lock_of(url, "open")
                if lock is not None:
                    with suppress(OSError, NotImplementedError):
                        held.enter_context(lock.acquire(timeout=_OPEN_S))
                return optuna.storages.RDBStorage(url)
        return _patient(_open_database(address), say)
    except BadInputError:
        raise
    except Exception as error:
        raise _unusable(url, error) from error


class _Database(optuna.storages.RDBStorage):
    """A database that several machines share; a heartbeat that it misses is no failure."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        super().__init__(
            url,
            options,
            heartbeat_interval=_HEARTBEAT_S,
            grace_period=_STALE_S,
        )

    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(SQLAlchemyError, optuna.exceptions.StorageInternalError):
            super().record_heartbeat(trial_id)
        # It is called on a thread of its own, with a connection of its own.
        self.remove_session()


def _open_database(address: URL) -> BaseStorage:
    limits = {"connect_timeout": _CONNECT_S} if address.drivername == _PSYCOPG else {}
    options = {"pool_pre_ping": True, "connect_args": limits}
    # Text of the URL with its password: it stays in this process.
    url = address.render_as_string(hide_password=False)
    try:
        return _Database(url, options)
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError):
        # Another one may have made the tables meanwhile.
        return _Database(url, options)


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


def _patient(storage: BaseStorage, say: Callable[[str], None]) -> BaseStorage:
    """Have each operation of a storage wait for a database that is away.

    An operation is one transaction: where it failed it did nothing, and where it only seems so it
    can be done twice (``TuningStudy`` sees to what that does to a trial).
    """
    for name in _OPERATIONS:
        operation = getattr(storage, name, None)
        if operation is not None:
            setattr(storage, name, _retried(operation, say))
    return storage


def _retried(operation: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def patient(*args: object, **options: object) -> object:
        for n, wait_s in enumerate(_WAITS_S):
            try:
                result = operation(*args, **options)
            except Exception as error:
                if not _is_away(error):
                    raise
                if n == _QUIET:
                    say(f"the storage is away; waiting {sum(_WAITS_S):.0f} s for it at most")
                _PAUSE.wait(wait_s)
            else:
                if n > _QUIET:
                    say("the storage is back")
                return result
        return operation(*args, **options)

    return patient


def _is_away(error: BaseException) -> bool:
    """Whether a database could not be reached, or has ended the connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DBAPIError):
            state = getattr(cause.orig, "sqlstate", None)
            # Of connections, of shutdowns, and of those that had to give way to others.
            return cause.connection_invalidated or state is None or state[:2] in {"08", "57", "40"}
        # Optuna tries once more on the connection that has just ended.
        cause = cause.__cause__ or cause.__context__
    return False


def lock_study(url: str, name: str, wait_s: float = _PROBED_S) -> FileLock | None:
    """Keep a study for this process until it ends, however that comes, or releases the lock.

    Args:
        url: address of the storage.
        name: name of the study.
        wait_s: time for which others may hold it who only look.

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
        lock.acquire(timeout=wait_s, poll_interval=_PROBED_S / 20)
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
        lock = lock_study(url, name, wait_s=0)
    except UsageError:
        return True
    if lock is not None:
        lock.release()
    return False


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


def close_storage(storage: BaseStorage) -> None:
    """Let go of its connections."""
    storage.remove_session()
    if isinstance(storage, optuna.storages.RDBStorage):
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
    if (of_optuna := _of_another_optuna(error)) is not None:
        return BadInputError(f"the storage {without_passwords(storage)} {of_optuna}")
    # Storages raise classes of their drivers, or ImportError for a driver that is missing; and
    # Optuna guesses where the database has said what is wrong.
    if isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__ is not None:
        error = Exception(str(error.__cause__))
    lines = str(error).splitlines() or [type(error).__name__]
    # SQLAlchemy may begin with when it happened.
    words = (*_ADVICE, _DAMAGED)
    reason = next((one for one in lines if any(word in one for word in words)), lines[0])
    # Drivers repeat the address, and SQLAlchemy heads what they say with the name of a class.
    reason = without_passwords(_CLASS.sub("", reason.replace(storage, "it")))
    file = file_of(storage)
    # Another file than spectui's own may be something else.
    is_garbage = _GARBAGE in reason and file == own_storage_file()
    if file is not None and (_DAMAGED in reason or is_garbage):
        return _moved_aside(file)
    advice = next((advice for word, advice in _ADVICE.items() if word in reason), _USUAL_ADVICE)
    return BadInputError(
        f"the storage {without_passwords(storage)} cannot be used ({reason}); {advice}"
    )


_USUAL_ADVICE = (
    f"check --storage and {STORAGE_VARIABLE}; without both, spectui uses a file of its own"
)
_ADVICE = {
    "disk is full": "make room there; what was stored before is kept",
    "disk I/O error": "make room there, or check the disk; what was stored before is kept",
    "readonly database": "make it and its folder writable, or give another --storage",
}
"""Remedies, by a word of SQLite's."""
_DAMAGED = "malformed"
_GARBAGE = "file is not a database"
"""SQLite's words for files that are damaged, and for one of which nothing can be read."""
_BESIDE = ("", "-journal", "-wal", "-shm")
"""Endings of a file of SQLite, and of those that it keeps beside."""


def _moved_aside(file: Path) -> BadInputError:
    """Rename a damaged file beside itself; the sentence that says so."""
    aside = f"{file}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    try:
        # A journal that is left would be played back into a new file.
        for ending in reversed(_BESIDE):
            with suppress(FileNotFoundError):
                Path(f"{file}{ending}").rename(f"{aside}{ending}")
    except OSError as error:
        return BadInputError(
            f"{file} is damaged, and cannot be moved aside ({error.strerror}); move it away, or "
            "give another --storage"
        )
    return BadInputError(
        f"{file} was damaged, and is {aside} now; the same command begins with a new file, and "
        "studies import takes exported studies back"
    )


def _of_another_optuna(error: Exception) -> str | None:
    """The remedy for tables of another version of Optuna; None where they are not that."""
    text = str(error)
    if not isinstance(error, RuntimeError) or "table schema" not in text:
        return None
    if "storage upgrade" in text:
        return (
            "was made by an older Optuna; copy it, and bring it up to date with "
            f"{Path(sys.executable).with_name('optuna')} storage upgrade --storage URL"
        )
    return "was made by a newer Optuna; update spectui, or give another --storage"
