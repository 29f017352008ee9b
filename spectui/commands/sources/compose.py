"""Reads a service's llama-server command out of a Compose file."""

import re
from pathlib import Path
from typing import Any

from spectui.commands.command import ServerCommand
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.containers import Container
from spectui.commands.sources.files import Tree, chosen
from spectui.commands.sources.shell import contained
from spectui.commands.sources.source import IMAGES, runs_other
from spectui.errors import BadInputError

_DOLLAR = re.compile(r"\$(?:(\$)|[A-Za-z_]\w*|\{[^}\n]*\}?)")
"""A dollar sign that stands for itself, or a variable."""
_RESOLVED_BEFORE = ("env_file", "extends")
_PARTS = ("volumes", "networks", "secrets", "configs")


def read_compose(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """A service's command, with its files where the host has them.

    Raises:
        BadInputError: no service or several run llama-server, or parts of it stand elsewhere.
    """
    services = {str(n): s for n, s in tree["services"].items() if isinstance(s, dict)}
    servers = [name for name, service in services.items() if _is_server(service)]
    # Who names a service knows what it runs.
    name = chosen(servers, wanted, path, "service", services)
    place = f"{path}: {name}"
    service = _resolved(services[name], place)
    image = str(service.get("image", ""))
    if runs_other(image) and not _is_server(service):
        raise BadInputError(f"{place} runs {image}, which is no llama-server; give another service")
    for key in _RESOLVED_BEFORE:
        if service.get(key):
            raise _unresolved(place, key)
    around = _resolved(_around(service, tree, path), place)
    return contained(Container(service=service, name=name, around=around), path.parent)


def _is_server(service: Tree) -> bool:
    words = " ".join(str(service.get(key) or "") for key in ("entrypoint", "command"))
    return (
        names_server(re.split(r"[\s\[\],'\"]+", words))
        or IMAGES.search(str(service.get("image", ""))) is not None
        or PREFIX in str(service.get("environment"))
    )


def _around(service: Tree, tree: Tree, path: Path) -> dict[str, Any]:
    """Parts of the file that a service refers to; its folder names the project of volumes."""
    found = {part: tree[part] for part in _PARTS if part in tree and service.get(part)}
    if not found and "name" not in tree:
        return found
    folder = path.absolute().parent.name.lower()
    project = "".join(char for char in folder if char.isalnum() or char in "_-").lstrip("_-")
    return {"name": tree.get("name", project or "llama"), **found}


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
