"""The command line: parses, defers imports, prints. One file per command.

Importing it loads neither numpy, optuna, textual nor llama_cpp; a command does when it runs.
"""

import sys

from spectui.cli.app import app
from spectui.cli.failure import report_failure
from spectui.cli.reader import reader
from spectui.interrupts import interrupts


def main() -> None:
    """Run the command line and exit with the contract's code."""
    interrupts.install()
    reader.begin()
    try:
        code = app.main(prog_name="spectui", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every way out has its exit code
        code = report_failure(error)
    code = interrupts.exit_code(code) if isinstance(code, int) else 0
    sys.exit(reader.exit_code(code))
