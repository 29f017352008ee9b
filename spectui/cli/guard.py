"""Keeps the terminal usable whatever happens to the program that draws on it.

A failed assertion inside llama.cpp aborts the process, and no Python code runs any more. So the
program runs in a child, and this process waits, does nothing else, and cleans up.
"""

import os
import signal
import termios
from contextlib import suppress
from types import FrameType

from spectui.paths import data_dir

_RESET = (
    "\x1b[?1049l"  # leave the alternate screen
    "\x1b[?25h"  # show the cursor
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"  # no mouse reports
    "\x1b[?2004l"  # no bracketed paste
    "\x1b[?1004l"  # no focus reports
    "\x1b[?2026l"  # no pending synchronised update
    "\x1b[<u"  # no extended keys
    "\x1b[?7h"  # wrap long lines
    "\x1b[0m\r"
)
"""What a full-screen program switches on, switched off."""


_GREETING = "\x1b[?1049h\x1b[2J\x1b[H spectui is starting ..."


def greet(stderr: int = 2) -> None:
    """Show at once that the program has started: the screen needs a moment to be imported."""
    os.write(stderr, _GREETING.encode())


def take_back_greeting(stderr: int = 2) -> None:
    """Leave the terminal as it was: there will be no screen."""
    os.write(stderr, _RESET.encode())


def in_child(stdin: int = 0, stderr: int = 2) -> bool:
    """Fork; return True in the child, and False where there is no terminal to guard.

    The parent never returns: it exits as the child did, after it has put the terminal right.
    """
    if not (os.isatty(stdin) and os.isatty(stderr)):
        return False
    modes = termios.tcgetattr(stdin)
    child = os.fork()
    if child == 0:
        return True
    _forward_signals(child)
    status = _wait(child)
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    # The terminal itself may be gone.
    with suppress(termios.error):
        termios.tcsetattr(stdin, termios.TCSAFLUSH, modes)
    name = signal.Signals(os.WTERMSIG(status)).name
    os.write(stderr, f"{_RESET}{_sentence(name)}\n".encode())
    os._exit(1)


def _sentence(name: str) -> str:
    return (
        f"error: spectui was ended by {name}; llama.cpp's last words are in "
        f"{data_dir() / 'logs' / 'spectui.log'}, and the next start offers the session again"
    )


def _forward_signals(child: int) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    # Ctrl-C reaches both: it is the child's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait(child: int) -> int:
    """Wait for the child's end; stop and go on as it does (Ctrl-Z)."""
    while True:
        _pid, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(child, signal.SIGCONT)
