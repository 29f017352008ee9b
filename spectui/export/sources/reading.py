"""Finds out what kind of source a text is, by what it holds rather than what it is called."""

import os
import re
from pathlib import Path

from spectui.errors import BadInputError
from spectui.export.sources.ini import ini_sections, ini_source
from spectui.export.sources.own_files import arguments_source, json_source, json_tree
from spectui.export.sources.processes import is_process, process_source
from spectui.export.sources.shell import shell_source
from spectui.export.sources.source import PROGRAMS, Source
from spectui.export.sources.swap import swap_source
from spectui.export.sources.systemd import is_unit, unit_source
from spectui.export.sources.yaml_files import compose_source, yaml_tree

_MOST_BYTES = 1 << 20
"""Of a file with a command: more is a model, or something else."""
_FILE = re.compile(r"\S+\.(sh|bash|service|ya?ml|ini|conf|cfg|env|args|txt|json)(:\S+)?")
"""What is meant as a file even if there is none."""

_SCRIPT = "#!"


def read_source(text: str) -> Source:
    """Read a command, ``pid:NUMBER``, a file, or ``FILE:NAME`` for one of several in it.

    Raises:
        BadInputError: it cannot be read, or names no single command.
    """
    if is_process(text):
        return process_source(text)
    found = _file_and_name(text)
    if found is None:
        if text == "-":
            raise BadInputError("- is no command; give one, or a file that holds one")
        if _is_special(text):
            raise BadInputError(f"{text} is no regular file; give a command, or a file of one")
        if _is_folder(text):
            raise BadInputError(f"{text} is a folder; give a command, or a file that holds one")
        if _FILE.fullmatch(text):
            raise BadInputError(f"{text} does not exist; give a command, or a file that holds one")
        return shell_source(text)
    path, wanted = found
    return _of_file(_content(path), path, wanted)


def _of_file(text: str, path: Path, wanted: str | None) -> Source:
    if is_unit(text):
        return unit_source(text, path, wanted)
    # A script may hold the text of another file.
    is_script = text.startswith(_SCRIPT)
    tree = None if is_script else yaml_tree(text, path)
    if tree is not None and isinstance(tree.get("services"), dict):
        return compose_source(tree, path, wanted)
    if tree is not None:
        return swap_source(tree, path, wanted)
    sections = None if is_script else ini_sections(text)
    if sections is not None:
        return ini_source(sections, path, wanted)
    if wanted is not None:
        raise BadInputError(
            f"{path} holds one command, none of them called {wanted}; give {path} alone"
        )
    document = json_tree(text)
    if document is not None:
        return json_source(document, path)
    return arguments_source(text) or shell_source(text, script=path)


def _file_and_name(text: str) -> tuple[Path, str | None] | None:
    """The file and what is wanted of it; None where there is no such file."""
    if _is_file(text):
        # The program alone is a command, as bad as it is.
        return None if Path(text).name in PROGRAMS else (Path(text).expanduser(), None)
    for at in (match.start() for match in re.finditer(":", text)):
        if text[at + 1 :] and _is_file(text[:at]):
            return Path(text[:at]).expanduser(), text[at + 1 :]
    return None


def _is_special(text: str) -> bool:
    try:
        path = Path(text)
        return path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _is_folder(text: str) -> bool:
    try:
        return bool(text) and "\n" not in text and Path(text).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def _is_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _content(path: Path) -> str:
    """Text of a file.

    Raises:
        BadInputError: it cannot be read, or is no text.
    """
    try:
        if os.stat(path).st_size > _MOST_BYTES:  # noqa: PTH116 - its size alone
            raise BadInputError(
                f"{path} is too large to hold a command; give a file that holds one"
            )
        content = path.read_bytes()
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read ({error.strerror}); give a file that holds a command"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} is no text; give a file that holds a command") from error
    if "\0" in text:
        raise BadInputError(f"{path} is no text; give a file that holds a command")
    return text.replace("\r\n", "\n")
