"""The two YAML formats: llama-swap's configuration, and Docker Compose."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml

from spectui.commands.command import COMPOSE, LLAMA_SWAP, Entry
from spectui.commands.home import is_at_home
from spectui.commands.items import Item, words_of
from spectui.commands.launch import Launch, commented, slug
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect

_IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
_LISTENING = frozenset({"--host", "--port"})
_PORT = "8080"
_ANY = "0"
"""Value that lets llama-server choose a port."""
_LOOPBACK = "127.0.0.1"
_SOCKET = ".sock"
_FOLDERS = ("/models", "/models-draft")
"""Mount points of the models: one folder, or another one for the draft."""
MOUNTED = frozenset({"model", "model-draft"})
"""Options whose folders a container gets."""
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


class _Block(str):
    """Text that YAML shall show line by line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Plain YAML with lists indented, and block texts as such."""

    def increase_indent(
        self,
        flow: bool = False,  # noqa: FBT001, FBT002 - PyYAML's signature
        indentless: bool = False,  # noqa: FBT001, FBT002 - PyYAML's signature
    ) -> None:
        """Indent lists too: that is how people write these files."""
        del indentless
        super().increase_indent(flow, indentless=False)


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if isinstance(text, _Block) else None
    if not text.replace("\n", "").isprintable():
        # In its other styles PyYAML writes some line ends bare, and then reads blanks.
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(str, _represent)
_Dumper.add_representer(_Block, _represent)


def llama_swap(launch: Launch) -> str:
    """A model of llama-swap, which chooses the port itself.

    Raises:
        BadInputError: llama-swap would change a value.
    """
    own = launch.elsewhere("llama-swap")
    lines = [f"{_kept(shlex.join(own.start.program))} --port ${{PORT}}"]
    lines += [_kept(shlex.join(item.words)) for item in own.command.items]
    model: dict[str, Any] = {"cmd": _Block("\n".join(lines) + "\n")}
    if own.start.environment:
        model["env"] = [_kept(f"{name}={value}") for name, value in own.start.environment]
    entry = launch.command.entry(LLAMA_SWAP) or Entry(format=LLAMA_SWAP, name=None)
    models = {launch.command.known_as or slug(own.name): {**model, **entry.settings}}
    return _document(own, {**entry.around, "models": models}, entry.notes)


def _kept(text: str) -> str:
    """A line of a command, or a variable, that llama-swap leaves as it is.

    Raises:
        BadInputError: it replaces macros, and takes lines apart before it looks for quotes.
    """
    if "${" in text or "\n" in text:
        raise BadInputError(
            f"{re.split('[ =]', text)[0]}: llama-swap cannot hold a value with '${{' or a line "
            "end; choose another format, or rename the file"
        )
    return text


def compose(launch: Launch) -> str:
    """A service of Docker Compose that mounts the models' folders read-only.

    Raises:
        BadInputError: the dialect has no published image.
    """
    entry = launch.command.entry(COMPOSE)
    if entry is not None:
        return _own_service(launch, entry)
    if launch.reader.dialect is not Dialect.LLAMA_CPP:
        raise BadInputError(
            f"the published images hold current llama.cpp; export compose for {Dialect.LLAMA_CPP}"
        )
    command = launch.command
    items = [item for item in command.items if item.spelling not in _LISTENING]
    arguments, mounts = _mounted(items)
    asked = command.value("port") or _PORT
    port = _PORT if asked == _ANY else asked
    service: dict[str, Any] = {
        "image": _IMAGE,
        "command": ["--host", "0.0.0.0", "--port", port, *arguments],  # noqa: S104 - the container's
        "ports": list(_published(command.value("host") or _LOOPBACK, port)),
        "volumes": mounts,
    }
    if launch.start.environment:
        service["environment"] = dict(launch.start.environment)
    has_layers = command.value("gpu-layers") != "0"
    is_of_draft = command.has("model-draft") and command.value("gpu-layers-draft") != "0"
    if launch.has_gpu and (has_layers or is_of_draft):
        service["image"] = f"{_IMAGE}-cuda"
        device = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    document = {"services": {slug(launch.name): _escaped(service)}}
    chosen = (f"--port {_ANY} leaves it to llama-server, so {_PORT} is written",)
    notes = (*(chosen if asked == _ANY else ()), *_notes(launch, items))
    return _document(launch, document, notes)


def _published(host: str, port: str) -> Iterator[str]:
    """Port mappings that publish a container's port on the host's own addresses.

    Raises:
        BadInputError: one is a Unix socket, which a container would keep to itself.
    """
    addresses = [address.strip() for address in host.split(",")]
    if not _EVERYWHERE.isdisjoint(addresses):
        yield f"{port}:{port}"
        return
    for address in addresses:
        if address.endswith(_SOCKET):
            raise BadInputError(
                f"--host {address} is a socket, and Compose publishes ports; give an address, or "
                "choose another format"
            )
        yield f"{_bracketed(address)}:{port}:{port}"


def _bracketed(address: str) -> str:
    """An address in the syntax of ``ports``; the loopback for a host name, which it refuses."""
    try:
        found = str(ip_address(address))
    except ValueError:
        return _LOOPBACK
    return f"[{found}]" if ":" in found else found


def _own_service(launch: Launch, entry: Entry) -> str:
    """The service that the command was taken from, with other arguments."""
    service = {**entry.settings, "command": [*entry.ahead, *launch.arguments]}
    environment = launch.start.environment
    others = {name: value for name, value in environment if name not in entry.variables}
    if others:
        own = entry.settings.get("environment")
        service["environment"] = {**(own if isinstance(own, dict) else {}), **others}
    document = {"services": {slug(launch.name): service}, **entry.around}
    return _document(launch, _escaped(document), entry.notes)


def _notes(launch: Launch, items: Sequence[Item]) -> Iterator[str]:
    others = [item for item in items if item.name not in MOUNTED]
    has_file = any(item.is_path and item.value for item in others)
    if has_file or any(word.startswith("/") for word in words_of(others)):
        yield "files in your own arguments have to be mounted too"
    if not launch.has_gpu and launch.command.value("gpu-layers") not in {None, "0"}:
        yield (
            f"this machine has no GPU for the layers of -ngl, so the image has none either; where "
            f"there is one, write {_IMAGE}-cuda and reserve it"
        )
    wrappers = launch.start.program[:-1]
    if wrappers:
        yield f"left out, since a container starts its own program: {shlex.join(wrappers)}"


def _mounted(items: Sequence[Item]) -> tuple[list[str], list[dict[str, Any]]]:
    """The arguments with the paths that their container sees, and the folders to mount for that."""
    targets: dict[Path, str] = {}
    moved: list[str] = []
    for item in items:
        if item.name not in MOUNTED:
            moved += item.words
            continue
        # A link may lead out of its folder, as in Hugging Face's cache, and nowhere in a container.
        # Compose knows the home folder in a source.
        path = Path(item.value if is_at_home(item.value) else os.path.realpath(item.value))
        number = "" if len(targets) < len(_FOLDERS) else str(len(targets))
        folder = f"{_FOLDERS[min(len(targets), len(_FOLDERS) - 1)]}{number}"
        moved += [item.flag, str(Path(targets.setdefault(path.parent, folder)) / path.name)]
    mounts = [
        {"type": "bind", "source": str(source), "target": target, "read_only": True}
        for source, target in targets.items()
    ]
    return moved, mounts


def _escaped(value: Any) -> Any:  # noqa: ANN401 - a tree of YAML values
    """Every text with ``$`` doubled: Compose would put variables there."""
    match value:
        case str():
            return value.replace("$", "$$")
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
    return value


def _document(launch: Launch, content: dict[str, Any], notes: tuple[str, ...] = ()) -> str:
    text = yaml.dump(
        content, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=float("inf")
    )
    return commented((*launch.comments, *notes)) + text
