"""The lines of a tape at one width: found once, extended as text arrives, renewed in slices."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice

from spectui.tui.text.store import Tape
from spectui.tui.text.wrapping import line_starts

LINES_PER_CHECK = 32
"""Lines between two looks at the clock."""


class Layout:
    """Offsets at which lines start: 4 bytes a line.

    After a change of width the old lines stay until all new ones are found. Till then they say
    where in the text the screen is, and `lines_from` says what it shows there.
    """

    def __init__(self, tape: Tape, *, width: int, with_rejected: bool) -> None:
        self.tape = tape
        self.width = width
        self.with_rejected = with_rejected
        self._starts = array("I", [0])
        self._renewed = array("I")
        self._renewal: Iterator[int] | None = None
        self.extend()

    @property
    def line_count(self) -> int:
        """Lines; an empty last one does not count."""
        return len(self._starts) - (self._starts[-1] == len(self.tape))

    @property
    def renewing(self) -> bool:
        """Whether the lines are still those of an earlier width."""
        return self._renewal is not None

    def line(self, index: int) -> tuple[int, int]:
        """Offsets of a line's first character and of the next line's."""
        following = index + 1
        end = self._starts[following] if following < len(self._starts) else len(self.tape)
        return self._starts[index], end

    def line_at(self, offset: int) -> int:
        """Index of the line that holds a character."""
        return bisect_right(self._starts, offset) - 1

    def lines_from(self, start: int, count: int) -> list[tuple[int, int]]:
        """At most so many lines at the new width, the first one from ``start``."""
        starts = [start, *islice(self._wrap(start), count)]
        ends = [*starts[1:], len(self.tape)]
        return list(zip(starts, ends, strict=True))[:count]

    def last_lines(self, count: int) -> list[tuple[int, int]]:
        """At most so many lines at the new width, up to the end."""
        back = count * self.width
        while True:
            start, _ = self.line(self.line_at(max(0, len(self.tape) - back)))
            lines = self.lines_from(start, back)
            if start == 0 or len(lines) > count:
                return lines[-count:]
            back *= 2

    def extend(self) -> int:
        """Lay out what was appended; return the index of the first line that changed."""
        last = len(self._starts) - 1
        self._starts.extend(self._wrap(self._starts[last]))
        return last

    def renew(self, *, width: int, with_rejected: bool) -> None:
        """Begin to lay everything out anew; `step` does it."""
        self.width = width
        self.with_rejected = with_rejected
        self._renewed = array("I", [0])
        self._renewal = self._wrap(0)

    def step(self, is_time_up: Callable[[], bool]) -> bool:
        """Go on with the renewal until it is done or time is up; return whether it is done."""
        while self._renewal is not None:
            known = len(self._renewed)
            self._renewed.extend(islice(self._renewal, LINES_PER_CHECK))
            if len(self._renewed) == known:
                self._starts, self._renewal = self._renewed, None
                self.extend()
            elif is_time_up():
                return False
        return True

    def _wrap(self, start: int) -> Iterator[int]:
        return line_starts(self.tape, start, self.width, with_rejected=self.with_rejected)
