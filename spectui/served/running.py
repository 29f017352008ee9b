"""Llama-servers that run already, and are measured as they stand."""

from spectui.closing import Closing
from spectui.errors import HopelessError, ServerError
from spectui.served.setup import Setup
from spectui.server import Completion, LlamaClient


class RunningServers(Closing):
    """One that is measured, and perhaps one without speculation beside it."""

    n_starts = 0

    def __init__(self, server: LlamaClient, baseline: LlamaClient | None) -> None:
        """Take both over; they are left running when this is closed.

        Raises:
            ServerError: one of them does not answer.
        """
        self.server = server
        self._baseline = baseline
        both = [server] if baseline is None else [server, baseline]
        self._were = {client: client.identity() for client in both}

    @property
    def has_baseline(self) -> bool:
        """Whether there is one to compare with."""
        return self._baseline is not None

    def untold(self, n_drafted: int) -> str | None:
        """Why it is not known that nothing was drafted; None where it is, or something was.

        Args:
            n_drafted: tokens that all answers together have told of.
        """
        if n_drafted or self._were[self.server].speculates is False:
            return None
        return "the server told of no drafted tokens: it drafted nothing, or does not tell"

    def of(self, setup: Setup) -> LlamaClient:
        """The one that is measured, or for a setup that does not speculate, the other one."""
        return self._baseline if setup.is_off and self._baseline is not None else self.server

    def check(self, setup: Setup, done: Completion) -> None:
        """Refuse answers of a server to compare with that drafts, and of one that has changed.

        Raises:
            HopelessError: the one to compare with drafts.
            ServerError: another server has the port.
        """
        client = self.of(setup)
        change = self._were[client].change(client.identity())
        if change is not None:
            raise ServerError(
                f"the server at {client.base_url} is not the one that it was in the beginning: "
                f"{change}; measure again while one and the same runs"
            )
        if setup.is_off and self._baseline is not None and done.n_drafted:
            raise HopelessError(
                f"the server of --baseline-url drafts as well ({done.n_drafted} tokens on one "
                "prompt), so that nothing is compared; give the address of one that was started "
                "without speculation"
            )

    def end(self, _setup: Setup) -> None:
        """They are not spectui's."""

    def close(self) -> None:
        """Close the connections."""
        self.server.close()
        if self._baseline is not None:
            self._baseline.close()
