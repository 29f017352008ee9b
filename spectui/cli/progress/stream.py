"""A wrapper of stderr for displays that may outlive their terminal."""

import sys


class LastingStderr:
    """Writes to stderr until that fails; drops everything afterwards.

    The terminal may be closed and a pipe's reader may go away while something is measured. Progress
    is for whoever reads it; what was measured must be reported and stored all the same.
    """

    def __init__(self) -> None:
        """Write to what is stderr now."""
        self._file = sys.stderr
        self._is_gone = self._file is None
        self.encoding = "utf-8" if self._file is None else self._file.encoding

    def write(self, text: str) -> int:
        """Write ``text``; drop it if stderr is closed."""
        if not self._is_gone:
            try:
                self._file.write(text)
            except OSError:
                self._is_gone = True
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._is_gone:
            try:
                self._file.flush()
            except OSError:
                self._is_gone = True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return not self._is_gone and self._file.isatty()

    def fileno(self) -> int:
        """File descriptor of stderr."""
        return self._file.fileno()
