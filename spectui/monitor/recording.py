"""Recorded readings: JSON lines, a header first and then a snapshot per line."""

import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from spectui import __version__
from spectui.errors import BadInputError
from spectui.monitor.machine import Machine
from spectui.monitor.readings import Snapshot
from spectui.monitor.sampler import Source
from spectui.reading import LARGE_BYTES, read_file

T = TypeVar("T")

_ADVICE = "give a file that tools/record_monitor.py has written"


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First line of a recording."""

    schema: Literal["spectui.monitor/1"] = "spectui.monitor/1"
    spectui: str = __version__
    """The version that wrote it."""
    machine: Machine
    recorded: Literal["live", "constructed"]
    """Whether a machine said so, or a program made it up."""


class Recorder:
    """A source that writes down what passes through it."""

    def __init__(
        self,
        path: Path,
        source: Source,
        *,
        machine: Machine,
        recorded: Literal["live", "constructed"] = "live",
    ) -> None:
        """Write ``path`` anew.

        Raises:
            BadInputError: the file cannot be written.
        """
        self._source = source
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise BadInputError(
                f"cannot write the recording {path} ({error.strerror}); give another path"
            ) from error
        self._write(Header(machine=machine, recorded=recorded))

    def read(self) -> Snapshot:
        """Read the source, and keep what it tells."""
        snapshot = self._source.read()
        self._write(snapshot)
        return snapshot

    def close(self) -> None:
        """Close the file and the source."""
        try:
            # Of a full disk the reader of the source has heard.
            with suppress(OSError):
                self._file.close()
        finally:
            self._source.close()

    def _write(self, line: Header | Snapshot) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        # A recording that ends with a crash is worth most up to that moment.
        self._file.flush()


class RecordedSource:
    """A source that plays a recording by its own time stamps."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, loop: bool = True
    ) -> None:
        """Read all of ``path``; it plays from the first ``read`` on.

        Args:
            path: a recording.
            clock: clock of the snapshots' times.
            loop: begin again at the end, rather than stay there.

        Raises:
            BadInputError: the file is no recording.
        """
        self.header, self._snapshots = load(path)
        self._times_s = [snapshot.time_s for snapshot in self._snapshots]
        self._clock = clock
        self._loop = loop
        self._began_s: float | None = None

    def read(self) -> Snapshot:
        """Return the snapshot that is due now."""
        now_s = self._clock()
        if self._began_s is None:
            self._began_s = now_s
        played_s = now_s - self._began_s
        if self._loop:
            played_s %= self._duration_s()
        due = bisect_right(self._times_s, self._times_s[0] + played_s)
        return replace(self._snapshots[max(due, 1) - 1], time_s=now_s)

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _duration_s(self) -> float:
        """The last snapshot lasts as long as the others do on average."""
        if len(self._times_s) == 1:
            return 1.0
        span_s = self._times_s[-1] - self._times_s[0]
        return span_s + span_s / (len(self._times_s) - 1)


def load(path: Path) -> tuple[Header, tuple[Snapshot, ...]]:
    """Return header and snapshots of a recording.

    Raises:
        BadInputError: it cannot be read, or a line is wrong.
    """
    try:
        lines = read_file(path, LARGE_BYTES).splitlines()
    except OSError as error:
        raise BadInputError(
            f"cannot read the recording {path} ({error.strerror}); {_ADVICE}"
        ) from error
    if len(lines) <= 1:
        raise BadInputError(f"{path} holds no snapshot; {_ADVICE}")
    header = _decode(lines[0], Header, f"{path}, line 1")
    snapshots: list[Snapshot] = []
    for number, line in enumerate(lines[1:], start=2):
        where = f"{path}, line {number}"
        snapshot = _decode(line, Snapshot, where)
        if snapshots and snapshot.time_s <= snapshots[-1].time_s:
            raise BadInputError(f"{where}: time_s does not grow; {_ADVICE}")
        snapshots.append(snapshot)
    return header, tuple(snapshots)


def _decode(line: bytes, form: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(line, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{where}: {error}; {_ADVICE}") from error
