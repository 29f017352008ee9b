"""The command line: parses, defers imports, prints. One file per command.

Importing it loads neither numpy, optuna, textual nor llama_cpp; a command does when it runs.
"""

import gc
import sys

from spectui.cli.app import app
from spectui.cli.failure import report_failure
from spectui.cli.output import reader
from spectui.interrupts import interrupts

_OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's own number is 700 and costs short commands a tenth of their time, as what is imported
stays."""


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
