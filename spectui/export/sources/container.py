"""What a container runs: its words, its environment, and the folders that it sees."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from spectui.errors import BadInputError
from spectui.export.entry import COMPOSE, Entry
from spectui.export.sources.environment_files import environment_file
from spectui.export.sources.mounts import mounts_of
from spectui.export.sources.service import (
    kept_environment,
    kept_settings,
    own_variables,
    told_of_settings,
)
from spectui.export.sources.shell_scanner import plain_words
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
    service: Tree
    """All of it, by Compose's keys."""
    folder: Path
    """Where its relative paths start."""
    name: str | None = None
    around: Tree = field(default_factory=dict)
    """Parts of a Compose file that it may refer to."""
    notes: tuple[str, ...] = ()
    """What no service of Compose can say."""

    def entry(self, program: tuple[str, ...]) -> Entry:
        """What an export into a Compose file keeps of it.

        Args:
            program: what it runs, without the arguments.
        """
        role = _role(self.service)
        command = _as_words(self.service.get("command"))
        ahead = role or (program if names_server(command[:1]) else ())
        has_entry = bool(self.service.get("entrypoint"))
        return Entry(
            format=COMPOSE,
            name=self.name,
            settings={
                **kept_settings(self.service, program if has_entry else (), self.folder),
                **kept_environment(self.service, self.environment, self.folder),
            },
            variables=frozenset(self.environment),
            around=self.around,
            ahead=() if has_entry else tuple(ahead),
            notes=(*self.notes, *told_of_settings(self.service)),
        )


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
        service=service,
        folder=folder,
    )


def _words(service: Tree) -> list[str]:
    entry, command = _as_words(service.get("entrypoint")), _as_words(service.get("command"))
    words = [*entry, *command[len(_role(service)) :]]
    # The image's own program runs where no entrypoint says otherwise.
    return words if entry or names_server(words[:1]) else ["llama-server", *words]


def _role(service: Tree) -> tuple[str, ...]:
    """What makes the full image start the server; nothing for other images."""
    command = _as_words(service.get("command"))
    is_full = _FULL_IMAGE.search(str(service.get("image", ""))) is not None
    return tuple(command[:1]) if is_full and command[:1] and command[0] in _ROLES else ()


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
    for name, value in own_variables(service).items():
        # One without a value is taken from where the container is started.
        text = variables.get(name) if value is None else _scalar(value)
        if text is not None:
            found[name] = text
    return found


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
