"""The command, environment and mounts of a container, and the settings that an export keeps.

Containers are described by the keys of a Compose service, those of ``docker run`` too.
"""

import os.path
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from spectui.commands.command import COMPOSE, Entry, ServerCommand
from spectui.commands.home import text_of
from spectui.commands.items import stands_for_option
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.files import Tree, chosen
from spectui.commands.sources.source import CONTAINERS, LLAMA_CPP, with_all_paths
from spectui.errors import BadInputError

_ROLES = frozenset({"--server", "-s"})
"""First words with which the full image starts the server."""
_WRITTEN = frozenset({"entrypoint", "command", "environment"})
"""Keys that an export writes itself."""
_OF_OTHERS = frozenset({"depends_on", "links", "volumes_from", "build"})
"""Keys about other services and folders, which are not exported."""
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
_SWITCHES = frozenset(
    {"--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--sig-proxy"}
    | {"--oom-kill-disable", "--tls-verify", "--no-hosts", "--disable-content-trust", "-P"}
)
"""Other options that take no value."""
_LETTERS = frozenset("ditq")
_DOLLAR = re.compile(r"\$(?:(\$)|[A-Za-z_]\w*|\{[^}\n]*\}?)")
"""A dollar sign that stands for itself, or a variable."""
_GPUS = re.compile(r"\"?(?:(all|\d+)|device=([^\"]+))\"?")
_RESOLVED_BEFORE = ("env_file", "extends")
_PARTS = ("volumes", "networks", "secrets", "configs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A service of Compose, or a ``docker run``."""

    service: Tree
    """The whole service, by Compose's keys, its variables expanded."""
    folder: Path
    """The folder where its relative paths start."""
    name: str | None = None
    around: Tree = field(default_factory=dict)
    """Parts of a Compose file that the service may refer to."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Asked for those of its environment that have no value there."""
    notes: tuple[str, ...] = ()
    """Notes on options that Compose cannot express."""

    @property
    def words(self) -> list[str]:
        """The program with its arguments.

        Raises:
            BadInputError: quotes are not balanced.
        """
        entry, command = _words(self.service, "entrypoint"), _words(self.service, "command")
        words = [*entry, *command[len(self._role) :]]
        # The image's own program runs where no entrypoint says otherwise.
        return words if entry or names_server(words[:1]) else ["llama-server", *words]

    @property
    def _role(self) -> tuple[str, ...]:
        """The argument with which the full image starts the server; none for other images."""
        first = _words(self.service, "command")[:1]
        is_full = ":full" in str(self.service.get("image", ""))
        return tuple(first) if is_full and not _ROLES.isdisjoint(first) else ()

    @property
    def _given(self) -> dict[str, Any]:
        """Variables of its ``environment``; None for those taken from around it."""
        environment = self.service.get("environment") or ()
        if isinstance(environment, dict):
            return {str(name): value for name, value in environment.items()}
        pairs = (str(item).partition("=") for item in environment)
        return {name: value if equals else None for name, equals, value in pairs}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that have a value."""
        own = self._given.items()
        texts = {n: self.variables.get(n) if v is None else _scalar(v) for n, v in own}
        return {name: text for name, text in texts.items() if text is not None}

    @property
    def _volumes(self) -> list[tuple[object, str, str]]:
        """Volumes as they are written into a file elsewhere, with source and target."""
        listed = self.service.get("volumes")
        return [self._volume(one) for one in (listed if isinstance(listed, list) else ())]

    def _volume(self, volume: object) -> tuple[object, str, str]:
        if isinstance(volume, dict):
            source, target = str(volume.get("source", "")), str(volume.get("target", ""))
        else:
            source, target, *_mode = (*str(volume).split(":"), "")
        if not source.startswith("."):
            return volume, source, target
        path = os.path.normpath(self.folder / source)
        text = f"{path}{str(volume).removeprefix(source)}"
        return {**volume, "source": path} if isinstance(volume, dict) else text, path, target

    @property
    def mounts(self) -> dict[PurePosixPath, str]:
        """Folders of the host by the container's, the deepest first, without named volumes."""
        bound = ((s, t) for _volume, s, t in self._volumes if t and s.startswith(("/", "~")))
        found = {PurePosixPath(target): source for source, target in bound}
        return dict(sorted(found.items(), key=lambda item: -len(item[0].parts)))

    def entry(self, program: tuple[str, ...]) -> Entry:
        """The entry that an export into a Compose file keeps.

        Args:
            program: its program without the arguments.
        """
        service, has_entry = self.service, bool(self.service.get("entrypoint"))
        names_it = names_server(_words(service, "command")[:1])
        left = sorted(key for key in _OF_OTHERS if service.get(key))
        what = f"left out, since nothing else of its file is written: {', '.join(left)}"
        settings = {k: v for k, v in service.items() if v and k not in _WRITTEN | _OF_OTHERS}
        if volumes := [volume for volume, _source, _target in self._volumes]:
            settings["volumes"] = volumes
        if has_entry and program:
            settings["entrypoint"] = list(program)
        kept = {name: v for name, v in self._given.items() if not stands_for_option(name)}
        if kept:
            settings["environment"] = kept
        return Entry(
            format=COMPOSE,
            name=self.name,
            settings=settings,
            variables=frozenset(self.environment),
            around=self.around,
            ahead=() if has_entry else self._role or (program if names_it else ()),
            notes=(*self.notes, what) if left else self.notes,
        )


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
        return [_scalar(word) for word in value]
    return [] if value is None else plain_words(str(value))


def _scalar(value: object) -> str:
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
    options: dict[str, Any] = {}
    left: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        is_short = not flag.startswith("--")
        at += 1
        if flag in _OF_THE_RUN or (is_short and _LETTERS.issuperset(flag[1:])):
            continue
        if flag in _SWITCHES:
            left.append(flag)
            continue
        if not equals and is_short and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = "".join(words[at : at + 1])
            at += 1
        left += [] if _keep(options, flag, text_of(value)) else [flag]
    image, command = "".join(words[at : at + 1]), list(words[at + 1 :])
    if not (LLAMA_CPP.search(image) or "entrypoint" in options or names_server(command)):
        raise BadInputError(f"the image {image} contains no llama-server; give another command")
    what = f"left out, since spectui knows no word of Compose for it: {', '.join(left)}"
    return Container(
        service={"image": image, **options, "command": command},
        folder=folder,
        name=options.get("container_name"),
        around=_around(options),
        variables=variables,
        notes=(what,) if left else (),
    )


def _keep(service: dict[str, Any], flag: str, value: str) -> bool:
    """Set the service's Compose key for an option; return whether there is one."""
    if flag == "--env-file":
        raise BadInputError("--env-file is not read; give its variables with -e")
    if flag in _MANY:
        service.setdefault(_MANY[flag], []).append(_mount(value) if flag == "--mount" else value)
    elif flag in _ONE:
        service[_ONE[flag]] = [value] if flag == "--entrypoint" else value
    elif flag == "--gpus" and (which := _GPUS.fullmatch(value)) is not None:
        count, ids = which.groups()
        number = int(count) if (count or "").isdecimal() else count
        which_ones = {"device_ids": ids.split(",")} if ids else {"count": number}
        device = {"driver": "nvidia", "capabilities": ["gpu"], **which_ones}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    elif flag in {"--network", "--net"} and value in {"host", "none", "bridge"}:
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
    return mount if {"readonly", "ro"}.isdisjoint(pairs) else {**mount, "read_only": True}


def _around(service: Tree) -> dict[str, Any]:
    """Volumes that docker made before, by name."""
    volumes = service.get("volumes", ())
    sources = [v.get("source", "") if isinstance(v, dict) else v.partition(":")[0] for v in volumes]
    names = {source: {"external": True} for source in sources if source[:1] not in {"", *"./~"}}
    return {"volumes": names} if names else {}


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
    around = {part: tree[part] for part in _PARTS if part in tree and service.get(part)}
    if "name" in tree:
        around["name"] = tree["name"]
    return Container(
        service=service,
        folder=path.absolute().parent,
        name=name,
        around=_resolved(around, place),
    )


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
            for found in _DOLLAR.finditer(value):
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
