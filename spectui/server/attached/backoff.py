"""How long to wait before a server that tells nothing is asked again."""

from spectui.server.attached.sample import Trouble

_FIRST_S = 0.5
_LONGEST_S = 10.0
_STEADY_S = {Trouble.LOADING: 1.0, Trouble.LOCKED: 10.0}
"""It answers, so that asking costs little, or will not answer otherwise before somebody acts."""


class Backoff:
    """Twice as long after each failure, up to ten seconds."""

    def __init__(self) -> None:
        """Begin with no failure."""
        self._next_s = _FIRST_S

    def failed(self, trouble: Trouble) -> float:
        """Return the seconds to wait after one more failure."""
        steady_s = _STEADY_S.get(trouble)
        if steady_s is not None:
            self._next_s = _FIRST_S
            return steady_s
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, _LONGEST_S)
        return wait_s

    def succeeded(self) -> None:
        """Forget the failures."""
        self._next_s = _FIRST_S
