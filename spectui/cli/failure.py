"""How a command fails: one sentence on stderr and an exit code."""

import logging
import traceback

import click

from spectui.cli.output import complain
from spectui.errors import SpectuiError
from spectui.paths import data_dir

_DEFECT = 1
_USAGE = 2
_INTERRUPTED = 130


def report_failure(error: BaseException) -> int:
    """Tell the user what went wrong; return the exit code."""
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else _DEFECT
        case KeyboardInterrupt() | click.exceptions.Abort():
            complain("interrupted")
            return _INTERRUPTED
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            error.show()
            return _USAGE
        case SpectuiError() if not getattr(error, "__notes__", None):
            complain(f"error: {error}")
            return error.exit_code
        case _:
            return _report_defect(error)


def _report_defect(error: BaseException) -> int:
    text = "".join(traceback.format_exception(error))
    path = data_dir() / "logs" / "spectui.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError:
        complain(text)
        complain("error: this is a defect of spectui's; please report the text above")
        return _DEFECT
    record = logging.LogRecord("spectui", logging.ERROR, path.name, 0, text, None, None)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.emit(record)
    handler.close()
    complain(
        f"error: {type(error).__name__}: {error}; this is a defect of spectui's, "
        f"please report it with the traceback in {path}"
    )
    return _DEFECT
