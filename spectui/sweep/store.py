"""Stored sweeps: a folder each, with a line per record, written at once."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from spectui.closing import Closing
from spectui.errors import BadInputError
from spectui.files import PRIVATE, append, open_private
from spectui.measure.comparable import differences
from spectui.options.stored import check_schema, current, with_observed_runs
from spectui.paths import data_dir, ensure_dir
from spectui.sweep.cells import Visit, VisitRecord

_SCHEMA = "spectui.sweep-log/1"
_HINT = "give another --name, or --restart to begin it anew"


class _Header(msgspec.Struct, frozen=True, kw_only=True, tag="sweep", tag_field="kind"):
    schema: str = _SCHEMA
    spec: dict[str, Any]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag="visit", tag_field="kind"):
    record: VisitRecord


def _decoded(line: bytes) -> _Header | _Line | None:
    """A line, of an earlier version as well; None if it is damaged.

    Lines of visits that had begun, which earlier versions wrote, count as damaged.
    """
    try:
        kept = with_observed_runs(current(msgspec.json.decode(line)))
        return msgspec.convert(kept, _Header | _Line)
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
            say: called with its place.

        Raises:
            BadInputError: the name cannot be a folder's, another process has it, it holds something
                else, or it cannot be written.
        """
        self.name = name
        self.path = sweep_folder(name) / "cells.jsonl"
        self._say = say
        self._last: dict[Visit, VisitRecord] = {}
        ensure_dir(self.path.parent)
        with ExitStack() as opened:
            self._file = self._open(opened, restart=restart)
            self._read(spec)
            self._opened = opened.pop_all()

    @property
    def records(self) -> tuple[VisitRecord, ...]:
        """The last record of every visit that has ended."""
        return tuple(self._last.values())

    def append(self, record: VisitRecord) -> None:
        """Write ``record`` at once.

        Raises:
            BadInputError: it cannot be written; it is in ``records`` all the same.
        """
        self._last[record.visit] = record
        self._write(_Line(record=record))

    def close(self) -> None:
        """Release the lock."""
        self._opened.close()

    def _open(self, opened: ExitStack, *, restart: bool) -> FileIO:
        """Keep the sweep for this process until ``opened`` is closed, and open its file."""
        lock = FileLock(self.path.with_suffix(".lock"), mode=PRIVATE, blocking=False)
        try:
            opened.enter_context(lock)
            if restart:
                self._put_aside()
            # Unbuffered: a buffer would try to write again on closing, on a full disk.
            file = FileIO(open_private(self.path, os.O_RDWR | os.O_APPEND), "a+b")
        except Timeout as error:
            raise BadInputError(
                f"the sweep {self.name} is being run by another spectui; wait until that has "
                "ended, or give another --name"
            ) from error
        except OSError as error:
            raise self._cannot_write(error) from error
        return opened.enter_context(file)

    def _put_aside(self) -> None:
        """Rename the stored file; nothing is ever deleted."""
        if not self.path.exists():
            return
        numbers = (f"cells.{number}.jsonl" for number in range(1, 1_000_000))
        old = next(path for n in numbers if not (path := self.path.with_name(n)).exists())
        self.path.rename(old)
        self._say(f"begins anew; what was measured before is kept in {old}")

    def _read(self, spec: dict[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole, _, torn = content.rpartition(b"\n")
        header, *lines = map(_decoded, whole.splitlines()) if whole else (_Header(spec=spec),)
        self._check(header, spec)
        if torn:
            # A power failure cut the line off.
            self._file.truncate(len(content) - len(torn))
        if not whole:
            self._write(_Header(spec=spec))
        self._last = {one.record.visit: one.record for one in lines if isinstance(one, _Line)}

    def _check(self, header: _Header | _Line | None, spec: dict[str, Any]) -> None:
        if not isinstance(header, _Header):
            raise BadInputError(f"{self.path} is no sweep that this spectui reads; {_HINT}")
        check_schema(header.schema, _SCHEMA, str(self.path), what="sweep", advice=_HINT)
        differing = differences(header.spec, spec)
        if differing is not None:
            raise BadInputError(
                f"the sweep {self.name} was measured {differing}, so that the numbers do not "
                f"compare; {_HINT}"
            )

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


def sweep_folder(name: str) -> Path:
    """Folder of the sweep ``name``.

    Raises:
        BadInputError: it can be no folder's name.
    """
    is_plain = name.isprintable() and "/" not in name and name not in {"", ".", ".."}
    if not is_plain or len(os.fsencode(name)) > os.pathconf("/", "PC_NAME_MAX"):
        raise BadInputError(f"--name {name!r} can be no folder's name; give a plain word")
    return data_dir() / "sweeps" / name
