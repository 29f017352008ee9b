"""The command, environment and mounts of a container, and the settings that an export keeps.

Containers are described by the keys of a Compose service, those of ``docker run`` too.
"""

import csv
import dataclasses
import os
import os.path
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import msgspec

from spectui.commands.command import ASSIGNMENT, COMPOSE, Entry, ServerCommand
from spectui.commands.home import is_at_home, text_of
from spectui.commands.items import stands_for_option
from spectui.commands.programs import names_server
from spectui.commands.sources.files import Tree
from spectui.commands.sources.source import CONTAINERS, runs_other, with_paths
from spectui.errors import BadInputError

_FULL_IMAGE = re.compile(r":full\b")
_ROLES = frozenset({"--server", "-s"})
"""First words with which the full image starts the server."""
_WRITTEN = frozenset({"entrypoint", "command", "environment"})
"""Keys that an export writes itself."""
_OF_OTHERS = ("depends_on", "links", "volumes_from")
"""Keys about other services, which are not exported."""
_ONE = {
    **dict.fromkeys(("-u", "--user"), "user"),
    **dict.fromkeys(("-w", "--workdir"), "working_dir"),
    **{f"--{key}": key for key in ("restart", "ipc", "runtime", "entrypoint")},
    "--name": "container_name",
    "--shm-size": "shm_size",
}
"""Keys that hold one value."""
_MANY = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
    **dict.fromkeys(("-p", "--publish"), "ports"),
    "--device": "devices",
    "--group-add": "group_add",
    "--cap-add": "cap_add",
    "--security-opt": "security_opt",
}
"""Keys that hold a list."""
_OF_THE_RUN = frozenset({"--rm", "--detach", "--interactive", "--tty", "--quiet", "--replace"})
"""Switches that concern a single run only; short ones are those of ``_LETTERS``."""
_SWITCHES = _OF_THE_RUN | frozenset(
    {"--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--sig-proxy"}
    | {"--oom-kill-disable", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options that take no value."""
_LETTERS = frozenset("ditq")
_NETWORK_MODES = frozenset({"host", "none", "bridge"})


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A service of Compose, or a ``docker run``."""

    service: Tree
    """The whole service, by Compose's keys, its variables expanded."""
    name: str | None
    around: Tree
    """Parts of a Compose file that the service may refer to."""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Asked for those of its environment that have no value there."""
    notes: tuple[str, ...] = ()
    """Notes on options that Compose cannot express."""

    @property
    def words(self) -> list[str]:
        """The program with its arguments.

        Raises:
            BadInputError: quotes are not balanced.
        """
        entry, command = (_as_words(self.service.get(key)) for key in ("entrypoint", "command"))
        words = [*entry, *command[len(_role(self.service)) :]]
        # The image's own program runs where no entrypoint says otherwise.
        return words if entry or names_server(words[:1]) else ["llama-server", *words]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that have a value."""
        own = _own_variables(self.service).items()
        texts = {n: self.variables.get(n) if v is None else _scalar(v) for n, v in own}
        return {name: text for name, text in texts.items() if text is not None}

    @property
    def mounts(self) -> dict[PurePosixPath, str]:
        """Folders of the host by the container's, the deepest first, without named volumes."""
        pairs = map(_ends, _volumes(self.service))
        found = {PurePosixPath(t): s for s, t in pairs if t and s.startswith((".", "/", "~"))}
        return dict(sorted(found.items(), key=lambda item: -len(item[0].parts)))

    def entry(self, program: tuple[str, ...], folder: Path) -> Entry:
        """The entry that an export into a Compose file keeps.

        Args:
            program: its program without the arguments.
            folder: folder where its relative paths start.
        """
        service = self.service
        command, has_entry = _as_words(service.get("command")), bool(service.get("entrypoint"))
        ahead = _role(service) or (program if names_server(command[:1]) else ())
        left = [key for key in _OF_OTHERS if service.get(key)]
        told = f"left out, since other services are not written: {', '.join(left)}"
        own = _own_variables(service).items()
        variables = {name: value for name, value in own if not stands_for_option(name)}
        settings = {k: v for k, v in service.items() if v and k not in {*_WRITTEN, *_OF_OTHERS}}
        if volumes := _volumes(service):
            settings["volumes"] = [_kept_volume(volume, folder) for volume in volumes]
        build = service.get("build")
        if isinstance(build, str):
            settings["build"] = _absolute(build, folder)
        elif isinstance(build, dict) and "context" in build:
            settings["build"] = {**build, "context": _absolute(str(build["context"]), folder)}
        return Entry(
            format=COMPOSE,
            name=self.name,
            settings={
                **settings,
                **({"entrypoint": list(program)} if has_entry and program else {}),
                **({"environment": variables} if variables else {}),
            },
            variables=frozenset(self.environment),
            around=self.around,
            ahead=() if has_entry else tuple(ahead),
            notes=(*self.notes, *((told,) if left else ())),
        )


def _volumes(service: Tree) -> list[Any]:
    volumes = service.get("volumes")
    return volumes if isinstance(volumes, list) else []


def _ends(volume: object) -> tuple[str, str]:
    """Source and target of a volume."""
    if isinstance(volume, dict):
        return str(volume.get("source", "")), str(volume.get("target", ""))
    source, target, *_mode = (*str(volume).split(":"), "")
    return source, target


def _kept_volume(volume: object, folder: Path) -> object:
    """A volume as it is written into a file elsewhere."""
    source, _target = _ends(volume)
    if not source.startswith("."):
        return volume
    path = _absolute(source, folder)
    return (
        {**volume, "source": path}
        if isinstance(volume, dict)
        else f"{path}{str(volume).removeprefix(source)}"
    )


def _absolute(path: str, folder: Path) -> str:
    """A path of a service, outside of its folder; Compose knows the home folder in it."""
    joined = path if is_at_home(path) or "://" in path else str(folder / path)
    return joined if is_at_home(joined) or "://" in path else os.path.abspath(joined)  # noqa: PTH100 - links stay


def outside(
    inner: ServerCommand, mounts: Mapping[PurePosixPath, str], folder: Path
) -> ServerCommand:
    """The command with the host's paths for files in the container's mounts.

    Args:
        inner: the command as the container runs it.
        mounts: as of the container.
        folder: folder where relative ones start.
    """

    def moved(path: str) -> str:
        inside = PurePosixPath(path)
        for target, source in mounts.items():
            if inside.is_relative_to(target):
                base = Path(source) if is_at_home(source) else folder / source
                return os.path.normpath(base / inside.relative_to(target))
        return path

    # The container's program is none of the host's.
    return dataclasses.replace(
        with_paths(inner, moved), prelude=ServerCommand().prelude, inside=inner
    )


def plain_words(text: str) -> list[str]:
    r"""Split like programs that know quotes, blanks and ``\``, but no other shell syntax.

    Raises:
        BadInputError: quotes are not balanced.
    """
    try:
        return shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        told = str(error).lower()
        raise BadInputError(f"the command cannot be read ({told}); check its quotes") from error


def _role(service: Tree) -> tuple[str, ...]:
    """The argument with which the full image starts the server; none for other images."""
    command = _as_words(service.get("command"))
    is_full = _FULL_IMAGE.search(str(service.get("image", ""))) is not None
    return tuple(command[:1]) if is_full and command[:1] and command[0] in _ROLES else ()


def _as_words(value: object) -> list[str]:
    if isinstance(value, list):
        return [_scalar(word) for word in value]
    return [] if value is None else plain_words(str(value))


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _own_variables(service: Tree) -> dict[str, Any]:
    """Variables of a service's ``environment``; None for those taken from around it."""
    environment = service.get("environment")
    if isinstance(environment, dict):
        return {str(name): value for name, value in environment.items()}
    listed = environment if isinstance(environment, list) else []
    pairs = (str(item).partition("=") for item in listed)
    return {name: value if equals else None for name, equals, value in pairs}


def docker_run(words: Sequence[str]) -> Container | None:
    """The container that a command runs; None for any other command.

    Raises:
        BadInputError: its variables stand in a file.
    """
    program = next((n for n, w in enumerate(words) if PurePath(w).name in CONTAINERS), None)
    if program is None or "run" not in words[program + 1 : program + 3]:
        return None
    at = words.index("run", program) + 1
    service: dict[str, Any] = {}
    left: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        if flag == "--env-file":
            raise BadInputError("--env-file is not read; give its variables with -e")
        is_short = not flag.startswith("--")
        at += 1
        if flag in _OF_THE_RUN or (is_short and _LETTERS.issuperset(flag[1:])):
            continue
        if flag in _SWITCHES or flag == "-P":
            left.append(flag)
            continue
        if not equals and is_short and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if not _keep(service, flag, text_of(value)):
            left.append(flag)
    image = words[at] if at < len(words) else ""
    if runs_other(image) and "entrypoint" not in service and not names_server(words[at + 1 :]):
        raise BadInputError(f"the image {image} contains no llama-server; give another command")
    service = {"image": image, **service, "command": list(words[at + 1 :])}
    told = f"left out, since spectui knows no word of Compose for it: {', '.join(left)}"
    before = (ASSIGNMENT.fullmatch(word) for word in words[:program])
    return Container(
        service=service,
        name=service.get("container_name"),
        around=_around(service),
        variables={one[1]: one[2] for one in before if one is not None},
        notes=(told,) if left else (),
    )


def _keep(service: dict[str, Any], flag: str, value: str) -> bool:
    """Set the service's Compose key for an option; return whether there is one."""
    if flag in _MANY:
        kept = _mount(value) if flag == "--mount" else value
        service.setdefault(_MANY[flag], []).append(kept)
    elif flag in _ONE:
        service[_ONE[flag]] = [value] if flag == "--entrypoint" else value
    elif flag == "--gpus":
        service["deploy"] = {"resources": {"reservations": {"devices": [_gpus(value)]}}}
    elif flag in {"--network", "--net"} and value in _NETWORK_MODES:
        service["network_mode"] = value
    else:
        return False
    return True


def _mount(value: str) -> dict[str, Any]:
    """A mount ``type=bind,source=A,target=B``, with any of the keys' names."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    source = pairs.get("source") or pairs.get("src", "")
    target = pairs.get("target") or pairs.get("dst") or pairs.get("destination", "")
    mount = {"type": pairs.get("type", "volume"), "source": source, "target": target}
    kept: dict[str, Any] = {key: text for key, text in mount.items() if text}
    return kept if {"readonly", "ro"}.isdisjoint(pairs) else {**kept, "read_only": True}


def _gpus(value: str) -> dict[str, Any]:
    """``all``, a number, or ``"device=0,1"`` with quotes of its own."""
    device: dict[str, Any] = {"driver": "nvidia", "capabilities": ["gpu"]}
    for part in next(csv.reader([value]), []):
        key, equals, text = part.partition("=")
        if key == "device":
            device["device_ids"] = text.split(",")
        elif key in {"driver", "capabilities"}:
            device[key] = text if key == "driver" else text.split(",")
        else:
            count = text if equals else key
            device["count"] = int(count) if count.isdecimal() else count
    return device


def _around(service: dict[str, Any]) -> dict[str, Any]:
    """Volumes that docker made before, by name."""
    names: dict[str, Any] = {}
    for volume in service.get("volumes", ()):
        is_text = isinstance(volume, str)
        name = volume.partition(":")[0] if is_text else volume.get("source", "")
        if name and not name.startswith((".", "/", "~")) and (not is_text or ":" in volume):
            names[name] = {"external": True}
    return {"volumes": names} if names else {}
