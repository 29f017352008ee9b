"""Memory for llama-servers: whether models have room, and waiting while it is short."""

import re
from collections.abc import Callable
from typing import TypeVar

from spectui.closing import Closing
from spectui.commands.items import divide
from spectui.engine.events import MemoryPaused
from spectui.engine.guard import Guard, request_of
from spectui.engine.pressure import MemoryGate
from spectui.options.dialect import Dialect
from spectui.options.setup import Setup

Done = TypeVar("Done")

_PLACES = re.compile(
    r"cache-type|ctx-size|device|ffn|fit|gpu|load-mode|mmap|moe|offload|override|rpc|split|swa"
)
"""Parts of names of options that spectui passes on unread, and that decide what lies where."""


class ServerMemory(Closing):
    """Guards starts of servers on this machine, and what is measured on them. For one thread."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        from_disk: bool = False,
        guard: Guard | None = None,
        gate: MemoryGate | None = None,
    ) -> None:
        """Read what is free now.

        Args:
            say: told why nothing is measured now, and that it goes on.
            from_disk: whether servers may read weights from disk again and again.
            guard: is asked before a start, and closed with this; None for the usual.
            gate: lets starts and measurements through, and is closed with this; None for the usual.
        """
        self._say = say
        self._guard = guard or Guard(is_here=False, from_disk=from_disk)
        self.gate = gate or MemoryGate(from_disk=from_disk)

    def begin(self, setup: Setup, dialect: Dialect) -> None:
        """Wait for memory before a start, and refuse a setup that has no room.

        Plans of this llama.cpp are those of servers of the same dialect, where the user's own
        arguments place nothing.

        Raises:
            DoesNotFitError: it has none.
            MemoryShortError: memory stays short.
        """
        self.gate.wait(tell=self._tell, is_over=_never)
        names = (item.name for item in divide(setup.extra))
        if dialect is Dialect.LLAMA_CPP and not any(map(_PLACES.search, names)):
            self._guard.check(request_of(setup))

    def measure(self, run: Callable[[], Done]) -> Done:
        """Measure once there is memory, and again where it was short meanwhile.

        Raises:
            MemoryShortError: memory stays short.
        """
        return self.gate.measure(run, tell=self._tell, again=self._tell_again, is_over=_never)

    def _tell(self, reason: str | None) -> None:
        self._say(MemoryPaused(reason=reason).text)

    def _tell_again(self) -> None:
        self._say("measured again, because programs waited for memory meanwhile")

    def close(self) -> None:
        """End the sessions with the driver."""
        self._guard.close()
        self.gate.close()


def _never() -> bool:
    # A signal interrupts what waits here.
    return False
