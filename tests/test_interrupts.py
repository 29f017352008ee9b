"""Signals that end a run: one is enough, and a person who insists is obeyed."""

import subprocess
import sys

import pytest

_PROGRAM = """
import signal, sys
from spectui.interrupts import interrupts

def press(number=signal.SIGINT):
    signal.raise_signal(number)

interrupts.install()
try:
    {first}
except KeyboardInterrupt:
    print("interrupted", flush=True)
{then}
print("result", flush=True)
sys.exit(interrupts.exit_code(130))
"""


_BESIDE = """import threading
    entered, left = threading.Event(), threading.Event()
    def beside():
        with interrupts.deferred():
            entered.set()
            left.wait()
    other = threading.Thread(target=beside)
    with interrupts.deferred():
        other.start()
        entered.wait()
    left.set()
    other.join()
    press()
    print("lost", flush=True)"""
"""Another thread's block begins in the main thread's, and ends behind it."""
_DEFERRED = """with interrupts.deferred():
        with interrupts.deferred():
            press()
        print("whole", flush=True)
    print("lost", flush=True)"""


@pytest.mark.parametrize(
    ("first", "then", "out", "is_warned"),
    [
        ("press()", "", "interrupted result", False),
        ("press()", "press()", "interrupted result", True),
        ("press()", "press(); press()", "interrupted", True),
        (_BESIDE, "", "interrupted result", False),
        (_DEFERRED, "", "whole interrupted result", False),
        ("interrupts.hold()", "press()", "result", True),
        ("interrupts.hold()", "press(); press()", "", True),
        ("press()", "press(signal.SIGTERM); press(signal.SIGTERM)", "interrupted result", False),
    ],
)
def test_the_third_ctrl_c_ends_what_the_second_was_warned_of(
    first: str, then: str, out: str, *, is_warned: bool
) -> None:
    program = _PROGRAM.format(first=first, then=then)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout.split() == out.split()
    assert ("Ctrl-C once more ends spectui at once" in ended.stderr) is is_warned
    assert ended.returncode == 130
