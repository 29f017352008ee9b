"""The command, the environment and the mounts of a container."""

import os.path
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from spectui.commands.command import ServerCommand
from spectui.commands.home import text_of
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.files import Tree, chosen
from spectui.commands.sources.source import CONTAINERS, LLAMA_CPP, with_all_paths
from spectui.errors import BadInputError

_ROLES = frozenset({"--server", "-s"})
"""First words with which the full image starts the server."""
_MANY = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
}
"""Options of ``docker run`` that may be repeated, by Compose's keys."""
_SWITCHES = frozenset(
    {"--rm", "--detach", "--interactive", "--tty", "--quiet", "--replace", "--init", "-P"}
    | {"--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--sig-proxy"}
    | {"--oom-kill-disable", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options of ``docker run`` that take no value; short ones are those of ``_LETTERS``."""
_LETTERS = frozenset("ditq")
_VARIABLE = re.compile(r"\$(?:(\$)|[A-Za-z_]\w*|\{[^}\n]*\}?)")
"""A dollar sign that stands for itself, or a variable."""
_RESOLVED_BEFORE = ("env_file", "extends")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A service of Compose, or a ``docker run``."""

    service: Tree
    """The service by Compose's keys, its variables expanded."""
    folder: Path
    """The folder where its relative paths start."""
    name: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Asked for those of its environment that have no value there."""

    @property
    def image(self) -> str:
        """The name of its image."""
        return str(self.service.get("image", ""))

    @property
    def words(self) -> list[str]:
        """The program with its arguments.

        Raises:
            BadInputError: quotes are not balanced.
        """
        entry, command = _words(self.service, "entrypoint"), _words(self.service, "command")
        if ":full" in self.image and not _ROLES.isdisjoint(command[:1]):
            command = command[1:]
        # The image's own program runs where no entrypoint says otherwise.
        is_named = entry or names_server(command[:1])
        return [*entry, *command] if is_named else ["llama-server", *command]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that have a value."""
        given = self.service.get("environment") or ()
        pairs = given.items() if isinstance(given, dict) else map(_assignment, map(str, given))
        texts = {str(n): self.variables.get(str(n)) if v is None else scalar(v) for n, v in pairs}
        return {name: text for name, text in texts.items() if text is not None}

    @property
    def mounts(self) -> dict[PurePosixPath, str]:
        """Folders of the host by the container's, the deepest first, without named volumes."""
        listed = self.service.get("volumes")
        found: dict[PurePosixPath, str] = {}
        for source, target in map(_mount, listed if isinstance(listed, list) else ()):
            if target and source.startswith((".", "/", "~")):
                is_at_home = source.startswith("~")
                path = source if is_at_home else os.path.normpath(self.folder / source)
                found[PurePosixPath(target)] = path
        return dict(sorted(found.items(), key=lambda item: -len(item[0].parts)))


def _mount(volume: object) -> tuple[str, str]:
    """Source and target of a volume, in any of its forms."""
    if isinstance(volume, str) and "=" in volume.partition(",")[0]:
        volume = dict(part.partition("=")[::2] for part in volume.split(","))
        aliases = {"src": "source", "dst": "target", "destination": "target"}
        volume = {aliases.get(key, key): value for key, value in volume.items()}
    if isinstance(volume, dict):
        return str(volume.get("source", "")), str(volume.get("target", ""))
    source, target, *_mode = (*str(volume).split(":"), "")
    return source, target


def _assignment(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None


def outside(inner: ServerCommand, mounts: Mapping[PurePosixPath, str]) -> ServerCommand:
    """The command with the host's paths for files in the container's mounts.

    Args:
        inner: the command as the container runs it.
        mounts: as of the container.
    """

    def moved(path: str) -> str:
        inside = PurePosixPath(path)
        for target, source in mounts.items():
            if inside.is_relative_to(target):
                return os.path.normpath(Path(source) / inside.relative_to(target))
        return path

    # The container's program is none of the host's.
    return replace(with_all_paths(inner, moved), prelude=ServerCommand().prelude, inside=inner)


def plain_words(text: str) -> list[str]:
    r"""Split like programs that know quotes, blanks and ``\``, but no other shell syntax.

    Raises:
        BadInputError: quotes are not balanced.
    """
    try:
        return shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        why = str(error).lower()
        raise BadInputError(f"the command cannot be read ({why}); check its quotes") from error


def _words(service: Tree, key: str) -> list[str]:
    value = service.get(key)
    if isinstance(value, list):
        return [scalar(word) for word in value]
    return [] if value is None else plain_words(str(value))


def scalar(value: object) -> str:
    """The text of a value of YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def docker_run(
    words: Sequence[str], variables: Mapping[str, str], folder: Path
) -> Container | None:
    """The container that a command runs; None for any other command.

    Args:
        words: words of the command.
        variables: variables that reach the command.
        folder: the folder where it runs.

    Raises:
        BadInputError: its variables stand in a file, or its image is another program's.
    """
    program = next((n for n, w in enumerate(words) if PurePath(w).name in CONTAINERS), None)
    if program is None or "run" not in words[program + 1 : program + 3]:
        return None
    at = words.index("run", program) + 1
    service: dict[str, Any] = {}
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        is_short = not flag.startswith("--")
        at += 1
        if flag in _SWITCHES or (is_short and _LETTERS.issuperset(flag[1:])):
            continue
        if not equals and is_short and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = "".join(words[at : at + 1])
            at += 1
        _keep(service, flag, text_of(value))
    image, command = "".join(words[at : at + 1]), list(words[at + 1 :])
    if not (LLAMA_CPP.search(image) or "entrypoint" in service or names_server(command)):
        raise BadInputError(f"the image {image} contains no llama-server; give another command")
    service |= {"image": image, "command": command}
    return Container(service=service, folder=folder, variables=variables)


def _keep(service: dict[str, Any], flag: str, value: str) -> None:
    """Keep an option that says which files and variables there are, or what is run."""
    if flag == "--env-file":
        raise BadInputError("--env-file is not read; give its variables with -e")
    if flag in _MANY:
        service.setdefault(_MANY[flag], []).append(value)
    elif flag == "--entrypoint":
        service["entrypoint"] = [value]


def composed(tree: Tree, path: Path, wanted: str | None) -> Container:
    """The container of a service in a file of Compose that starts llama-server.

    Raises:
        BadInputError: no service or several do, or parts of it stand elsewhere.
    """
    services = {str(n): s for n, s in tree["services"].items() if isinstance(s, dict)}
    servers = [name for name, service in services.items() if name == wanted or _is_server(service)]
    name = chosen(servers, wanted, path, "service")
    place = f"{path}: {name}"
    if not _is_server(services[name]):
        image = services[name].get("image")
        raise BadInputError(f"{place} runs {image}, which is no llama-server; give another service")
    service = _resolved(services[name], place)
    for key in _RESOLVED_BEFORE:
        if service.get(key):
            raise _unresolved(place, key)
    return Container(service=service, folder=path.absolute().parent, name=name)


def _is_server(service: Tree) -> bool:
    words = " ".join(str(service.get(key) or "") for key in ("entrypoint", "command"))
    return (
        names_server(re.split(r"[\s\[\],'\"]+", words))
        or LLAMA_CPP.search(str(service.get("image", ""))) is not None
        or PREFIX in str(service.get("environment"))
    )


def _resolved(value: Any, place: str) -> Any:  # noqa: ANN401 - a tree of YAML values
    """The value with plain dollar signs.

    Raises:
        BadInputError: it has a variable, which Docker replaces.
    """
    match value:
        case str():
            for found in _VARIABLE.finditer(value):
                if not found[1]:
                    raise _unresolved(place, found[0])
            return value.replace("$$", "$")
        case list():
            return [_resolved(item, place) for item in value]
        case dict():
            return {key: _resolved(item, place) for key, item in value.items()}
    return value


def _unresolved(place: str, what: str) -> BadInputError:
    return BadInputError(
        f"{place} has {what}, which Docker resolves and spectui does not; give what docker compose "
        "config prints"
    )
