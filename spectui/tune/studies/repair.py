"""Damage of a storage of studies, and what can be saved of it. Nothing is ever deleted."""

import json
import mmap
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout

from spectui.errors import BadInputError, UsageError
from spectui.format import bytes_text, counted
from spectui.paths import own_storage_file
from spectui.tune.studies.listing import is_gone, list_studies, opened
from spectui.tune.studies.pages import MAGIC, Pages, Values
from spectui.tune.studies.records import ARM, OFF, OWNER, QUEUED, RECORD, close_trial
from spectui.tune.studies.storage import (
    close_storage,
    file_of,
    open_storage,
    own_storage,
    storage_errors,
    study_locks,
)
from spectui.writing import PRIVATE

_BESIDE = ("-journal", "-wal", "-shm")
"""Files that SQLite keeps beside a file while it is written."""
_FOLDER = ".spectui-repair-"
"""How folders begin that are there during a repair, or were left by one that was killed."""
_MOST_PROBLEMS = 20
_LARGEST_BYTES = 1 << 34
_MOST_ROWS = 1_000_000
_TABLES = (
    *("studies", "study_directions", "study_user_attributes", "study_system_attributes"),
    *("trials", "trial_user_attributes", "trial_system_attributes", "trial_params"),
    *("trial_values", "trial_intermediate_values"),
)
"""Tables of Optuna's, each behind those that it refers to."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("VARCHAR", "TEXT", "DATETIME"), str),
    "INTEGER": int,
    "FLOAT": (float, int),
}
"""Types of the values of Optuna's columns."""
_INDEXED = {
    "studies": (
        "SELECT study_id, study_name FROM studies INDEXED BY ix_studies_study_name",
        "INSERT OR IGNORE INTO studies (study_id, study_name) VALUES (?, ?)",
    ),
    "trials": (
        "SELECT trial_id, study_id FROM trials INDEXED BY ix_trials_study_id",
        (
            "INSERT OR IGNORE INTO trials (trial_id, study_id, number, state) "
            "SELECT ?1, ?2, 0, CASE WHEN EXISTS (SELECT 1 FROM trial_values WHERE trial_id = ?1) "
            "THEN 'COMPLETE' ELSE 'FAIL' END"
        ),
    ),
}
"""By table: what an index of it tells without the table, and how that becomes a row."""
_UNMEASURED = (
    "SELECT count(*) FROM trials WHERE state = 'COMPLETE' AND trial_id NOT IN "
    "(SELECT trial_id FROM trial_user_attributes WHERE key = ?)"
)
_STATES = frozenset(state.name for state in optuna.trial.TrialState)
_TIDY = (
    "DELETE FROM study_directions WHERE study_id NOT IN (SELECT study_id FROM studies)",
    "DELETE FROM study_user_attributes WHERE study_id NOT IN (SELECT study_id FROM studies)",
    "DELETE FROM study_system_attributes WHERE study_id NOT IN (SELECT study_id FROM studies)",
    (
        "INSERT INTO study_directions (direction, study_id, objective) "
        "SELECT 'MAXIMIZE', study_id, 0 FROM studies WHERE study_id "
        "NOT IN (SELECT study_id FROM study_directions)"
    ),
    "DELETE FROM trials WHERE study_id NOT IN (SELECT study_id FROM studies)",
    *(
        f"DELETE FROM {table} WHERE trial_id NOT IN (SELECT trial_id FROM trials)"  # noqa: S608 - names of ours
        for table in _TABLES
        if table.startswith("trial_")
    ),
    (
        "UPDATE trials SET state = 'FAIL' WHERE state = 'COMPLETE' AND trial_id NOT IN "
        "(SELECT trial_id FROM trial_values)"
    ),
    # Optuna counts on numbers without gaps.
    (
        "UPDATE trials SET number = (SELECT count(*) FROM trials AS other WHERE "
        "other.study_id = trials.study_id AND other.trial_id < trials.trial_id)"
    ),
)
"""Statements that make a new file consistent after rows were lost."""


def repair(storage: str | None, *, dry_run: bool) -> tuple[str, ...]:
    """Repair a storage; sentences that say what was wrong, and what was done.

    Args:
        storage: URL as Optuna takes it; None for the file in the user's data folder.
        dry_run: change nothing, and say what would be done.

    Raises:
        BadInputError: it cannot be used, or is nothing of spectui's.
        UsageError: a process is working on one of its studies.
    """
    path = own_storage_file() if storage is None else file_of(storage)
    if path is None:
        return (*_close_trials(storage, dry_run=dry_run),)
    if not path.exists():
        raise BadInputError(f"there is no file {path}, so there is nothing to repair")
    if not path.is_file():
        raise BadInputError(f"{path} is no regular file; check --storage")
    if path.stat().st_size > _LARGEST_BYTES:
        raise BadInputError(
            f"{path} is larger than {bytes_text(_LARGEST_BYTES)}, as no studies are; check "
            "--storage, or move it away"
        )
    if not path.stat().st_size:
        return (f"{path} is empty: there is nothing to repair, and spectui tune will fill it",)
    with _alone(path, storage or own_storage()):
        try:
            return tuple(_repair_file(path, storage, dry_run=dry_run))
        except OSError as error:
            raise BadInputError(
                f"{path} cannot be repaired ({error.strerror}); make room beside it, and its "
                "folder writable; what was there is there"
            ) from error


@contextmanager
def _alone(path: Path, url: str) -> Iterator[None]:
    """Keep every study of a file, as far as any was ever locked."""
    with ExitStack() as stack:
        # Its own as well, so that one repair is at it.
        own = Path(f"{path}.repair.lock")
        for lock_file in {own, *study_locks(path, url)}:
            try:
                stack.enter_context(FileLock(lock_file, timeout=0, mode=PRIVATE))
            except Timeout:
                raise UsageError(
                    f"a spectui is working on a study in {path}; end it before the repair"
                ) from None
            except (OSError, NotImplementedError):
                continue
        yield


def _repair_file(path: Path, storage: str | None, *, dry_run: bool) -> Iterator[str]:
    # Looking would write where a process was killed while it wrote: so a copy is looked at.
    place = None if dry_run else path.parent
    if place is not None:
        for left in place.glob(f"{_FOLDER}*"):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=place) as folder:
        copy = _copied(path, Path(folder))
        problems = _problems(copy)
        if not problems:
            older = _of_older_optuna(copy)
            yield f"{path} is whole"
            if older and dry_run:
                yield "it was made by an older Optuna, and would be brought up to date"
            elif older:
                yield _migrated(path, copy)
            if not (older and dry_run):
                yield from _close_trials(storage, dry_run=dry_run)
            return
        if storage is not None and not _begins_as_sqlite(copy):
            raise BadInputError(f"{path} is no file of SQLite's; check --storage, or move it away")
        yield f"{path} is damaged: {problems[0]}"
        new = Path(folder) / "new.sqlite3"
        yield from _salvaged(copy, new)
        if dry_run:
            yield "nothing was changed; without --dry-run this is put in its place"
            return
        kept = _replaced(path, new, "damaged")
        yield f"{path} has that now; the damaged file is kept as {kept}"


def _begins_as_sqlite(copy: Path) -> bool:
    with copy.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _copied(path: Path, folder: Path) -> Path:
    copy = folder / path.name
    for ending in ("", *_BESIDE[:2]):
        source = Path(f"{path}{ending}")
        if source.exists():
            shutil.copyfile(source, f"{copy}{ending}")
    return copy


def _problems(copy: Path) -> list[str]:
    """Errors that SQLite finds; nothing where the file is whole."""
    try:
        with closing(sqlite3.connect(copy)) as connection:
            found = connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})").fetchall()
    except sqlite3.Error as error:
        return [str(error)]
    lines = [line for (text,) in found for line in str(text).splitlines()]
    return (
        [] if lines == ["ok"] else [line for line in lines if not line.startswith("***")] or lines
    )


def _of_older_optuna(copy: Path) -> bool:
    """Whether its tables are those of an earlier Optuna, which can bring them up to date."""
    with closing(sqlite3.connect(copy)) as connection:
        try:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.Error:
            return False
    storage = optuna.storages.RDBStorage(f"sqlite:///{copy}", skip_compatibility_check=True)
    try:
        is_known = found is not None and found[0] in storage.get_all_versions()
        return is_known and storage.get_current_version() != storage.get_head_version()
    finally:
        close_storage(storage)


def _migrated(path: Path, copy: Path) -> str:
    """Bring the tables of a copy up to date, and put it in the place of the file, which is kept."""
    url = f"sqlite:///{copy}"
    # Optuna reads its older classes of distributions for that, and warns of them.
    with (
        storage_errors(f"sqlite:///{path}"),
        warnings.catch_warnings(category=FutureWarning, action="ignore"),
    ):
        storage = optuna.storages.RDBStorage(url, skip_compatibility_check=True)
        try:
            storage.upgrade()
        finally:
            close_storage(storage)
    kept = _replaced(path, copy, "before-update")
    return f"it was made by an older Optuna and is up to date now; as it was, it is kept in {kept}"


def _close_trials(storage: str | None, *, dry_run: bool) -> Iterator[str]:
    """Close trials whose processes are gone, and name studies that cannot be read."""
    studies = list_studies(storage)
    readable = [one.name for one in studies if one.problem is None]
    yield from (one.problem for one in studies if one.problem is not None)
    n_closed = 0
    with opened(storage) as (_url, opened_storage):
        for name in readable:
            study = optuna.load_study(study_name=name, storage=opened_storage)
            running = (optuna.trial.TrialState.RUNNING,)
            for trial in study.get_trials(deepcopy=False, states=running):
                if is_gone(trial.user_attrs.get(OWNER)):
                    n_closed += 1
                    if not dry_run:
                        close_trial(study, trial, {})
    if n_closed:
        said = "to close" if dry_run else "closed"
        yield f"{counted(n_closed, 'trial')} {said}, whose process has ended"
    else:
        yield "no trial was left open"


def _salvaged(damaged: Path, new: Path) -> Iterator[str]:
    """Make a new file of all that can be read of a damaged one; say how much that is."""
    url = f"sqlite:///{new}"
    _lengthen(damaged)
    close_storage(open_storage(url))
    with closing(sqlite3.connect(damaged)) as old, closing(sqlite3.connect(new)) as connection:
        torn = [table for table in _TABLES if not _copy_table(old, connection, table)]
        n_found = _copy_pages(damaged, _firsts(old, torn), connection, torn)
        n_found += _copy_indexes(old, connection, torn)
        (n_unmeasured,) = connection.execute(_UNMEASURED, (RECORD,)).fetchone()
        for statement in _TIDY:
            connection.execute(statement)
        connection.commit()
    lost = [name for name in _names(url) if not _is_whole(url, name)]
    for name in lost:
        with opened(url) as (_url, storage):
            optuna.delete_study(study_name=name, storage=storage)
        yield f"the study {name} cannot be read any more"
    with opened(url) as (_url, storage):
        summaries = optuna.get_all_study_summaries(storage, include_best_trial=False)
    n_trials = sum(one.n_trials for one in summaries)
    names = ", ".join(one.study_name for one in summaries) or "none"
    yield f"what can be read: {counted(n_trials, 'trial')}; studies: {names}"
    if n_found:
        rows = counted(n_found, "row")
        yield f"{rows} of that could be read only from single pages and indexes"
    if n_unmeasured:
        yield f"of {counted(n_unmeasured, 'trial')} what was measured is lost"
    if torn:
        yield (
            f"not all of {', '.join(torn)} can be read: studies, trials or what they keep may be "
            "missing, which the damaged file may still hold"
        )


def _lengthen(damaged: Path) -> None:
    """Give a copy that was cut off its length again, without which SQLite reads nothing of it."""
    with damaged.open("r+b") as file:
        head = file.read(32)
        page_bytes = int.from_bytes(head[16:18], "big")
        wanted = (65_536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[28:32], "big")
        if file.seek(0, os.SEEK_END) < wanted <= _LARGEST_BYTES:
            file.truncate(wanted)


def _names(url: str) -> list[str]:
    with opened(url) as (_url, storage):
        return optuna.get_all_study_names(storage)


def _is_whole(url: str, name: str) -> bool:
    try:
        with opened(url) as (_url, storage):
            study = optuna.load_study(study_name=name, storage=storage)
            study.get_trials(deepcopy=False)
            return isinstance(study.user_attrs, dict)
    except (BadInputError, ValueError, LookupError, TypeError, RuntimeError):
        return False


def _copy_table(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> bool:
    """Copy the rows that can be read; whether SQLite read to the table's end."""
    try:
        known = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
    except sqlite3.Error:
        return False
    taken = [row[1] for row in new.execute(f"PRAGMA table_info({table})") if row[1] in known]
    if not taken:
        return False
    columns = ", ".join(taken)
    insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({', '.join('?' * len(taken))})"  # noqa: S608 - names of ours
    is_whole = True
    for row in _rows(old, table, columns):
        if row is not None and _is_sound(dict(zip(taken, row, strict=True)), table):
            new.execute(insert, row)
        else:
            is_whole = False
    return is_whole


def _copy_indexes(old: sqlite3.Connection, new: sqlite3.Connection, torn: Sequence[str]) -> int:
    """Copy what indexes tell of studies and trials that could not be read; the number of rows."""
    before = new.total_changes
    for table, (asked, insert) in _INDEXED.items():
        if table in torn:
            with suppress(sqlite3.Error):
                new.executemany(insert, old.execute(asked))
    return new.total_changes - before


def _firsts(old: sqlite3.Connection, torn: Sequence[str]) -> list[int]:
    """First pages of the tables that were read whole."""
    try:
        found = old.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'")
        return [first for name, first in found if name not in torn]
    except sqlite3.Error:
        return []


def _copy_pages(
    damaged: Path, firsts: Sequence[int], new: sqlite3.Connection, torn: Sequence[str]
) -> int:
    """Copy what pages hold of the tables that could not be read whole; return the number of rows.

    Args:
        damaged: the file.
        firsts: first pages of the tables that were.
        new: takes the rows, where it does not have them.
        torn: names of the tables.
    """
    if not torn:
        return 0
    columns = {table: new.execute(f"PRAGMA table_info({table})").fetchall() for table in torn}
    before = new.total_changes
    with (
        damaged.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        for number, values in chain.from_iterable(Pages(content).rows(firsts)):
            table = _table_of(values, columns)
            if table is not None:
                marks = ", ".join("?" * len(values))
                # Optuna's tables begin with the number of the row.
                row = (number, *values[1:])
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608 - names of ours
    return new.total_changes - before


def _table_of(values: Values, columns: Mapping[str, Sequence[Sequence[Any]]]) -> str | None:
    """The table that a row is of, by its values; None where it is of none.

    Args:
        values: as its page has them.
        columns: what SQLite tells of each table's columns.
    """
    fitting = [table for table, told in columns.items() if _fits(values, told, table)]
    if len(fitting) <= 1:
        return next(iter(fitting), None)
    # Attributes of studies and trials look alike but for what they are called.
    key = values[2]
    if key == QUEUED:
        wanted = "trial_system_attributes"
    elif isinstance(key, str):
        of_trial = key in {RECORD, OWNER, OFF, ARM}
        wanted = "trial_user_attributes" if of_trial else "study_user_attributes"
    else:
        wanted = "trial_values"
    return wanted if wanted in fitting else None


def _fits(values: Values, told: Sequence[Sequence[Any]], table: str) -> bool:
    """Whether a row may be of a table, whose columns SQLite tells."""
    if len(told) != len(values) or values[0] is not None:
        return False
    types = (_KINDS[column[2].partition("(")[0]] for column in told)
    if not all(
        one is None or isinstance(one, kind) for one, kind in zip(values, types, strict=True)
    ):
        return False
    return _is_sound({column[1]: one for column, one in zip(told, values, strict=True)}, table)


def _rows(old: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[object, ...] | None]:
    """Every row that can be read: all at once, and behind a damaged page one by one; None there."""
    last, select = 0, f"SELECT rowid, {columns} FROM {table} WHERE rowid"  # noqa: S608 - names of ours
    try:
        for row in old.execute(f"{select} > 0 ORDER BY rowid"):
            last = row[0]
            yield row[1:]
    except sqlite3.Error:
        yield None
        try:
            (end,) = old.execute(f"SELECT max(rowid) FROM {table}").fetchone()  # noqa: S608 - names of ours
        except sqlite3.Error:
            end = last + _MOST_ROWS // 100
        for number in range(last + 1, min(end or 0, last + _MOST_ROWS) + 1):
            try:
                row = old.execute(f"{select} = ?", (number,)).fetchone()
            except sqlite3.Error:
                continue
            if row is not None:
                yield row[1:]


def _is_sound(row: dict[str, object], table: str) -> bool:
    """Whether a row is what Optuna writes; damaged pages may hold anything."""
    if table == "trials" and row["state"] not in _STATES:
        return False
    try:
        for name, value in row.items():
            if name.endswith("_json"):
                json.loads(str(value))
    except (ValueError, RecursionError):
        return False
    return True


def _replaced(path: Path, new: Path, why: str) -> Path:
    """Put a new file in the place of another one; where that is kept."""
    kept = _beside(path, why)
    new.chmod(path.stat().st_mode & 0o7777)
    with new.open("rb") as file:
        os.fsync(file.fileno())
    # First those that SQLite would take for the new file's.
    for ending in _BESIDE:
        if (one := Path(f"{path}{ending}")).exists():
            one.rename(f"{kept}{ending}")
    try:
        os.link(path, kept)
    except OSError:
        # File systems without hard links: for a moment there is no file.
        path.rename(kept)
    new.replace(path)
    return kept


def _beside(path: Path, why: str) -> Path:
    """A name beside a file that is free."""
    stamp = f"{datetime.now(UTC).astimezone():%Y%m%dT%H%M%S}"
    names = (f"{path}.{why}-{stamp}{end}" for end in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(found for name in names if not (found := Path(name)).exists())
