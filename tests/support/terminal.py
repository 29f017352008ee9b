"""The real program in a real pseudo terminal."""

import os
import re
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect
import psutil

_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-B0-2]|[=>78])"
)
_CUT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[()])?\Z")
"""A sequence of which the end is still to come."""
_ON_OFF = re.compile(r"\x1b\[\?(1049|25|1000|1002|1003|1006|2004)([hl])")
_NOT_OURS = frozenset({"NO_COLOR", "COLUMNS", "LINES", "TEXTUAL_FPS"})
"""Variables of whoever runs the tests; the terminal has a size of its own, and draws as usual."""
TIMEOUT_S = 60


def drawn(text: str) -> str:
    """What a program draws, without the terminal's language; a sequence cut at the end stays."""
    return _SEQUENCES.sub("", text)


class Terminal:
    """``spectui`` in a terminal of its own, typed into and read."""

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        *,
        size: tuple[int, int] = (40, 120),
        program: Sequence[str] = ("-m", "spectui"),
    ) -> None:
        """Start ``program``, Python's arguments, with ``size`` rows and columns."""
        self._read: list[str] = []
        self._text = self._rest = ""
        """What was drawn since the last look, and a sequence that is not whole so far."""
        env = {key: value for key, value in os.environ.items() if key not in _NOT_OURS}
        env |= {"SPECTUI_HOME": str(home), "TERM": "xterm-256color"}
        self.child: Any = pexpect.spawn(
            sys.executable,
            [*program, *arguments],
            env=env,
            dimensions=size,
            encoding="utf-8",
            codec_errors="replace",
        )
        self.child.delaybeforesend = None
        self.modes_before = termios.tcgetattr(self.child.child_fd)

    def see(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until ``text`` is drawn, after what was seen before."""
        deadline_s, n_searched = time.monotonic() + timeout_s, 0
        while (at := self._text.find(text, max(0, n_searched - len(text)))) < 0:
            n_searched = len(self._text)
            if not self._receive(deadline_s):
                raise AssertionError(f"{text!r} never came:\n{self._text[-2000:]}")
        self._text = self._text[at + len(text) :]
        self._read.clear()

    def _receive(self, deadline_s: float) -> bool:
        """Take what is written next; return False at the end of the program or of the time.

        Nothing is read twice: of a long answer that would cost more than the program does.
        """
        left_s = deadline_s - time.monotonic()
        try:
            read = self.child.read_nonblocking(65536, max(0.0, left_s))
        except (pexpect.EOF, pexpect.TIMEOUT):
            return False
        self._read.append(read)
        known = self._rest + read
        cut = _CUT.search(known)
        end = len(known) if cut is None else cut.start()
        self._text, self._rest = self._text + drawn(known[:end]), known[end:]
        return left_s > 0

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, rows: int, columns: int) -> None:
        self.child.setwinsize(rows, columns)

    @property
    def program(self) -> psutil.Process:
        """The process that draws: the child of the one that guards the terminal."""
        (program,) = psutil.Process(self.child.pid).children()
        return program

    def end(self, within_s: float = TIMEOUT_S) -> str:
        """Wait for the end; return everything that was written since the last look."""
        deadline_s = time.monotonic() + within_s
        while self._receive(deadline_s):
            pass
        if not self.child.flag_eof:
            raise AssertionError(f"still there after {within_s:g} s:\n{self._text[-2000:]}")
        self.child.wait()
        return "".join(self._read)

    def assert_restored(self, rest: str) -> None:
        """Require that every mode that was switched on in ``rest`` was switched off again."""
        last = dict(_ON_OFF.findall(rest))
        for mode, wanted in (("1049", "l"), ("25", "h"), ("1003", "l"), ("1000", "l")):
            assert last.get(mode) == wanted, (mode, last)
        assert termios.tcgetattr(self.child.child_fd) == self.modes_before

    @property
    def exit_code(self) -> int | None:
        code: int | None = self.child.exitstatus
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.close(force=True)
