"""Restores the terminal after the program that draws on it, however that ends.

A failed assertion inside llama.cpp aborts the process, and no Python code runs any more. So the
program runs in a child, and this process waits, does nothing else, and cleans up.
"""

import gc
import os
import signal
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from spectui.cli import report_failure
from spectui.errors import BadInputError, UsageError
from spectui.files import open_private
from spectui.paths import ensure_dir, log_path

if TYPE_CHECKING:
    from spectui.tui.app import SpectuiApp

MakeApp = Callable[[int], "tuple[SpectuiApp, Callable[[], None]]"]
"""Makes an app with the file of native logs; returns what frees what the app holds as well."""
_Modes = list[Any]
"""Terminal attributes as ``termios`` gives them."""
_INPUT, _LOCAL = 0, 3
"""Places of the input's and of the local flags among them."""

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that ask a program to end."""

_WATCHED = (*_ENDING, signal.SIGCHLD)

_BY_SIGNAL = 128
"""A shell's exit code of a program that a signal ended, less the signal's number."""

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
"""Escape sequences that switch off the modes of full-screen programs."""


_GREETING = "\x1b[?1049h\x1b[2J\x1b[H spectui is starting ..."


def show_screen(load: Callable[[], MakeApp], log: Path, *, instead: str) -> NoReturn:
    """Show a full screen until the user quits, and end with its exit code.

    Args:
        load: imports the app; returns what makes it.
        log: file for what native code says.
        instead: what to do without a terminal.

    Raises:
        UsageError: there is no terminal.
    """
    if not in_child():
        raise UsageError(f"the interactive screen needs a terminal; {instead}")
    # Shows at once that the program has started: importing the screen takes a moment.
    _take_keys()
    os.write(2, _GREETING.encode())
    try:
        # Thousands of objects are made while importing, none of which is garbage.
        gc.disable()
        make = load()
        from spectui.tui.terminal import private_terminal
    except BaseException:
        os.write(2, _RESET.encode())
        raise
    with private_terminal(log) as log_file:
        app, close = make(log_file)
        gc.enable()
        gc.freeze()
        app.run()
    # What is left is short and needs no protection.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    close()
    code = app.return_code or 0 if app.crash is None else report_failure(app.crash)
    # A thread may still be inside a driver, a decode or a resolver that nobody waits for any more.
    os._exit(code)


def in_child(stdin: int = 0, stderr: int = 2) -> bool:
    """Fork; return True in the child, and False without a terminal to guard.

    The parent never returns: it passes on what asks the program to end, exits as the child did, and
    puts the terminal right where the child could not.
    """
    if not (os.isatty(stdin) and os.isatty(stderr)):
        return False
    modes = termios.tcgetattr(stdin)
    # From now on they wait for the parent to look, so that none is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    child = os.fork()
    if child == 0:
        _default_signals()
        return True
    # Whoever is in the background may put the terminal right as well.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    status, asked = _watch(child)
    if os.WIFEXITED(status):
        _put_back(stdin, modes)
        os._exit(os.WEXITSTATUS(status) or (_BY_SIGNAL + asked if asked else 0))
    number = os.WTERMSIG(status)
    wanted = number in _ENDING
    _restore(stdin, stderr, modes, "" if wanted else _end_sentence(number))
    os._exit(_BY_SIGNAL + number if wanted else 1)


def _take_keys(stdin: int = 0) -> None:
    """Keep each key for the screen as it is typed; Ctrl+C still ends what only starts.

    A terminal that gathers lines loses the first key, and makes Enter a new line.
    """
    modes = termios.tcgetattr(stdin)
    modes[_INPUT] &= ~(termios.ICRNL | termios.IXON)
    modes[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    termios.tcsetattr(stdin, termios.TCSANOW, modes)


def writable_log() -> Path:
    """The file for what native code says.

    Raises:
        BadInputError: it cannot be written.
    """
    log = log_path()
    try:
        ensure_dir(log.parent)
        os.close(open_private(log, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        raise BadInputError(
            f"{log} cannot be written ({error.strerror}); set SPECTUI_HOME to a folder that can"
        ) from error
    return log


def _default_signals() -> None:
    """Reset signals to their defaults until the screen handles them; nothing can be lost yet."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)


def _watch(child: int) -> tuple[int, int]:
    """Wait for the end of the child, by its process id; forward termination signals.

    Returns:
        The child's status, and the first signal that was passed on, 0 for none.
    """
    asked = 0
    while True:
        number = signal.sigwait(_WATCHED)
        if number != signal.SIGCHLD:
            asked = asked or number
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status, asked


def _put_back(stdin: int, modes: _Modes) -> None:
    """Give the terminal back as the shell had it, while what is typed ahead stays."""
    with suppress(termios.error, OSError):
        termios.tcsetattr(stdin, termios.TCSANOW, modes)


def _restore(stdin: int, stderr: int, modes: _Modes, last_words: str) -> None:
    # The terminal itself may be gone.
    with suppress(termios.error, OSError):
        termios.tcsetattr(stdin, termios.TCSAFLUSH, modes)
        os.write(stderr, f"{_RESET}{last_words}".encode())


def _end_sentence(number: int) -> str:
    return (
        f"error: spectui was ended by {signal.Signals(number).name}; llama.cpp's last words are in "
        f"{log_path()}, and the next start offers the session again\n"
    )
