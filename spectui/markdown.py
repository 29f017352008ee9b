"""Markdown of texts that others wrote: they neither format, link, embed nor mention anybody."""

import re
from collections.abc import Iterable

from spectui.format import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~])")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=\bwww)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)
"""Where GitHub would mention, refer or link, whatever stands before it."""
_PARTING = "\N{WORD JOINER}"
"""Nobody sees it."""


def escaped(text: str) -> str:
    """A text of others as it stands, in one line, whatever it means in Markdown or HTML."""
    plain = printable(" ".join(text.split()))
    whole = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKED.sub(_PARTING, _SPECIAL.sub(r"\\\1", whole))


def table_row(cells: Iterable[str]) -> str:
    """A row of a table, from texts as they stand."""
    return f"| {' | '.join(map(escaped, cells))} |"
