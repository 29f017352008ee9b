"""The command line: parses, defers imports, prints. One file per command.

Importing it loads neither numpy, optuna, textual nor llama_cpp; a command does when it runs.
"""

import signal
import sys
from types import FrameType

from spectui.cli.app import app
from spectui.cli.failure import report_failure


def main() -> None:
    """Run the command line and exit with the contract's code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app.main(prog_name="spectui", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every way out has its exit code
        code = report_failure(error)
    sys.exit(code if isinstance(code, int) else 0)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # Being told to end is being interrupted: what was measured is kept in both cases.
    raise KeyboardInterrupt
