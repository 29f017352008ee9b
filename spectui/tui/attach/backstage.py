"""What works behind the screen over a server: the poller, and the monitor of its machine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectui.server.watch.poller import Attachment, Poller
from spectui.tui.mailbox import Mailbox
from spectui.tui.messages import MonitorFailed

if TYPE_CHECKING:
    from spectui.monitor.sampler import Sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerFailed:
    """A defect has ended the questions."""

    error: BaseException


class AttachBackstage:
    """Owns the threads. Nothing here touches a widget."""

    def __init__(self, mailbox: Mailbox[object], wanted: Attachment, interval_s: float) -> None:
        """Nothing works yet.

        Args:
            mailbox: takes every event, from any thread.
            wanted: the server.
            interval_s: from one look at it to the next.
        """
        self._post = mailbox.put
        self._interval_s = interval_s
        self._poller = Poller(
            wanted,
            self._post,
            interval_s=interval_s,
            on_failure=lambda error: self._post(PollerFailed(error=error)),
        )
        self._sampler: Sampler | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._poller.start()

    def watch_machine(self, interval_s: float) -> None:
        """Begin to read this machine, once."""
        from spectui.monitor.sampler import (  # noqa: PLC0415 - loads NVML's binding
            LiveSource,
            Sampler,
        )

        if self._sampler is not None:
            return
        self._sampler = Sampler(
            LiveSource,
            self._post,
            interval_s=interval_s,
            on_failure=lambda reason: self._post(MonitorFailed(reason=reason)),
        )
        self._sampler.start()

    def try_now(self) -> None:
        """Ask at once."""
        self._poller.try_now()

    def close(self) -> None:
        """End everything."""
        self._poller.close()
        if self._sampler is not None:
            self._sampler.close()
