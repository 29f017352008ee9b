"""What threads tell the screen. Past tense: it has happened."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from spectui.demo import DemoModel, DemoProgress
from spectui.sessions import Session

if TYPE_CHECKING:
    from spectui.live.session import LiveSession


class EventsArrived(Message):
    """The mailbox is no longer empty."""

    def can_replace(self, message: Message) -> bool:
        """One wake-up is as good as many."""
        return isinstance(message, EventsArrived)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """llama.cpp is imported and an engine waits for work."""

    session: "LiveSession"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """There is no engine, or no demo model."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoBuilding:
    """A demo model is being built."""

    progress: DemoProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoBuilt:
    """The demo models are on disk."""

    paths: dict[DemoModel, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinished:
    """All folders were searched for models."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsRead:
    """The last stored sessions were read, the newest first."""

    sessions: tuple[Session, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorFailed:
    """There are no readings any more."""

    reason: str
