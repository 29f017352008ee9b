"""Keeps a conversation on disk as it happens."""

from collections.abc import Callable

from spectui.errors import SpectuiError
from spectui.live.setup import LiveSetup
from spectui.sessions import Entry, Header, LoadOptions, SessionLog, now


class SessionStore:
    """Opens a session's file with its first entry. Gives up, once and aloud, if it cannot."""

    def __init__(self, warn: Callable[[str], None], *, enabled: bool) -> None:
        """``warn`` is told in a sentence if storing fails."""
        self._warn = warn
        self._enabled = enabled
        self._log: SessionLog | None = None
        self._past: tuple[Entry, ...] = ()
        """Of a conversation that is taken up: stored again with what follows, and not before."""

    def take_up(self, past: tuple[Entry, ...]) -> None:
        """Begin a session with what was said in an earlier one."""
        self.close()
        self._past = past

    def append(self, setup: LiveSetup | None, entry: Entry) -> None:
        """Store ``entry`` of a conversation with ``setup``."""
        if not self._enabled or setup is None:
            return
        try:
            if self._log is None:
                self._log = SessionLog(_header(setup))
            for each in (*self._past, entry):
                self._log.append(each)
            self._past = ()
        except SpectuiError as error:
            self._enabled = False
            self._warn(f"{error}. This session is not stored any further.")

    def close(self) -> None:
        """End the session; the next entry begins another."""
        self._past = ()
        if self._log is not None:
            self._log.close()
            self._log = None


def _header(setup: LiveSetup) -> Header:
    draft = None if setup.draft is None else str(setup.draft.path)
    load = LoadOptions(
        target=setup.target,
        draft=setup.draft,
        context=setup.context,
        server_threads=setup.server_threads,
        extra=setup.extra,
    )
    return Header(started=now(), target=str(setup.target.path), draft=draft, load=load)
