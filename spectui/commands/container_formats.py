"""The two YAML formats: llama-swap's configuration, and Docker Compose."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from spectui.commands.home import is_at_home
from spectui.commands.items import Item, words_of
from spectui.commands.launch import Launch, commented, slug
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect

_IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
_LISTENING = frozenset({"--host", "--port"})
_PORT = "8080"
_LOOPBACK = "127.0.0.1"
_FOLDERS = ("/models", "/models-draft")
"""Mount points of the models: one folder, or another one for the draft."""
MOUNTED = frozenset({"model", "model-draft"})
"""Options whose folders a container gets."""
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def llama_swap(launch: Launch) -> str:
    """A model of llama-swap, which chooses the port itself.

    Raises:
        BadInputError: llama-swap would change a value.
    """
    own = launch.elsewhere("llama-swap")
    program, arguments = (
        shlex.join(map(_kept, words)) for words in (own.start.program, own.arguments)
    )
    model: dict[str, Any] = {"cmd": f"{program} --port ${{PORT}} {arguments}"}
    if own.start.environment:
        model["env"] = [f"{name}={_kept(value)}" for name, value in own.start.environment]
    return _document(own, {"models": {launch.command.known_as or slug(own.name): model}})


def _kept(text: str) -> str:
    """A part of a command that llama-swap leaves as it is.

    Raises:
        BadInputError: it replaces macros, and takes lines apart before it looks for quotes.
    """
    if "${" in text or "\n" in text:
        raise BadInputError(
            f"{text!r}: llama-swap cannot hold a value with '${{' or a line end; choose another "
            "format, or rename the file"
        )
    return text


def compose(launch: Launch) -> str:
    """A service of Docker Compose that mounts the models' folders read-only.

    Raises:
        BadInputError: the dialect has no published image, or the command is a container's.
    """
    if launch.command.inside is not None:
        raise BadInputError(
            "the command is that of a container, whose file has more than llama-server's options; "
            "change them there, or choose another format"
        )
    if launch.reader.dialect is not Dialect.LLAMA_CPP:
        raise BadInputError(
            f"the published images hold current llama.cpp; export compose for {Dialect.LLAMA_CPP}"
        )
    command = launch.command
    items = [item for item in command.items if item.spelling not in _LISTENING]
    arguments, mounts = _mounted(items)
    port = command.value("port") or _PORT
    service: dict[str, Any] = {
        "image": _IMAGE,
        "command": ["--host", "0.0.0.0", "--port", port, *arguments],  # noqa: S104 - the container's
        "ports": [_published(command.value("host") or _LOOPBACK, port)],
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
    return _document(launch, document, tuple(_notes(launch, items)))


def _published(host: str, port: str) -> str:
    """The mapping that publishes a container's port: everywhere, or on one address of the host."""
    if host in _EVERYWHERE:
        return f"{port}:{port}"
    return f"{host if _ADDRESS.fullmatch(host) else _LOOPBACK}:{port}:{port}"


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
    def dumped(*, is_plain: bool) -> str:
        return yaml.safe_dump(content, allow_unicode=is_plain, sort_keys=False, width=float("inf"))

    text = dumped(is_plain=True)
    if not text.replace("\n", "").isprintable():
        # PyYAML writes some line ends bare, and then reads blanks.
        text = dumped(is_plain=False)
    return commented((*launch.comments, *notes)) + text
