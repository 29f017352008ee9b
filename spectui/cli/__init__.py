"""The command line: runs a command, prints its failure in one sentence, and exits. One file each.

Importing it loads neither numpy, optuna, textual nor llama_cpp; a command does when it runs.
"""

import errno
import gc
import os
import sys

import click

from spectui.cli.app import app
from spectui.cli.output import complain, reader
from spectui.errors import DoesNotFitError, EngineDiedError, SpectuiError
from spectui.files import open_private
from spectui.format import printable
from spectui.interrupts import interrupts
from spectui.paths import ensure_dir, log_path
from spectui.secret import without_passwords

_OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's own number is 700 and costs short commands a tenth of their time, as what is imported
stays."""
_DEFECT = 1
_USAGE = 2
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with the contract's code."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    interrupts.install()
    reader.begin()
    try:
        code = app.main(prog_name="spectui", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every way out has its exit code
        code = report_failure(error)
    code = interrupts.exit_code(code) if isinstance(code, int) else 0
    sys.exit(reader.exit_code(code))


def report_failure(error: BaseException) -> int:
    """Report an error to the user; return the exit code."""
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else _DEFECT
        case KeyboardInterrupt() | click.exceptions.Abort():
            complain("interrupted")
            return _INTERRUPTED
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            shows_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
            complain(error.message if shows_help else f"error: {_sentence(error)}")
            return _USAGE
        case EngineDiedError(log=log) if log and not getattr(error, "__notes__", None):
            complain(f"error: {without_passwords(str(error))}{_named_log(error, log)}")
            return error.exit_code
        case SpectuiError() if not getattr(error, "__notes__", None):
            complain(f"error: {without_passwords(str(error))}")
            return error.exit_code
        case MemoryError() | OSError(errno=errno.ENOMEM):
            complain("error: memory ended; close other programs, or choose a shorter -c")
            return DoesNotFitError.exit_code
        case _:
            return _report_defect(error)


def _sentence(error: click.ClickException) -> str:
    """One sentence for an error of click: the mistake, its place, and the help to read."""
    text = error.format_message().rstrip(".").replace("'", "")
    match error:
        case click.NoSuchOption(possibilities=alike):
            meant = f"; did you mean {' or '.join(alike)}?" if alike else ""
            text = f"no such option {error.option_name}{meant}"
        case click.BadParameter(param=click.Option() as option) if error.message:
            return f"{_name(option)}: {error.message.rstrip('.')}"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    text = f"{text[0].lower()}{text[1:]}"
    return text if ctx is None else f"{text}; see {ctx.command_path} --help"


def _name(option: click.Option) -> str:
    """The first long spelling; the short one of an option that has no other."""
    return next((flag for flag in option.opts if flag.startswith("--")), option.opts[0])


def _named_log(error: BaseException, lines: tuple[str, ...]) -> str:
    """Keep llama.cpp's last lines, and say where they are; empty where they cannot be kept."""
    text = without_passwords("\n".join((str(error), *lines)))
    return f"; llama.cpp's last lines are in {log_path()}" if _is_logged(text) else ""


def _report_defect(error: BaseException) -> int:
    import traceback

    text = without_passwords("".join(traceback.format_exception(error)))
    if _is_logged(text):
        complain(
            f"error: {type(error).__name__}: {without_passwords(str(error))}; this is a defect of "
            f"spectui's, please report it with the traceback in {log_path()}"
        )
    else:
        complain(text)
        complain("error: this is a defect of spectui's; please report the text above")
    return _DEFECT


def _is_logged(text: str) -> bool:
    """Add ``text`` to the log; False if the whole of it does not fit."""
    from datetime import UTC, datetime

    now = datetime.now(UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
    try:
        ensure_dir(log_path().parent)
        log = open_private(log_path(), os.O_WRONLY | os.O_APPEND)
        with os.fdopen(log, "a", encoding="utf-8", errors="backslashreplace") as file:
            shown = printable(text, keep="\n")
            file.write(f"{now} {shown}\n")
    except (OSError, SpectuiError):
        return False
    return True
