"""The recent past of one reading, for a sparkline."""

from collections import deque


class Ring:
    """The last samples, oldest first. A missing sample is kept as None, so that time stays true."""

    def __init__(self, capacity: int) -> None:
        """Keep ``capacity`` samples."""
        self._values: deque[float | None] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._values)

    def append(self, value: float | None) -> None:
        """Add a sample; the oldest one makes room for it."""
        self._values.append(value)

    def values(self) -> tuple[float | None, ...]:
        """Return the samples, oldest first."""
        return tuple(self._values)

    def maximum(self) -> float | None:
        """Return the largest sample; None if there is none."""
        return max((value for value in self._values if value is not None), default=None)
