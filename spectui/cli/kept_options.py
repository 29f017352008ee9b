"""Options of a search that its study keeps, from which a report writes the command.

A study may be shown to others: neither a command of ``--from`` nor what one process alone was
given is kept.
"""

from collections.abc import Mapping
from typing import Any

from spectui.cli.options_common import BackendKind

_OWN = frozenset(
    {
        *("study", "storage", "resume", "trials", "time_budget", "json_path", "quiet", "verbose"),
        *("yes", "min_gain", "until", "repeats", "requests", "depths", "pin", "command_line"),
        "timeout",
    }
)


def kept_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The typed options of a command that its study keeps."""
    found = {name: value for name, value in given.items() if name not in _OWN}
    if given.get("backend") != BackendKind.SERVER:
        found.pop("server_bin", None)
    return {**found, **({"from": True} if "command_line" in given else {})}
