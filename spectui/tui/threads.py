"""The threads behind the screens, and the events that they post. Nothing here touches a widget."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from spectui.demo import DemoModel, ensure_demo_models
from spectui.errors import SpectuiError
from spectui.live.sessions import Session, recent_sessions
from spectui.models.files import Scan
from spectui.tui.dialogs import LogLines
from spectui.tui.mailbox import Mailbox

if TYPE_CHECKING:
    from spectui.commands.sources.processes import RunningServer
    from spectui.live.session import LiveSession
    from spectui.monitor.sampler import Sampler
    from spectui.server.watch.poller import Attachment, Poller

_N_SESSIONS = 20
"""Stored sessions to read, for the picker and for the prompts that Up recalls."""
_CLOSE_S = 1.5
"""Longest wait at the end for native code that does not notice that it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """llama.cpp is imported and an engine waits for work."""

    session: "LiveSession"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """The engine or a demo model could not be started."""

    reason: str


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
class ServersFound:
    """llama-servers that run on this machine."""

    servers: "tuple[RunningServer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorFailed:
    """The monitor has stopped giving readings."""

    reason: str


class Threads:
    """Owns the engine's session, the monitor, and a thread for whatever takes long."""

    def __init__(self, mailbox: Mailbox[object], log_file: int | None = None) -> None:
        """Start without any worker.

        Args:
            mailbox: takes every event, from any thread.
            log_file: descriptor that gets llama.cpp's log too: it outlives a crash.
        """
        self._mailbox = mailbox
        self._post = mailbox.put
        self._log_file = log_file
        self.log = LogLines()
        self._stopped = threading.Event()
        self._demo_stopped = threading.Event()
        self._session: LiveSession | None = None
        self._sampler: Sampler | None = None
        self._poller: Poller | None = None

    def start(self, interval_s: float) -> None:
        """Import what is heavy and start the engine and the monitor. Answered by events."""
        self._spawn("start", lambda: self._start(interval_s))

    def _start(self, interval_s: float) -> None:
        try:
            self._start_monitor(interval_s)
            self._start_engine()
        except SpectuiError as error:
            self._post(StartFailed(reason=str(error)))
        except (ImportError, OSError) as error:
            self._post(
                StartFailed(
                    reason=f"llama-cpp-python cannot be loaded ({error}); install spectui again"
                )
            )

    def _start_monitor(self, interval_s: float) -> None:
        # Imported here: it loads NVML's binding.
        from spectui.monitor.sampler import LiveSource, Sampler  # noqa: PLC0415

        self._sampler = Sampler(
            lambda: LiveSource(process=self._process),
            self._post,
            interval_s=interval_s,
            on_failure=lambda reason: self._post(MonitorFailed(reason=reason)),
        )
        self._sampler.start()

    def sample_every(self, interval_s: float) -> None:
        """Read the machine more or less often."""
        if self._sampler is not None and self._sampler.interval_s != interval_s:
            self._sampler.interval_s = interval_s

    def watch_server(self, server: "Attachment", interval_s: float) -> "Poller":
        """Return what asks a server from its start on. Answered by a ``Sample`` each time."""
        from spectui.server.watch.poller import Poller  # noqa: PLC0415 - few watch one

        self._poller = Poller(server, self._post, interval_s=interval_s, on_failure=self._post)
        return self._poller

    def stop_watching(self) -> None:
        """Ask the server no more."""
        if self._poller is not None:
            self._poller.close()
            self._poller = None

    def _start_engine(self) -> None:
        # Imported here: the screen is painted long before llama.cpp and Optuna are loaded.
        from spectui.live.session import LiveSession, SessionEvent  # noqa: PLC0415
        from spectui.llama.log import native_log  # noqa: PLC0415

        def discard() -> None:
            void = get_args(SessionEvent)
            self._mailbox.discard(lambda event: isinstance(event, void))

        native_log.listen(self._on_log)
        self._session = LiveSession(self._post, discard)
        if self._stopped.is_set():
            self._session.close()
            return
        self._post(EngineStarted(session=self._session))

    def _process(self) -> int | None:
        return None if self._session is None else self._session.process

    def _on_log(self, line: str) -> None:
        self.log.add(line)
        if self._log_file is not None:
            # A disk that is full costs the log, not the screen.
            with suppress(OSError):
                os.write(self._log_file, line.encode(errors="replace") + b"\n")

    def build_demo(self, target: DemoModel) -> None:
        """Build a demo target and its draft. Answered by ``DemoBuilt`` or ``StartFailed``."""
        self._demo_stopped = stopped = threading.Event()
        self._spawn("demo", lambda: self._build_demo(target, stopped))

    def _build_demo(self, target: DemoModel, stopped: threading.Event) -> None:
        def is_void() -> bool:
            return stopped.is_set() or self._stopped.is_set()

        try:
            built = ensure_demo_models(
                (target, DemoModel.DRAFT), on_progress=self._post, cancelled=is_void
            )
        except SpectuiError as error:
            if not is_void():
                self._post(StartFailed(reason=str(error)))
        else:
            self._post(DemoBuilt(paths=built))

    def stop_demo(self) -> None:
        """Let the build of the demo models end without an answer, after the tensor it is at."""
        self._demo_stopped.set()

    def read_sessions(self) -> None:
        """Read the last stored sessions. Answered by ``SessionsRead``."""
        self._spawn("sessions", self._read_sessions)

    def _read_sessions(self) -> None:
        self._post(SessionsRead(sessions=recent_sessions(_N_SESSIONS)))

    def scan(self, folders: Sequence[Path]) -> None:
        """Look for models. Answered by a ``FoundModel`` for each, then ``ScanFinished``."""
        self._spawn("scan", lambda: self._scan(folders))

    def _scan(self, folders: Sequence[Path]) -> None:
        scan = Scan(folders, self._stopped.is_set)
        for model in scan:
            self._post(model)
        self._post(ScanFinished(reasons=tuple(scan.reasons)))

    def look_for_servers(self) -> None:
        """Look which llama-servers run. Answered by ``ServersFound``."""
        self._spawn("servers", self._look_for_servers)

    def _look_for_servers(self) -> None:
        # Loaded for who chooses models; most starts name theirs.
        from spectui.commands.sources.processes import running_servers  # noqa: PLC0415

        self._post(ServersFound(servers=tuple(running_servers())))

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"spectui-{name}", daemon=True).start()

    def close(self) -> None:
        """End everything; wait a moment for what is native, but not longer."""
        self._stopped.set()
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._sampler is not None:
            self._sampler.close()
        self.stop_watching()
