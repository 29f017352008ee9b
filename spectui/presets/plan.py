"""Plans of a pull: a preset's models on the hub, and how much of them is here."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from glob import escape
from pathlib import Path

from spectui.reading import SMALL_BYTES, open_file, read_file

_VERSION_DIGITS = 12
_VERSION = "[0-9a-f]" * _VERSION_DIGITS


class Role(StrEnum):
    """Role of a model in a preset."""

    TARGET = "target"
    DRAFT = "draft"


class State(StrEnum):
    """Completeness of a file on this machine."""

    VERIFIED = "verified"
    UNCHECKED = "unchecked"
    """All of it, by its size."""
    PARTIAL = "partial"
    MISSING = "missing"
    FOREIGN = "foreign"
    """Something else has its name."""


class Step(StrEnum):
    """Step of a pull."""

    FETCHING = "fetching"
    CHECKING = "checking"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a repository, as the hub describes it."""

    repo: str
    commit: str
    name: str
    """Within the repository, with its folders."""
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file of a preset's models, and where it belongs."""

    role: Role
    source: HubFile
    path: Path

    @property
    def part(self) -> Path:
        """File in which its bytes are gathered. Another version of the file has another one."""
        return self.path.with_name(f"{self.path.name}.{self.source.sha256[:_VERSION_DIGITS]}.part")

    def other_parts(self) -> Iterator[Path]:
        """Return files in which bytes of other versions were gathered."""
        beside = self.path.parent.glob(f"{escape(self.path.name)}.{_VERSION}.part")
        return (path for path in beside if path != self.part)

    @property
    def present_bytes(self) -> int:
        """Bytes of the file that are already here."""
        match self.state:
            case State.VERIFIED | State.UNCHECKED:
                return self.source.size_bytes
            case State.PARTIAL:
                return self.part.stat().st_size
            case State.MISSING | State.FOREIGN:
                return 0

    @property
    def state(self) -> State:
        """Completeness, and whether the file was verified."""
        if self.path.is_file() and self.path.stat().st_size == self.source.size_bytes:
            is_right = is_remembered(self.path, self.source.sha256)
            return State.VERIFIED if is_right else State.UNCHECKED
        # A link that leads nowhere is the user's as well.
        if os.path.lexists(self.path):
            return State.FOREIGN
        return State.PARTIAL if self.part.is_file() else State.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """All files that a preset needs. Facts of the disk are the present ones."""

    preset: str
    folder: Path
    files: tuple[PlannedFile, ...]

    @property
    def missing_bytes(self) -> int:
        """Bytes still to be fetched."""
        return sum(max(0, file.source.size_bytes - file.present_bytes) for file in self.files)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the disk that the folder is on, or will be."""
        folders = (self.folder, *self.folder.parents)
        return shutil.disk_usage(next(path for path in folders if path.is_dir())).free


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """Progress of one file."""

    file: str
    step: Step
    done_bytes: int
    size_bytes: int
    bytes_per_s: float | None
    """Since this step began; None before anything was done."""

    @property
    def left_s(self) -> float | None:
        """Seconds that this step will go on at that rate."""
        if not self.bytes_per_s:
            return None
        return (self.size_bytes - self.done_bytes) / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPaused:
    """The connection was lost; the rest is requested after a while."""

    file: str
    reason: str
    pause_s: float


PullEvent = PullProgress | PullPaused


_CHUNK_BYTES = 4 << 20


def sha256_of(path: Path, on_bytes: Callable[[int], None]) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
        on_bytes: called with how many bytes have been read so far.
    """
    digest = hashlib.sha256()
    with open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(file.tell())
    return digest.hexdigest()


def remember(path: Path, sha256: str) -> None:
    """Keep what the file's checksum is, in the format of ``sha256sum``."""
    beside = _beside(path)
    beside.write_text(f"{sha256}  {path.name}\n", encoding="utf-8")
    # It carries the file's own time: a file that is written to later no longer fits.
    status = path.stat()
    os.utime(beside, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_remembered(path: Path, sha256: str) -> bool:
    """Tell whether the file was found to have this checksum, and has not changed since."""
    beside = _beside(path)
    if not beside.is_file() or beside.stat().st_mtime_ns != path.stat().st_mtime_ns:
        return False
    return read_file(beside, SMALL_BYTES).startswith(sha256.encode())


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
