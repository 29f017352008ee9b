"""Output of a command: stdout and its reader, stderr, files."""

import json
import os
import re
import select
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import click

from spectui.errors import BadInputError
from spectui.files import write_file
from spectui.format import printable

_LINES = "\n\t"
_STYLE = re.compile("(\x1b\\[(?:[012]|(?:1;)?3[1-3])m)")
"""Our own colours and weights: none of them hides a text."""
_HELD = re.compile(
    r" (?=%|ms)|(?:(?<=\bspectui)|(?<=\bspectui models)|(?<=\bspectui studies)) (?=[a-z])"
)
"""Blanks at which no line is broken: a number stays with its unit, a command is copied."""
_HOLD = "\N{NO-BREAK SPACE}"
_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
"""Takes what would be printed on stderr, where a screen asks for that."""


def write_document(document: dict[str, Any], json_path: str, *, quiet: bool = False) -> None:
    """Write a document to the file of ``--json``, and say so unless ``quiet``.

    Raises:
        BadInputError: the file or stdout cannot be written.
    """
    text = json.dumps(document, indent=2, allow_nan=False)
    if json_path == "-":
        say(text)
        return
    write_given(Path(json_path), f"{text}\n".encode())
    if not quiet:
        complain(f"written to {json_path}")


def write_all(writers: Sequence[Callable[[], None]]) -> None:
    """Call every one of ``writers``, even if some fail.

    Raises:
        BadInputError: what they could not write, each in its words.
    """
    failed: list[BaseException] = []
    for write in writers:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
    for one in failed:
        if not isinstance(one, BadInputError):
            raise one
    if failed:
        raise BadInputError("; and ".join(map(str, failed))) from failed[0]


def say(text: str) -> None:
    """Print on stdout; tolerate a reader that leaves early.

    Raises:
        BadInputError: stdout was closed, or has no room.
    """
    if sys.stdout is None:
        raise BadInputError("stdout is closed; let it go to a file or a program that reads it")
    try:
        # Unless told, it takes colours out of what goes to a file, and so parts of a file's name.
        # click itself would write UTF-8 to a stdout that is to be ASCII.
        shown = _sanitised(text) if sys.stdout.isatty() else text
        click.echo(shown, file=sys.stdout, color=True)
    except BrokenPipeError:
        reader.leave()
    except OSError as error:
        discard(sys.stdout)
        raise BadInputError(
            f"stdout cannot be written ({error.strerror}); let it go to a file or a program that "
            "reads all of it"
        ) from error


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Collect what would be printed on stderr: a screen shows it."""
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def complain(text: str) -> None:
    """Print on stderr; if nobody is left to read it, the exit code still reports the failure."""
    if (heard := _heard.get()) is not None:
        heard.append(text)
        return
    with suppress(OSError):
        click.echo(_fitted(printable(text, keep=_LINES)), err=True)


def _fitted(text: str) -> str:
    """Text in lines that a terminal at stderr need not break; as it is for a file or a program."""
    width = _stderr_width()
    if width is None:
        return text
    # What is indented is to be copied, or was put in place by click.
    lines = text.split("\n")
    return "\n".join(one if one.startswith(" ") else filled(one, width) for one in lines)


def _stderr_width() -> int | None:
    """Columns of the terminal that stderr is; None where it is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or None
    except (AttributeError, OSError, ValueError):
        # It may be closed, or be no file.
        return None


def filled(text: str, width: int, *, indent: str = "", first: str = "") -> str:
    """Break a paragraph into lines at its blanks, and nowhere else.

    Args:
        text: of the paragraph.
        width: columns of a line; a longer word stays whole.
        indent: of its lines but the first.
        first: indent of its first line.
    """
    lines = textwrap.fill(
        _HELD.sub(_HOLD, text),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_HOLD, " ")


def say_exactly(text: str) -> None:
    """Print on stdout every byte of what programs are to read.

    Raises:
        BadInputError: as ``say``, or a terminal would act on it.
    """
    if sys.stdout is not None and sys.stdout.isatty() and text != printable(text, keep=_LINES):
        raise BadInputError(
            "a value holds control characters, which a terminal would act on; let stdout go to a "
            "file"
        )
    say(text)


def _sanitised(text: str) -> str:
    """Text for a terminal: styles are ours and stay, and nothing else that it would obey."""
    parts = enumerate(_STYLE.split(text))
    return "".join(part if at % 2 else printable(part, keep=_LINES) for at, part in parts)


def write_given(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write a file that the user has named; whatever it held is replaced.

    Raises:
        BadInputError: it cannot be written.
    """
    try:
        write_file(path, content, is_private=is_private)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); give another file"
        ) from error


def check_writable(
    json_path: str | None,
    inputs: Sequence[Path | None],
    *,
    option: str = "--json",
    must_be_file: bool = False,
) -> None:
    """Check that the result can be written, before hours of measuring.

    Args:
        json_path: value of ``--json``.
        inputs: files of the user's that must not be overwritten.
        option: option that named the path.
        must_be_file: whether a device or a pipe will not do.

    Raises:
        BadInputError: the folder does not exist or takes no file, or the path is a folder, a model
            or an input.
    """
    if json_path is None or json_path == "-":
        return
    path = Path(json_path).absolute()
    if any(
        given is not None and os.path.realpath(path) == os.path.realpath(given) for given in inputs
    ):
        raise BadInputError(f"{json_path} is an input of this run; give {option} another file")
    if must_be_file and path.exists() and not path.is_file():
        raise BadInputError(f"{option} {json_path} is no regular file; give another path")
    is_closed = path.exists() and not os.access(path, os.W_OK)
    if path.is_dir() or is_closed or not _takes_files(path.parent):
        raise BadInputError(
            f"{option} {json_path} cannot be written; give a file in a writable folder"
        )
    if os.path.realpath(path).endswith(".gguf"):
        raise BadInputError(f"{json_path} has the name of a model; give {option} another file")


def _takes_files(folder: Path) -> bool:
    """Whether the folder takes a new file, by trying: access rights alone do not tell."""
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


_UNREAD = 141
"""Exit code of a program that SIGPIPE ended, as a shell gives it."""


class Reader:
    """Records that stdout has lost its reader. The remaining work is done all the same."""

    def __init__(self) -> None:
        """Assume that stdout has a reader."""
        self._is_gone = False

    def begin(self) -> None:
        """Assume again that stdout has a reader, at the start of a command."""
        self._is_gone = False
        if isinstance(sys.stdout, TextIOWrapper):
            # Whatever it cannot encode is printed as a question mark.
            sys.stdout.reconfigure(errors="replace")

    def leave(self) -> None:
        """Record that stdout has no reader; discard further output."""
        self._is_gone = True
        discard(sys.stdout)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Exit quietly if click itself, printing help, finds the pipe closed.

        Raises:
            RuntimeError: another pipe broke, of which click would say nothing.
        """
        try:
            yield
        except BrokenPipeError as error:
            if not _is_unread(sys.stdout):
                raise RuntimeError("a pipe broke that is not stdout") from error
            self.leave()
            raise click.exceptions.Exit(0) from None

    def exit_code(self, code: int) -> int:
        """Exit code of a run that ended with ``code``: an unread success is a failure."""
        # What could not be told on stderr would be tried again at exit, and change the code.
        with suppress(OSError):
            _flush(sys.stderr)
        return _UNREAD if self._is_gone and code == 0 else code


def discard(stream: TextIO) -> None:
    """Redirect a broken stream to nowhere, lest Python flush it again at exit and complain."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _is_unread(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _fd, events in poll.poll(0))


def _flush(stream: TextIO | None) -> None:
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        discard(stream)


reader = Reader()
