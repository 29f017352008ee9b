"""Names of files and folders as the picker shows them."""

import os
import re
from pathlib import Path

from spectui.tui.glyphs import ASCII, Glyphs
from spectui.tui.text import names

_HUB = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/[0-9a-f]{40}(/.*)?$")


def visible(text: str, glyphs: Glyphs) -> str:
    """Return ``text`` on one line, safe to show, in the characters of ``glyphs``."""
    return names.visible(text, ascii_only=glyphs == ASCII)


def short_folder(folder: Path) -> str:
    """Return a folder as people call it: the hub's repositories by their name, ``~`` for home."""
    text = str(folder)
    if match := _HUB.search(text):
        owner, repository, below = match.groups()
        return f"hub: {owner}/{repository}{below or ''}"
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.expanduser raises where there is no home
    if home != "/" and (text == home or text.startswith(home + "/")):
        return "~" + text[len(home) :]
    return text
