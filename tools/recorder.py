"""A program in a pseudo terminal of its own: typed into, read, and its screen kept with times.

pyte is the terminal. Programs that can say where a picture ends (mode 2026) are asked to, so that
no half-drawn screen is ever kept.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pexpect
import pyte
from pyte.screens import Char

from tools.film import Frame, Look, Row, Run

_CHUNK = 65536
_ECHO_S = 60.0
"""The longest that a program may take to show a key."""
_STILL_S = 0.3
"""Without a change, after which a screen is whole."""
_QUERY, _ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
"""The question whether this terminal waits for the end of a picture, and "yes, off at present"."""
_END_OF_PICTURE = b"\x1b[?2026l"
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?<=>$]*)?\Z|\x1b\[\?2026h.*\Z", re.DOTALL)
"""A sequence that is cut, or a picture without its end."""
_BEYOND_PYTE = re.compile(rb"\x1b\[(?:[<=>][0-9;]*[a-zA-Z]|\?2026[hl]|\?[0-9;]*\$p)")
"""What pyte would draw as text: the keyboard's protocol, and the mode above."""


class Recorder:
    """Runs a program and keeps what it draws."""

    def __init__(
        self,
        program: Sequence[str],
        environment: Mapping[str, str],
        *,
        size: tuple[int, int],
        folder: Path,
    ) -> None:
        """Start ``program`` inside ``folder``, in a terminal of ``size`` columns and rows."""
        n_columns, n_rows = size
        self.frames: list[Frame] = []
        self._screen = pyte.Screen(n_columns, n_rows)
        self._stream = pyte.ByteStream(self._screen)
        self._rows: list[Row] = [()] * n_rows
        self._unread = b""
        self._began_s = time.monotonic()
        self._child: pexpect.spawn[bytes] = pexpect.spawn(
            program[0],
            list(program[1:]),
            cwd=str(folder),
            env=dict(environment),
            dimensions=(n_rows, n_columns),
        )
        self._child.delaybeforesend = None
        self._keep()

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self.frames[-1].text

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began_s

    def press(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def type_text(self, text: str) -> None:
        """Press the keys of ``text`` one by one, each when the one before is on the screen."""
        # A blank alone changes nothing that is seen.
        for keys in re.findall(r"\s*\S", text):
            n_frames = len(self.frames)
            self.press(keys)
            self._read_until(partial(self._has_more_than, n_frames), _ECHO_S)

    def wait(self, is_there: str | Callable[[str], bool], *, longest_s: float) -> None:
        """Read until the screen has a text, or is as a function wants.

        Raises:
            RuntimeError: that never came.
        """
        if isinstance(is_there, str):
            self._read_until(lambda: is_there in self.text, longest_s)
        else:
            self._read_until(lambda: is_there(self.text), longest_s)

    def settle(self) -> None:
        """Read until nothing more is drawn, as a screen may come in parts."""
        with suppress(pexpect.TIMEOUT):
            while True:
                self._take(self._child.read_nonblocking(_CHUNK, _STILL_S))

    def _has_more_than(self, n_frames: int) -> bool:
        return len(self.frames) > n_frames

    def _read_until(self, is_so: Callable[[], bool], longest_s: float) -> None:
        deadline_s = self.now_s + longest_s
        while not is_so():
            self._read(deadline_s)

    def _read(self, deadline_s: float) -> None:
        try:
            data = self._child.read_nonblocking(_CHUNK, max(0.0, deadline_s - self.now_s))
        except (pexpect.EOF, pexpect.TIMEOUT) as error:
            raise RuntimeError(f"{type(error).__name__} on this screen:\n{self.text}") from error
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Draw, and keep every picture that is complete."""
        if _QUERY in data:
            self._child.send(_ANSWER)
        *pictures, rest = (self._unread + data).split(_END_OF_PICTURE)
        unfinished = _UNFINISHED.search(rest)
        end = len(rest) if unfinished is None else unfinished.start()
        self._unread = rest[end:]
        for picture in (*pictures, rest[:end]):
            self._stream.feed(_BEYOND_PYTE.sub(b"", picture))
            self._keep()

    def _keep(self) -> None:
        for index in self._screen.dirty:
            cells = self._screen.buffer[index]
            self._rows[index] = _row([cells[x] for x in range(self._screen.columns)])
        self._screen.dirty.clear()
        rows = tuple(self._rows)
        if not self.frames or self.frames[-1].rows != rows:
            self.frames.append(Frame(self.now_s, rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.close(force=True)


def _row(cells: Sequence[Char]) -> Row:
    """Join neighbours of one look."""
    runs: list[Run] = []
    for column, cell in enumerate(cells):
        look = _look(cell)
        if runs and runs[-1].look == look:
            runs[-1] = Run(runs[-1].column, runs[-1].text + cell.data, look)
        else:
            runs.append(Run(column, cell.data, look))
    return tuple(runs)


def _look(cell: Char) -> Look:
    foreground, background = (_colour(cell.fg), _colour(cell.bg))
    if cell.reverse:
        foreground, background = background or "background", foreground or "foreground"
    return Look(
        foreground=foreground,
        background=background,
        is_bold=cell.bold,
        is_italic=cell.italics,
        is_underlined=cell.underscore,
        is_struck=cell.strikethrough,
    )


def _colour(name: str) -> str | None:
    """Return pyte's colour, which is six hexadecimal digits or a name, as SVG has it."""
    if name == "default":
        return None
    return f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else name
