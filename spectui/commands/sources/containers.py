"""Finds the command that a container runs: of ``docker run``, or of a service of Compose."""

import os.path
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from spectui.commands.command import ServerCommand, Start
from spectui.commands.home import is_at_home, path_of, text_of
from spectui.commands.programs import file_name, names_server
from spectui.commands.server_options import option_of_variable
from spectui.commands.sources.files import Tree
from spectui.commands.sources.source import CONTAINERS, LLAMA_CPP, assigned, command_of, with_paths
from spectui.errors import BadInputError

_MANY = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
}
"""Options of ``docker run`` that may be repeated, by Compose's keys."""
_OTHER_PROGRAMS = re.compile(r"llama\.cpp:(full|light)(?![^-])")
"""llama.cpp's images that start by a first word (``tools.sh``), or llama-cli."""
_SWITCHES = frozenset(
    {"--rm", "--detach", "--interactive", "--tty", "--quiet", "--replace", "--init", "-P"}
    | {"--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--sig-proxy"}
    | {"--oom-kill-disable", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options of ``docker run`` that take no value; short ones are those of ``_LETTERS``."""
_LETTERS = frozenset("ditq")


def started(words: Sequence[str], variables: Mapping[str, str], folder: str = "") -> ServerCommand:
    """The command that these words run, in a container too.

    Args:
        words: words of the command.
        variables: variables that reach it.
        folder: base of a container's relative folders; empty for the present one.

    Raises:
        BadInputError: they start no llama-server, or an unknown program.
    """
    own, words = assigned(words)
    variables = {**variables, **own}
    if not runs_container(words):
        return command_of(words, variables)
    service = _docker_run(words[words.index("run") + 1 :])
    at = path_of(folder)
    base = Path(at) if is_at_home(at) else Path.cwd() / at
    return contained(service, base)


def runs_container(words: Sequence[str]) -> bool:
    """Whether words start a container."""
    program = next((n for n, w in enumerate(words) if file_name(w) in CONTAINERS), len(words))
    return "run" in words[program + 1 : program + 3]


def _docker_run(words: Sequence[str]) -> dict[str, Any]:
    """The service of a ``docker run``, by Compose's keys.

    Raises:
        BadInputError: its variables stand in a file, or its image is another program's.
    """
    service: dict[str, Any] = {}
    at = 0
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
        if flag == "--env-file":
            raise BadInputError("--env-file is not read; give its variables with -e")
        if flag in _MANY:
            service.setdefault(_MANY[flag], []).append(text_of(value))
        elif flag == "--entrypoint":
            service["entrypoint"] = [text_of(value)]
    image, command = "".join(words[at : at + 1]), list(words[at + 1 :])
    if not (LLAMA_CPP.search(image) or "entrypoint" in service or names_server(command)):
        raise BadInputError(f"the image {image} contains no llama-server; give another command")
    return service | {"image": image, "command": command}


def contained(service: Tree, folder: Path) -> ServerCommand:
    """The command that a container runs, with the host's paths where it mounts them.

    Args:
        service: the container, by Compose's keys, its variables expanded.
        folder: where its relative paths start.
    """
    entry, command = _service_words(service, "entrypoint"), _service_words(service, "command")
    # The image's own program runs where no entrypoint says otherwise.
    is_named = entry or names_server(command[:1])
    image = str(service.get("image", ""))
    other = None if is_named else _OTHER_PROGRAMS.search(image)
    if other and (other[1] == "light" or command[:1] not in (["--server"], ["-s"])):
        raise BadInputError(
            f"the image {image} starts a llama-server behind the word --server, or none at all; "
            "give a command that starts one"
        )
    command = command[1:] if other else command
    own, words = assigned([*entry, *command] if is_named else ["llama-server", *command])
    inner = command_of(words, {**_environment(service), **own})
    mounts = _mounts(service, folder)

    def moved(path: str) -> str:
        inside = PurePosixPath(path)
        for target, source in mounts.items():
            if inside.is_relative_to(target):
                return os.path.normpath(Path(source) / inside.relative_to(target))
        return path

    outer = with_paths(inner, moved)
    # The container's program is none of the host's.
    start = replace(outer.start, program=Start().program)
    return replace(outer, start=start, inside=inner, image=image)


def _service_words(service: Tree, key: str) -> list[str]:
    value = service.get(key)
    if isinstance(value, list):
        return [scalar(word) for word in value]
    return [] if value is None else plain_words(str(value))


def _environment(service: Tree) -> dict[str, str]:
    """The variables of a container that have a value in its command or file.

    Raises:
        BadInputError: one that stands for an option has none there.
    """
    given = service.get("environment") or ()
    if not isinstance(given, dict):
        pairs = (str(one).partition("=") for one in given)
        given = {name: value if equals else None for name, equals, value in pairs}
    for name, value in given.items():
        if value is None and option_of_variable(str(name)) is not None:
            raise BadInputError(
                f"{name} has its value from the caller's environment; write {name}=VALUE"
            )
    return {str(name): scalar(value) for name, value in given.items() if value is not None}


def _mounts(service: Tree, folder: Path) -> dict[PurePosixPath, str]:
    """Folders of the host by the container's, the deepest first, without named volumes."""
    listed = service.get("volumes")
    found: dict[PurePosixPath, str] = {}
    for source, target in map(_mount, listed if isinstance(listed, list) else ()):
        if target and source.startswith((".", "/", "~")):
            path = source if source.startswith("~") else os.path.normpath(folder / source)
            found[PurePosixPath(target)] = path
    return dict(sorted(found.items(), key=lambda item: -len(item[0].parts)))


def _mount(volume: object) -> tuple[str, str]:
    """Source and target of a volume, in any of its forms."""
    if isinstance(volume, str) and "=" in volume.partition(",")[0]:
        parts = dict(part.partition("=")[::2] for part in volume.split(","))
        aliases = {"src": "source", "dst": "target", "destination": "target"}
        volume = {aliases.get(key, key): value for key, value in parts.items()}
    if isinstance(volume, dict):
        return str(volume.get("source", "")), str(volume.get("target", ""))
    source, target, *_mode = (*str(volume).split(":"), "")
    return source, target


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


def scalar(value: object) -> str:
    """The text of a value of YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
