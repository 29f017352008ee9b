"""The threads behind the screens. They post their results; nothing here touches a widget."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from spectui import __version__
from spectui.demo import DemoModel, DemoProgress, ensure_demo_models
from spectui.errors import SpectuiError
from spectui.live.sessions import Session, recent_sessions
from spectui.models.files import FoundModel, Scan
from spectui.tui.mailbox import Mailbox

if TYPE_CHECKING:
    from spectui.commands.sources.processes import RunningServer
    from spectui.live.session import LiveSession
    from spectui.monitor.sampler import Sampler
    from spectui.server.watch.locator import Address
    from spectui.server.watch.poller import Poller

_N_SESSIONS = 20
"""Stored sessions to read, for the picker and for the prompts that Up recalls."""
_CLOSE_S = 1.5
"""Longest wait at the end for native code that does not end by itself."""


class Threads:
    """Owns the engine's session, the monitor, and a thread for whatever takes long.

    A request comes with a function, which is posted with the result: the reader of the mailbox
    calls it.
    """

    def __init__(self, mailbox: Mailbox[object], log_file: int | None = None) -> None:
        """Start without any worker.

        Args:
            mailbox: takes every event and every call, from any thread.
            log_file: descriptor that gets llama.cpp's log.
        """
        self._mailbox = mailbox
        self._post = mailbox.put
        self._log_file = log_file
        self._stopped = threading.Event()
        self._demo_stopped = threading.Event()
        self._session: LiveSession | None = None
        self._sampler: Sampler | None = None
        self._poller: Poller | None = None
        self._served: Callable[[], int | None] = lambda: None
        """Asked for the process of the watched server."""

    def start(
        self,
        interval_s: float,
        on_engine: "Callable[[LiveSession], None]",
        on_failure: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """Import what is heavy and start the engine and the monitor.

        Args:
            interval_s: from one reading of the machine to the next.
            on_engine: takes the engine's session.
            on_failure: takes the reason why there is no engine.
            warn: takes the reason why readings have ended.
        """

        def begin() -> None:
            try:
                self.start_monitor(interval_s, warn)
                self._start_engine(on_engine)
            except SpectuiError as error:
                self._post(partial(on_failure, str(error)))
            except (ImportError, OSError) as error:
                reason = f"llama-cpp-python cannot be loaded ({error}); install spectui again"
                self._post(partial(on_failure, reason))

        self._spawn("start", begin)

    def start_monitor(self, interval_s: float, warn: Callable[[str], None]) -> None:
        """Read the machine from now on, if it is not read already.

        Args:
            interval_s: from one reading to the next.
            warn: takes the reason why readings have ended.
        """
        if self._sampler is not None:
            return
        # Imported here: it loads NVML's binding.
        from spectui.monitor.sampler import LiveSource, Sampler  # noqa: PLC0415

        self._sampler = Sampler(
            lambda: LiveSource(process=self._process),
            self._post,
            interval_s=interval_s,
            on_failure=lambda reason: self._post(partial(warn, reason)),
        )
        self._sampler.start()

    def sample_every(self, interval_s: float) -> None:
        """Read the machine more or less often."""
        if self._sampler is not None and self._sampler.interval_s != interval_s:
            self._sampler.interval_s = interval_s

    def watch_server(
        self, server: "Address", interval_s: float, process: Callable[[], int | None]
    ) -> "Poller":
        """Return a poller that posts a ``Sample`` of a server for each of its requests.

        Args:
            server: address of the server.
            interval_s: from one request to the next.
            process: asked for the server's process, which the monitor reads; None if not known.
        """
        from spectui.server.watch.poller import Poller  # noqa: PLC0415 - few watch one

        self._served = process
        self._poller = Poller(server, self._post, interval_s=interval_s, on_failure=self._post)
        return self._poller

    def stop_watching(self) -> None:
        """End the requests to the server."""
        if self._poller is not None:
            self._poller.close()
            self._poller = None

    def _start_engine(self, on_engine: "Callable[[LiveSession], None]") -> None:
        # Imported here: the screen is painted long before llama.cpp and Optuna are loaded.
        from spectui.live.session import LiveSession, SessionEvent  # noqa: PLC0415
        from spectui.llama.log import native_log  # noqa: PLC0415

        def discard() -> None:
            void = get_args(SessionEvent)
            self._mailbox.discard(lambda event: isinstance(event, void))

        native_log.listen(self._on_log)
        # The file has the lines of earlier sessions as well.
        now = f"{datetime.now().astimezone():%Y-%m-%d %H:%M}"
        self._on_log(f"spectui {__version__}, process {os.getpid()}, {now}")
        self._session = LiveSession(self._post, discard)
        if self._stopped.is_set():
            self._session.close()
            return
        self._post(partial(on_engine, self._session))

    def _process(self) -> int | None:
        if self._poller is not None:
            return self._served()
        return None if self._session is None else self._session.process

    def _on_log(self, line: str) -> None:
        if self._log_file is not None:
            # A disk that is full costs the log, not the screen.
            with suppress(OSError):
                os.write(self._log_file, line.encode(errors="replace") + b"\n")

    def build_demo(
        self,
        target: DemoModel,
        on_progress: Callable[[DemoProgress], None],
        on_built: Callable[[dict[DemoModel, Path]], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Build a demo target and its draft, if they are not there.

        Args:
            target: what to build.
            on_progress: takes the progress of each model.
            on_built: takes the files.
            on_failure: takes the reason why there are none.
        """
        self._demo_stopped = stopped = threading.Event()

        def is_void() -> bool:
            return stopped.is_set() or self._stopped.is_set()

        def build() -> None:
            try:
                built = ensure_demo_models(
                    (target, DemoModel.DRAFT),
                    on_progress=lambda progress: self._post(partial(on_progress, progress)),
                    cancelled=is_void,
                )
            except SpectuiError as error:
                if not is_void():
                    self._post(partial(on_failure, str(error)))
            else:
                self._post(partial(on_built, built))

        self._spawn("demo", build)

    def stop_demo(self) -> None:
        """End the build of the demo models after the present tensor, without a result."""
        self._demo_stopped.set()

    def read_sessions(self, on_read: Callable[[tuple[Session, ...]], None]) -> None:
        """Read the last stored sessions, the newest first."""
        self._spawn("sessions", lambda: self._post(partial(on_read, recent_sessions(_N_SESSIONS))))

    def scan(
        self,
        folders: Sequence[Path],
        on_model: Callable[[FoundModel], None],
        on_end: Callable[[Sequence[str]], None],
    ) -> None:
        """Look for models.

        Args:
            folders: where to look.
            on_model: takes each model that is found.
            on_end: is called at the end, with sentences about folders that cannot be read.
        """

        def search() -> None:
            scan = Scan(folders, self._stopped.is_set)
            for model in scan:
                self._post(partial(on_model, model))
            self._post(partial(on_end, tuple(scan.reasons)))

        self._spawn("scan", search)

    def look_for_servers(self, on_servers: "Callable[[Sequence[RunningServer]], None]") -> None:
        """Look which llama-servers run on this machine."""

        def look() -> None:
            # Imported here: most starts name their models.
            from spectui.commands.sources.processes import running_servers  # noqa: PLC0415

            self._post(partial(on_servers, tuple(running_servers())))

        self._spawn("servers", look)

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
