"""Recordings of real programs in a pseudo terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.film import Look
from tools.recorder import Recorder

SIZE = 40, 6
SOON_S = 60.0
ECHO = "for line in iter(input, ''): print('\\x1b[1;38;2;1;2;255mheard\\x1b[0m', line)"
IN_PICTURES = """
import sys
sys.stdout.write("\\x1b[?2026$p")
sys.stdout.flush()
sys.stdin.readline()
for number in range(3):
    sys.stdout.write("\\x1b[?2026h\\x1b[H\\x1b[2Jhalf")
    sys.stdout.flush()
    sys.stdout.write(f" and whole {number}\\x1b[?2026l")
    sys.stdout.flush()
print("end")
"""


@contextmanager
def recording(program: str, folder: Path) -> Iterator[Recorder]:
    python = (sys.executable, "-u", "-c", program)
    with Recorder(python, os.environ, size=SIZE, folder=folder) as started:
        yield started


def test_keys_are_typed_and_every_screen_is_kept_with_its_time_and_look(tmp_path: Path) -> None:
    with recording(ECHO, tmp_path) as terminal:
        terminal.type_text("a b")
        terminal.press("\r")
        terminal.wait("heard a b", longest_s=SOON_S)
    texts = [frame.text.split()[:2] for frame in terminal.frames]
    times = [frame.time_s for frame in terminal.frames]
    assert ["a"] in texts
    assert ["a", "b"] in texts
    assert times == sorted(times)
    bold = next(run for row in terminal.frames[-1].rows for run in row if run.text == "heard")
    assert bold.look == Look(foreground="#0102ff", is_bold=True)


def test_a_screen_that_is_half_drawn_is_not_kept(tmp_path: Path) -> None:
    with recording(IN_PICTURES, tmp_path) as terminal:
        terminal.press("\r")
        terminal.wait("end", longest_s=SOON_S)
    texts = [frame.text for frame in terminal.frames]
    assert any("half and whole 2" in text for text in texts)
    assert not any("half" in text and "whole" not in text for text in texts)
