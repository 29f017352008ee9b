"""Levels of intervals that are looked at while the data grow.

Several looks are wrong more often than the level of each look allows. So the error is
spent over the looks, in proportion to the data that are in (Lan and DeMets 1983, "Discrete
Sequential Boundaries for Clinical Trials"): what is clear is decided at the first look, and of 100
gains that 40 prompts would decide in one look, some 95 are. What a look sees holds what the looks
before it saw: boundaries that count each error once (Armitage, McPherson and Rowe 1969, "Repeated
Significance Tests on Accumulating Data") are narrower than ones that add the errors up. The
intervals of all looks hold together, whichever of them is the last (Jennison and Turnbull 1989,
"Interim Analyses: The Repeated Confidence Interval Approach").
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

ERROR = 0.04
"""Error of all looks together, both sides. The rest of 5 % goes to the choice of a leader by the
same data, and to speedups that are skewed (``benchmarks/race_coverage.py``)."""
_N_POINTS = 801
_REACH = 8.0
"""Standard deviations below 0 where sums are cut off."""
_HALVINGS = 60
_NORMAL = NormalDist()

_Array = npt.NDArray[np.float64]


def spent(fraction: float, error: float = ERROR) -> float:
    """Part of ``error`` that may be spent when ``fraction`` of the planned data is in.

    Raises:
        ValueError: ``fraction`` is not above 0.
    """
    if fraction <= 0:
        raise ValueError(f"a look at {fraction:g} of the data has nothing to look at")
    return error * min(fraction, 1.0)


class Looks:
    """Hands out the level of each look's interval."""

    def __init__(self, error: float = ERROR) -> None:
        """Share ``error`` among all looks."""
        self._error = error
        self._spent = 0.0
        self._spent_before = 0.0
        self._level = 1.0
        self._before = self._sums = _Sums(0, np.zeros(1), np.ones(1))
        """Before and after the last look."""
        self.n = 0
        """Looks so far."""

    def level(self, n_data: int, fraction: float) -> float:
        """Confidence level of this look's interval.

        Another look at the data of the last one is no look of its own.

        Args:
            n_data: data that are in.
            fraction: of the planned data; 1 for the last look, whatever was planned.

        Raises:
            ValueError: there are less data than at the look before, or a smaller fraction.
        """
        total = spent(fraction, self._error)
        if n_data < self._sums.n_data or total < self._spent:
            raise ValueError(f"a look at {n_data} data, {fraction:g} of all, comes too late")
        if total == self._spent:
            return self._level
        if n_data > self._sums.n_data:
            self._before, self._spent_before = self._sums, self._spent
            self.n += 1
        bound = self._before.bound(n_data, (total - self._spent_before) / 2)
        self._sums = self._before.below(n_data, bound)
        self._spent = total
        self._level = 2 * _NORMAL.cdf(bound) - 1
        return self._level


@dataclass(eq=False)
class _Sums:
    """Sums of data with mean 0 and variance 1 that have stayed below each look's boundary."""

    n_data: int
    points: _Array
    mass: _Array
    """Probability at each point."""

    def bound(self, n_data: int, error: float) -> float:
        """Standard deviations that the sums of ``n_data`` exceed with probability ``error``."""
        low, high = 0.0, _REACH
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_low = self._above(n_data, middle) > error
            low, high = (middle, high) if is_low else (low, middle)
        return high

    def _above(self, n_data: int, bound: float) -> float:
        spread = math.sqrt(n_data - self.n_data)
        steps = ((self.points - bound * math.sqrt(n_data)) / spread).tolist()
        return float(np.dot([_NORMAL.cdf(step) for step in steps], self.mass))

    def below(self, n_data: int, bound: float) -> "_Sums":
        """The sums of ``n_data`` that are not above ``bound`` standard deviations."""
        spread, whole = math.sqrt(n_data - self.n_data), math.sqrt(n_data)
        points = np.linspace(-_REACH * whole, bound * whole, _N_POINTS)
        steps = (points[:, None] - self.points) / spread
        mass = np.exp(-(steps**2) / 2) @ self.mass / (spread * math.sqrt(2 * math.pi))
        mass *= points[1] - points[0]
        mass[[0, -1]] /= 2
        return _Sums(n_data, points, mass)
