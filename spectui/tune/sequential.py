"""Looking at growing data more than once, and stopping when it is decided.

Every look at an interval is a chance to be fooled. So the looks share the error: each may spend a
part of it, little at first and most at the end. Of the spending functions in use the quadratic one
(Kim and DeMets 1987, "Design and Analysis of Group Sequential Tests Based on the Type I Error
Spending Rate Function") lets a clear case end early and widens the last interval by little. What
the looks spend is added up (Bonferroni), whatever they have in common: that needs no assumption.
``benchmarks/interval_coverage.py`` holds the coverage.
"""

ERROR = 0.05
"""Error of all looks together, both sides: intervals are 95 %."""
_POWER = 2


def spent(fraction: float, error: float = ERROR) -> float:
    """Part of ``error`` that may be spent when ``fraction`` of the planned data is in.

    Raises:
        ValueError: ``fraction`` is not above 0.
    """
    if fraction <= 0:
        raise ValueError(f"a look at {fraction:g} of the data has nothing to look at")
    return error * float(min(fraction, 1.0) ** _POWER)


class Looks:
    """Hands out the level of each look's interval."""

    def __init__(self, error: float = ERROR) -> None:
        """Share ``error`` among all looks."""
        self._error = error
        self._spent = 0.0
        self._here = 0.0
        self.n = 0
        """Looks so far."""

    def level(self, fraction: float) -> float:
        """Confidence level of this look's interval.

        To look once more at what the last look was at costs nothing: it sees the same.

        Args:
            fraction: of the planned data that is in; 1 for the last look, whatever was planned.

        Raises:
            ValueError: ``fraction`` is below that of the look before.
        """
        total = spent(fraction, self._error)
        if total < self._spent:
            raise ValueError(f"a look at {fraction:g} of the data comes too late")
        if total > self._spent:
            self._here, self._spent = total - self._spent, total
            self.n += 1
        return 1 - self._here
