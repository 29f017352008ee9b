"""Finds the file that a pattern such as ``model*.gguf`` names, as a shell would."""

import glob
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from spectui.errors import BadInputError
from spectui.export.server_options import server_option
from spectui.export.sources.shell_command import ShellWord

_BRACES = re.compile(r"\{[^{}\0]*(?:,|\.\.)[^{}]*\}|\{[^{}]*(?:,|\.\.)[^{}\0]*\}")
_MAGIC = frozenset("*?[")


def is_pattern(word: ShellWord) -> bool:
    """Whether files may take its place."""
    return not _MAGIC.isdisjoint(word.bare)


def expanded(words: Sequence[ShellWord], folder: str | None) -> Iterator[str]:
    """Yield the words with the one file that a pattern names.

    A pattern that names none stays, as it does in a shell, unless it has to be a file, or nobody
    knows where to look.

    Args:
        words: of a command.
        folder: where its relative paths start; empty for here, None if nobody knows.

    Raises:
        BadInputError: a pattern names several files, or none where there has to be one, or a shell
            would make several words of one.
    """
    before = ""
    for word in words:
        if _BRACES.search(word.bare):
            raise BadInputError(
                f"the command contains {word.text!r}, of which a shell makes several words; put "
                "there what it stands for, or quotes around it"
            )
        yield _file(word, before, folder) if is_pattern(word) else word.text
        before = word.text


def _file(word: ShellWord, before: str, folder: str | None) -> str:
    option = server_option(before)
    is_file = "=" not in word.text if folder is None else option is not None and option.is_file
    found: list[str] = []
    if (folder is not None or word.text.startswith("/")) and "\0" not in word.text:
        pattern = "".join(
            char if bare == char else glob.escape(char)
            for char, bare in zip(word.text, word.bare, strict=True)
        )
        found = list(islice(glob.iglob(pattern, root_dir=folder or None), 2))  # noqa: PTH207 - as a shell does
    if len(found) == 1:
        return found[0]
    if not found and not is_file:
        return word.text
    which = "several files" if found else "no file here"
    raise BadInputError(f"{word.text} names {which}; put there the one that is meant")
