"""Reads commands from text: detects by content what kind of source it is."""

import re
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.programs import is_server_today, starts_server
from spectui.commands.sources.files import MOST_BYTES, SeveralError, check_file, text_of_file
from spectui.commands.sources.pasted import as_typed, unfenced
from spectui.commands.sources.presets import preset_command, read_presets
from spectui.commands.sources.shell import read_shell
from spectui.commands.sources.source import NO_SERVER, PROCESS
from spectui.errors import BadInputError

_MOST_WORDS = 10_000
"""Maximum number of words of a command."""
_FILE = re.compile(
    r"\S+\.(sh|bash|bat|cmd|ps1|service|ya?ml|ini|conf|cfg|env|args|txt|json)(:\S+)?"
)
"""Text that is meant as a file even if there is none."""
_SCRIPT = "#!"
_YAML = re.compile(r"(?m)^(services|models)[ \t]*:")
_PASTE = Path("the paste")
"""Stands for the file of a text that was pasted."""


def read_command(text: str) -> ServerCommand:
    """Read a command, ``pid:NUMBER``, a file, or ``FILE:NAME`` for one of several in it.

    Its secrets are hidden.

    Raises:
        BadInputError: it cannot be read, names no single command, or an option lacks its value.
    """
    command = _bounded(lambda: _source_command(text))
    command.check_values()
    return command


def read_commands(text: str) -> dict[str | None, ServerCommand]:
    """Read what ``read_command`` does, and all commands of a file that has several, by name.

    Options may lack their values.

    Raises:
        BadInputError: one cannot be read.
    """
    return _every(lambda wanted: _source_command(text if wanted is None else f"{text}:{wanted}"))


def read_paste(text: str) -> dict[str | None, ServerCommand]:
    """Read all commands of a text: a command, or the content of a file that holds some.

    Raises:
        BadInputError: it holds none, or what cannot be read.
    """
    if len(text) > MOST_BYTES or "\0" in text:
        raise BadInputError("the paste is too large, or no text; paste one command")
    if not text.strip():
        raise BadInputError("nothing was pasted; paste a llama-server command, then press Ctrl-D")
    return _every(lambda wanted: _text_command(text, _PASTE, wanted))


def _every(read: Callable[[str | None], ServerCommand]) -> dict[str | None, ServerCommand]:
    try:
        return {None: _bounded(lambda: read(None))}
    except SeveralError as error:
        if not error.names:
            raise
        return {name: _bounded(partial(read, name)) for name in error.names}


def _bounded(read: Callable[[], ServerCommand]) -> ServerCommand:
    try:
        command = read()
    except RecursionError as error:
        raise BadInputError("the command is nested too deeply; give a plain one") from error
    if len(command.arguments) > _MOST_WORDS:
        raise BadInputError("the command has too many words; give a shorter one")
    if not command.items and not starts_server(command):
        raise BadInputError(NO_SERVER)
    return command.discreet()


def _source_command(text: str) -> ServerCommand:
    if "\0" in text:
        raise BadInputError(
            "the command holds a NUL character, which no program can be given; remove it"
        )
    if text.startswith(PROCESS) and len(text.split()) == 1:
        # Imported here, since it loads psutil.
        from spectui.commands.sources.processes import read_process

        return read_process(text)
    found = _file_and_name(text)
    if found is not None:
        return _text_command(text_of_file(found[0]), *found)
    mode = _mode(text)
    if text == "-" or _FILE.fullmatch(text) or (mode and not stat.S_ISREG(mode)):
        what = " is no regular file" if mode else ": no such file"
        raise BadInputError(f"{text}{what}; give a command, or a file that holds one")
    return _text_command(text, None, None)


def _text_command(text: str, path: Path | None, wanted: str | None) -> ServerCommand:
    """The command in what is typed, or in a file's text."""
    text = text.replace("\r\n", "\n")
    # A script may hold the text of another file.
    if not text.startswith(_SCRIPT):
        text = unfenced(text)
        check_file(text, "it" if path is None else str(path))
        found = None if path is None else _file_command(text, path, wanted)
        if found is not None:
            return found
    plain, changes = as_typed(text)
    command = read_shell(plain, path, wanted)
    if changes:
        with suppress(BadInputError):
            # A change outside of the server's command is not reported.
            if read_shell(text, path, wanted) == command:
                changes = ()
    return replace(command, remarks=(*changes, *command.remarks))


def _file_command(text: str, path: Path, wanted: str | None) -> ServerCommand | None:
    """The command of a file of Compose, llama-swap or presets; None for any other."""
    if _YAML.search(text):
        # Imported here, since it loads the YAML parser.
        from spectui.commands.sources.yaml_files import read_yaml

        found = read_yaml(text, path, wanted)
        if found is not None:
            return found
    sections = read_presets(text, path)
    return None if sections is None else preset_command(sections, path, wanted)


def _file_and_name(text: str) -> tuple[Path, str | None] | None:
    """The file and the requested entry; None if there is no such file."""
    if stat.S_ISREG(_mode(text)):
        # The program alone is a command, as bad as it is.
        return None if is_server_today(Path(text).name) else (Path(text).expanduser(), None)
    for at in (match.start() for match in re.finditer(":", text)):
        if text[at + 1 :] and stat.S_ISREG(_mode(text[:at])):
            return Path(text[:at]).expanduser(), text[at + 1 :]
    return None


def _mode(text: str) -> int:
    """The mode of the file that a text names; 0 if it names none."""
    try:
        return 0 if not text or "\n" in text else Path(text).expanduser().stat().st_mode
    except (OSError, ValueError, RuntimeError):
        return 0
