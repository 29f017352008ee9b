"""What a preset's models are on the hub, and how much of them is here."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from glob import escape
from pathlib import Path

from spectui.presets.checksum import is_remembered

_VERSION_DIGITS = 12
_VERSION = "[0-9a-f]" * _VERSION_DIGITS


class Role(StrEnum):
    """What a preset names a model for."""

    TARGET = "target"
    DRAFT = "draft"


class State(StrEnum):
    """How much of a file is here."""

    VERIFIED = "verified"
    UNCHECKED = "unchecked"
    """All of it, by its size."""
    PARTIAL = "partial"
    MISSING = "missing"
    FOREIGN = "foreign"
    """Something else has its name."""


class Step(StrEnum):
    """What is done to a file."""

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
        """Where its bytes are gathered. Another version of the file has another one."""
        return self.path.with_name(f"{self.path.name}.{self.source.sha256[:_VERSION_DIGITS]}.part")

    def other_parts(self) -> Iterator[Path]:
        """Where bytes of other versions were gathered."""
        beside = self.path.parent.glob(f"{escape(self.path.name)}.{_VERSION}.part")
        return (path for path in beside if path != self.part)

    @property
    def present_bytes(self) -> int:
        """How much of it is here."""
        match self.state:
            case State.VERIFIED | State.UNCHECKED:
                return self.source.size_bytes
            case State.PARTIAL:
                return self.part.stat().st_size
            case State.MISSING | State.FOREIGN:
                return 0

    @property
    def state(self) -> State:
        """How much of it is here, and whether that was found to be right."""
        if self.path.is_file() and self.path.stat().st_size == self.source.size_bytes:
            is_right = is_remembered(self.path, self.source.sha256)
            return State.VERIFIED if is_right else State.UNCHECKED
        # A link that leads nowhere is the user's as well.
        if os.path.lexists(self.path):
            return State.FOREIGN
        return State.PARTIAL if self.part.is_file() else State.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """All files that are wanted of a preset. What is said of the disk is as it is now."""

    preset: str
    folder: Path
    files: tuple[PlannedFile, ...]

    @property
    def missing_bytes(self) -> int:
        """What is still to be fetched."""
        return sum(max(0, file.source.size_bytes - file.present_bytes) for file in self.files)

    @property
    def free_bytes(self) -> int:
        """Of the disk that the folder is on, or will be."""
        folders = (self.folder, *self.folder.parents)
        return shutil.disk_usage(next(path for path in folders if path.is_dir())).free


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far one file is."""

    file: str
    step: Step
    done_bytes: int
    size_bytes: int
    bytes_per_s: float | None
    """Since this step began; None before anything was done."""

    @property
    def left_s(self) -> float | None:
        """How long this step will go on at that rate."""
        if not self.bytes_per_s:
            return None
        return (self.size_bytes - self.done_bytes) / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPaused:
    """The connection was lost; after a while the rest is asked for."""

    file: str
    reason: str
    pause_s: float


PullEvent = PullProgress | PullPaused
