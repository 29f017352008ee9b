"""The questions of one round: what each may take, and what it means that one is not answered."""

from collections.abc import Awaitable, Callable

from spectui.server.attached.http import BrokenError, Connection, LateError, Page, RefusedError
from spectui.server.attached.sample import Answer, T
from spectui.server.attached.timing import Allowance

NOT_FOUND = 404
_OFF = frozenset({NOT_FOUND, 501})


class Questions:
    """Asks a server for pages, within one limit for all of a round.

    Args:
        connection: to the server.
        clock: in seconds.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock
        self.is_doubtful = False
        """Whether a connection broke: the server may have been started again."""
        self.begin()

    def begin(self) -> None:
        """Begin another round, with all of its time."""
        self._allowance = Allowance(self._connection.timeout_s, self._clock)

    async def get(self, path: str, *, is_last: bool = False) -> Page:
        """Ask for a page, in all the time that is left or in a share of it.

        Raises:
            AttachError: the server tells nothing at all.
            BrokenError: the connection broke.
            LateError: it took too long.
            RefusedError: any status but success.
        """
        allowance = self._allowance
        within_s = allowance.rest_s if is_last else allowance.share_s
        return await self._connection.get(path, within_s)

    async def answered(
        self, ask: Callable[[], Awaitable[T]], *, off: str | None = None
    ) -> Answer[T]:
        """What is told, or why it is not.

        Args:
            ask: for one thing.
            off: the reason where the server answers that it does not tell this.

        Raises:
            AttachError: the server tells nothing at all.
        """
        try:
            return Answer(await ask())
        except LateError as error:
            return Answer(None, str(error), is_late=True)
        except BrokenError as error:
            self.is_doubtful = True
            return Answer(None, str(error))
        except RefusedError as error:
            is_off = off is not None and error.status in _OFF
            return Answer(None, off if is_off else error.reason)
