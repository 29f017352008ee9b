"""Shell commands to copy, with names of files quoted."""

import os
import shlex
from collections.abc import Iterable

from spectui.cli.findings import Findings


def tune_command(found: Findings) -> str:
    """Return the command that measures the recommended draft."""
    if found.target is None or found.first is None:
        raise ValueError("there is no draft to try")
    target, draft = str(found.target.path), str(found.first.model.path)
    return shell_line(["spectui", "tune", "-m", target, "-md", draft, "-c", str(found.n_ctx)])


def shell_line(words: Iterable[str]) -> str:
    r"""Quote ``words`` for a shell, in printable characters.

    What a terminal would obey, and bytes that are no text, are written as ``$'\x1b'``, which bash
    and zsh read.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    printable = (chr(byte) if _is_plain(byte) else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(printable)}'"


def _is_plain(byte: int) -> bool:
    return chr(byte).isascii() and chr(byte).isprintable() and chr(byte) not in "'\\"
