"""Where snapshots come from: a live machine, a recording, or a recorder around either."""

from typing import Protocol

from spectui.monitor.readings import Snapshot


class Source(Protocol):
    """Something that can be asked for the present state of a machine, from one thread."""

    def read(self) -> Snapshot:
        """Return the present snapshot. What cannot be read is None with a reason in it."""
        ...

    def close(self) -> None:
        """Give back what the source holds; it is not read again."""
        ...
