"""Stored sweeps: a folder each, with a line per record, written at once."""

import fcntl
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import msgspec

from spectui.closing import Closing
from spectui.errors import BadInputError
from spectui.measure.comparable import differences
from spectui.options.stored import check_schema, current, schema_of
from spectui.paths import data_dir, ensure_dir
from spectui.sweep.cells import Visit
from spectui.sweep.record import VisitRecord, VisitState
from spectui.writing import append, open_private

_MOST_ATTEMPTS = 2
"""Number of times that a visit may end the process before it is given up."""


_SCHEMA: Literal["spectui.sweep-log/1"] = "spectui.sweep-log/1"
_HINT = "give another --name, or --restart to begin it anew"


class _Header(msgspec.Struct, frozen=True, kw_only=True, tag="sweep", tag_field="kind"):
    schema: Literal["spectui.sweep-log/1"] = _SCHEMA
    spec: dict[str, Any]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag="visit", tag_field="kind"):
    record: VisitRecord


_ENDS = (VisitState.COMPLETE, VisitState.FAILED)


def _decoded(line: bytes) -> _Header | _Line | None:
    """A line, of an earlier version as well; None if it is damaged."""
    try:
        return msgspec.convert(current(msgspec.json.decode(line)), _Header | _Line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _schema(line: bytes) -> object:
    """Schema of a header that is not this version's; None for a line without one."""
    try:
        return schema_of(msgspec.json.decode(line))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class SweepStore(Closing):
    """The records of one sweep, locked against other processes while it is open."""

    def __init__(
        self,
        name: str,
        spec: dict[str, Any],
        *,
        restart: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Open the sweep ``name``, or create it.

        Args:
            name: name of its folder.
            spec: everything that must be equal for its records to be comparable.
            restart: begin anew; what there is stays under another name.
            say: told of what was passed over.

        Raises:
            BadInputError: the name cannot be a folder's, another process has it, it holds something
                else, or it cannot be written.
        """
        self.name = name
        self.path = sweep_folder(name) / "cells.jsonl"
        self._say = say
        self._last: dict[Visit, VisitRecord] = {}
        self._attempts: dict[Visit, int] = {}
        ensure_dir(self.path.parent)
        self._file = self._open()
        try:
            if restart:
                self._put_aside()
            self._read(spec)
        except BaseException:
            self._file.close()
            raise

    @property
    def records(self) -> tuple[VisitRecord, ...]:
        """The last record of every visit that has ended."""
        known = map(self.record_of, self._last)
        return tuple(record for record in known if record is not None)

    def record_of(self, visit: Visit) -> VisitRecord | None:
        """The record of ``visit``; None if it has not ended yet.

        One that has ended the process twice counts as failed.
        """
        record = self._last.get(visit)
        if record is None or record.state is not VisitState.STARTED:
            return record
        if self._attempts[visit] < _MOST_ATTEMPTS:
            return None
        return VisitRecord(
            visit=visit,
            state=VisitState.FAILED,
            error=(
                f"spectui was ended {self._attempts[visit]} times while it ran; "
                "--retry-failed tries it again"
            ),
        )

    def append(self, record: VisitRecord) -> None:
        """Write ``record`` at once.

        Raises:
            BadInputError: it cannot be written; it is in ``records`` all the same.
        """
        self._remember(record)
        self._write(_Line(record=record))

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def _open(self) -> FileIO:
        try:
            # Without a buffer, of which closing would write again what has no room.
            file = FileIO(open_private(self.path, os.O_RDWR | os.O_APPEND), "a+b")
        except OSError as error:
            raise self._cannot_write(error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BadInputError(
                f"the sweep {self.name} is being run by another spectui; wait until that has "
                "ended, or give another --name"
            ) from error
        if not _is_at(file, self.path):
            # Put aside by the one that has just ended.
            file.close()
            return self._open()
        return file

    def _put_aside(self) -> None:
        """Rename the stored files; nothing is ever deleted."""
        if not self.path.stat().st_size:
            return
        numbers = (f"cells.{number}.jsonl" for number in range(1, 1_000_000))
        old = next(path for n in numbers if not (path := self.path.with_name(n)).exists())
        self.path.rename(old)
        self._file.close()
        self._file = self._open()
        self._say(f"begins anew; what was measured before is kept in {old}")

    def _read(self, spec: dict[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole, _, torn = content.rpartition(b"\n")
        header, *lines = map(_decoded, whole.splitlines()) if whole else (None,)
        if whole:
            self._check(header, whole.splitlines()[0], spec)
        if torn:
            self._file.truncate(len(content) - len(torn))
            self._say(f"{self.path}: the last line was cut off and is dropped")
        if not whole:
            self._write(_Header(spec=spec))
            return
        for number, line in enumerate(lines, start=2):
            if line is None:
                self._say(f"{self.path}: line {number} is damaged and passed over")
            elif isinstance(line, _Line):
                self._remember(line.record)

    def _check(self, header: _Header | _Line | None, line: bytes, spec: dict[str, Any]) -> None:
        if not isinstance(header, _Header):
            if (schema := _schema(line)) is not None:
                check_schema(schema, _SCHEMA, str(self.path), what="sweep", advice=_HINT)
            raise BadInputError(f"{self.path} is no sweep that this spectui reads; {_HINT}")
        differing = differences(header.spec, spec)
        if differing is not None:
            raise BadInputError(
                f"the sweep {self.name} was measured {differing}, so that the numbers do not "
                f"compare; {_HINT}"
            )

    def _remember(self, record: VisitRecord) -> None:
        visit = record.visit
        if record.state in _ENDS:
            self._attempts[visit] = 0
            self._last[visit] = record
        elif record.state is VisitState.STARTED:
            self._attempts[visit] = self._attempts.get(visit, 0) + 1
            # Of a repetition of what has failed, that is known until it ends.
            self._last.setdefault(visit, record)
        else:
            self._attempts[visit] = 0

    def _write(self, line: _Header | _Line) -> None:
        try:
            append(self._file, msgspec.json.encode(line) + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> BadInputError:
        return BadInputError(
            f"the sweep cannot be stored in {self.path} ({error.strerror}); make room there, or "
            "make it writable"
        )


def _is_at(file: FileIO, path: Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def sweep_folder(name: str) -> Path:
    """Folder of the sweep ``name``.

    Raises:
        BadInputError: it can be no folder's name.
    """
    is_plain = name.isprintable() and "/" not in name and name not in {"", ".", ".."}
    if not is_plain or len(os.fsencode(name)) > os.pathconf("/", "PC_NAME_MAX"):
        raise BadInputError(f"--name {name!r} can be no folder's name; give a plain word")
    return data_dir() / "sweeps" / name
