"""Reads files of assignments, as systemd, Compose and Docker have them."""

import re

from spectui.export.sources.source import ASSIGNMENT


def environment_file(text: str) -> dict[str, str]:
    """Assignments of a file of them, one per line, with quotes or without."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\n", "", text).splitlines():
        match = ASSIGNMENT.fullmatch(line.strip().removeprefix("export "))
        if match is not None:
            value = match[2].strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[match[1]] = value[1:-1] if is_quoted else value
    return found
