"""What a container runs: its words, its environment, and the folders that it sees."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from spectui.errors import BadInputError
from spectui.export.sources.environment_files import environment_file
from spectui.export.sources.mounts import mounts_of
from spectui.export.sources.shell_words import plain_words
from spectui.export.sources.source import names_server

_FULL_IMAGE = re.compile(r":full\b")
_ROLES = frozenset({"--server", "-s"})
"""First words of the full image's command that choose the server."""

Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A service of Compose, or a ``docker run``."""

    words: tuple[str, ...]
    """The program with its arguments."""
    environment: Mapping[str, str]
    mounts: Mapping[PurePosixPath, Path]
    """Folders of the host by the container's."""


def container_of(service: Tree, folder: Path, variables: Mapping[str, str]) -> Container:
    """What a service runs, which has Compose's keys and no variables in its values.

    Args:
        service: ``image``, ``entrypoint``, ``command``, ``environment``, ``env_file``, ``volumes``.
        folder: where its relative paths start.
        variables: asked for those of the environment that have no value there.

    Raises:
        BadInputError: a file cannot be read, or quotes are not balanced.
    """
    return Container(
        words=tuple(_words(service)),
        environment=_environment(service, folder, variables),
        mounts=mounts_of(service, folder),
    )


def _words(service: Tree) -> list[str]:
    entry, command = _as_words(service.get("entrypoint")), _as_words(service.get("command"))
    if _FULL_IMAGE.search(str(service.get("image", ""))) and command[:1] and command[0] in _ROLES:
        command = command[1:]
    words = [*entry, *command]
    # The image's own program runs where no entrypoint says otherwise.
    return words if entry or names_server(words[:1]) else ["llama-server", *words]


def _as_words(value: object) -> list[str]:
    if isinstance(value, list):
        return [_scalar(word) for word in value]
    if value is None:
        return []
    return plain_words(str(value))


def _environment(service: Tree, folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    files = service.get("env_file")
    for entry in files if isinstance(files, list) else [files] if files else []:
        name = str(entry.get("path", "")) if isinstance(entry, dict) else str(entry)
        try:
            found |= environment_file((folder / name).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(
                f"env_file {folder / name} cannot be read; give a file whose parts are there"
            ) from error
    environment = service.get("environment")
    pairs: list[tuple[str, object]] = []
    if isinstance(environment, dict):
        pairs = [(str(name), value) for name, value in environment.items()]
    elif isinstance(environment, list):
        pairs = [
            (name, value if equals else None)
            for name, equals, value in (str(item).partition("=") for item in environment)
        ]
    for name, value in pairs:
        # One without a value is taken from where the container is started.
        text = variables.get(name) if value is None else _scalar(value)
        if text is not None:
            found[name] = text
    return found


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
