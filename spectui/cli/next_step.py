"""The last lines of a command: what to run next, to be copied."""

import os
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from spectui.cli.drawing import sentence
from spectui.commands.sources.reading import read_command

_OF_THIS_RUN = frozenset({"json_path", "quiet", "verbose", "repeats", "spec_type"})
"""Options that another command would not take over: ``bench`` has other words behind the last."""


def next_lines(does: str, words: Iterable[str]) -> list[str]:
    """Lines that name the next command.

    Args:
        does: what it does.
        words: of the command.
    """
    return [sentence(f"Next: {does}:"), f"  {shell_line(words)}"]


def described(command: str, does: str) -> str:
    """A line that is a command and what it does; two where a terminal is too narrow for one."""
    line = f"  {command}  {does}"
    return line if sentence(line) == line else f"  {command}\n      {does}"


def tune_words(given: Mapping[str, Any], **changed: object) -> list[str]:
    """The search with the models and options that were typed for a command, but for these."""
    # It loads every option.
    from spectui.cli.tune import command

    return ["spectui", "tune", *command.words({**_taken_over(given), **changed})]


def _taken_over(given: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in given.items() if name not in _OF_THIS_RUN}
    # A search has one temperature.
    if "," in str(own.get("temp", "")):
        del own["temp"]
    # What is pasted may hold secrets; a file or a process is named.
    if " " in (pasted := str(own.get("command_line", ""))):
        own["command_line"] = read_command(pasted).text
    return own


def shell_line(words: Iterable[str]) -> str:
    r"""Quote ``words`` for a shell, in printable characters.

    What a terminal would obey, and bytes that are no text, are written as ``$'\x1b'``, which bash
    and zsh read.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    printable = (chr(byte) if _is_plain(byte) else f"\\x{byte:02x}" for byte in _bytes(word))
    return f"$'{''.join(printable)}'"


def _bytes(word: str) -> bytes:
    """A word as a shell passes it on."""
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:
        # Escapes of a file may write one character as two surrogates, or half of one.
        return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _is_plain(byte: int) -> bool:
    return chr(byte).isascii() and chr(byte).isprintable() and chr(byte) not in "'\\"
