"""Llama-servers that run already, and are measured as they stand."""

from spectui.closing import Closing
from spectui.served.setup import Setup
from spectui.server import LlamaClient


class RunningServers(Closing):
    """One that is measured, and perhaps one without speculation beside it."""

    n_starts = 0

    def __init__(self, server: LlamaClient, baseline: LlamaClient | None) -> None:
        """Take both over; they are left running when this is closed."""
        self.server = server
        self._baseline = baseline

    @property
    def has_baseline(self) -> bool:
        """Whether there is one to compare with."""
        return self._baseline is not None

    def of(self, setup: Setup) -> LlamaClient:
        """The one that is measured, or for a setup that does not speculate, the other one."""
        return self._baseline if setup.is_off and self._baseline is not None else self.server

    def end(self, _setup: Setup) -> None:
        """They are not spectui's."""

    def close(self) -> None:
        """Close the connections."""
        self.server.close()
        if self._baseline is not None:
            self._baseline.close()
