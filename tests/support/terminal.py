"""The real program in a real pseudo terminal."""

import os
import re
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect
import psutil

_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-B0-2]|[=>78])"
)
_ON_OFF = re.compile(r"\x1b\[\?(1049|25|1000|1002|1003|1006|2004)([hl])")
TIMEOUT_S = 60


class Terminal:
    """``spectui`` in a terminal of its own, typed into and read."""

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        *,
        size: tuple[int, int] = (40, 120),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start it with ``size`` rows and columns."""
        self._read = ""
        env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        env |= {"SPECTUI_HOME": str(home), "TERM": "xterm-256color", **(environment or {})}
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "spectui", *arguments],
            env=env,
            dimensions=size,
            encoding="utf-8",
            codec_errors="replace",
            timeout=TIMEOUT_S,
        )
        self.child.delaybeforesend = None
        self.modes_before = termios.tcgetattr(self.child.child_fd)

    def see(self, text: str) -> None:
        """Wait until ``text`` is drawn, after what was seen before."""
        while (at := self._drawn().find(text)) < 0:
            try:
                self._read += self.child.read_nonblocking(65536, TIMEOUT_S)
            except pexpect.EOF as error:
                raise AssertionError(f"{text!r} never came:\n{self._drawn()[-2000:]}") from error
        self._read = self._drawn()[at + len(text) :]

    def _drawn(self) -> str:
        """What came, without the terminal's language; a sequence cut at the end stays."""
        return _SEQUENCES.sub("", self._read)

    def press(self, keys: str) -> None:
        """Press keys."""
        self.child.send(keys)

    def resize(self, rows: int, columns: int) -> None:
        """Change the terminal's size, as a window manager does."""
        self.child.setwinsize(rows, columns)

    @property
    def program(self) -> psutil.Process:
        """The process that draws: the child of the one that guards the terminal."""
        (program,) = psutil.Process(self.child.pid).children()
        return program

    def end(self) -> str:
        """Wait for the end; return everything that was written since the last look."""
        rest = self._read
        try:
            while True:
                rest += self.child.read_nonblocking(65536, TIMEOUT_S)
        except pexpect.EOF:
            pass
        self.child.wait()
        return rest

    def assert_restored(self, rest: str) -> None:
        """Require that every mode that was switched on in ``rest`` was switched off again."""
        last = dict(_ON_OFF.findall(rest))
        for mode, wanted in (("1049", "l"), ("25", "h"), ("1003", "l"), ("1000", "l")):
            assert last.get(mode) == wanted, (mode, last)
        assert termios.tcgetattr(self.child.child_fd) == self.modes_before

    @property
    def exit_code(self) -> int | None:
        """Of the guarding process."""
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
