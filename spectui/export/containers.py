"""The two YAML formats: llama-swap's configuration, and Docker Compose."""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from spectui.config import ModelOptions
from spectui.errors import BadInputError
from spectui.export.dialects import Dialect
from spectui.export.preset_file import slug
from spectui.export.setup import ExportSetup, commented
from spectui.export.words import divide, value_of, without

_IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
_PORT = "8080"
_FOLDERS = ("/models", "/models-draft")
"""Where a container finds the models: one folder, or the draft's in another."""
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


def llama_swap(setup: ExportSetup, dialect: Dialect) -> str:
    """A model of llama-swap, which chooses the port itself.

    Raises:
        BadInputError: the dialect has no words for it, or llama-swap would change a value.
    """
    own = setup.with_extra(without(setup.extra, "--host", "--port"))
    lines = [f"{_swap_line([setup.program])} --port ${{PORT}}"]
    lines += [_swap_line(given.words) for given in divide(own.arguments(dialect))]
    command = _Block("\n".join(lines) + "\n")
    return _document(setup, {"models": {slug(setup.name): {"cmd": command}}})


def _swap_line(words: Sequence[str]) -> str:
    line = shlex.join(words)
    # It replaces macros and takes lines apart before it looks for quotes.
    if "${" in line or "\n" in line:
        raise BadInputError(
            f"{words[0]}: llama-swap cannot hold a value with '${{' or a line end; "
            f"choose another format, or rename the file"
        )
    return line


def compose(setup: ExportSetup, dialect: Dialect) -> str:
    """A service of Docker Compose that mounts the models' folders read-only.

    Raises:
        BadInputError: the dialect has no published image, or no words for the setup.
    """
    if dialect is not Dialect.LLAMA_CPP:
        raise BadInputError(
            f"the published images hold current llama.cpp; export compose for {Dialect.LLAMA_CPP}"
        )
    inside, mounts = _mounted(setup)
    host, port = value_of(setup.extra, "--host"), value_of(setup.extra, "--port") or _PORT
    published = f"{port}:{port}" if host in _EVERYWHERE else f"127.0.0.1:{port}:{port}"
    extra = without(setup.extra, "--host", "--port")
    arguments = inside.with_extra(extra).arguments(dialect)
    service: dict[str, Any] = {
        "image": _IMAGE,
        "command": ["--host", "0.0.0.0", "--port", port, *arguments],  # noqa: S104 - the container's
        "ports": [published],
        "volumes": mounts,
    }
    if setup.has_gpu and any(m is not None and m.n_gpu_layers != 0 for m in setup.pair()):
        service["image"] = f"{_IMAGE}-cuda"
        device = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    notes = ("files in your own arguments have to be mounted too",)
    has_files = any(word.startswith("/") for word in extra)
    document = {"services": {slug(setup.name): _escaped(service)}}
    return _document(setup, document, notes if has_files else ())


def _mounted(setup: ExportSetup) -> tuple[ExportSetup, list[dict[str, Any]]]:
    """The setup with the paths that its container sees, and the folders to mount for that."""
    targets: dict[Path, str] = {}

    def inside(options: ModelOptions) -> ModelOptions:
        # A link may lead out of its folder, as in Hugging Face's cache, and nowhere in a container.
        path = options.path.resolve()
        target = targets.setdefault(path.parent, _FOLDERS[len(targets)])
        return dataclasses.replace(options, path=Path(target) / path.name)

    target, draft = setup.pair()
    moved = dataclasses.replace(
        setup, target=inside(target), draft=None if draft is None else inside(draft)
    )
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


def _document(setup: ExportSetup, content: dict[str, Any], notes: tuple[str, ...] = ()) -> str:
    text = yaml.dump(
        content, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=float("inf")
    )
    return commented((*setup.comments(), *notes)) + text
