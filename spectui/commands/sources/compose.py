"""Reads a service's llama-server command out of a Compose file."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spectui.commands.command import ServerCommand
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.containers import Container, outside
from spectui.commands.sources.files import Replacement, Tree, assignments, chosen, text_of_file
from spectui.commands.sources.shell import inside
from spectui.commands.sources.source import IMAGES, runs_other
from spectui.errors import BadInputError

_INTERPOLATED = re.compile(
    r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-?+])([^{}]*))?\})"
)
_PARTS = ("volumes", "networks", "secrets", "configs")


def read_compose(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """A service's command, with its files where the host has them.

    Raises:
        BadInputError: no service or several run llama-server, or a variable is not set.
    """
    variables = _dotenv(path)
    services = {str(n): s for n, s in tree["services"].items() if isinstance(s, dict)}
    servers = [name for name, service in services.items() if _is_server(service)]
    # Who names a service knows what it runs.
    name = chosen(servers, wanted, path, "service", services)
    interpolated = _interpolation(variables)
    service = interpolated(services[name])
    image = str(service.get("image", ""))
    if runs_other(image) and not _is_server(service):
        raise BadInputError(
            f"{path}: {name} runs {image}, which is no llama-server; give another service"
        )
    if "extends" in service:
        raise BadInputError(
            f"{path}: {name} extends another service; give what docker compose config prints"
        )
    container = dataclasses.replace(
        Container.of(service, path.parent, variables),
        name=name,
        around=interpolated(_around(service, tree, path)),
    )
    return outside(inside(container), container.mounts)


def _is_server(service: Tree) -> bool:
    words = " ".join(str(service.get(key) or "") for key in ("entrypoint", "command"))
    return (
        names_server(re.split(r"[\s\[\],'\"]+", words))
        or IMAGES.search(str(service.get("image", ""))) is not None
        or PREFIX in str(service.get("environment"))
    )


def _dotenv(path: Path) -> dict[str, str]:
    """Variables of the file ``.env`` beside a Compose file; none beside a paste."""
    own = path.parent / ".env"
    return assignments(text_of_file(own)) if path.exists() and own.exists() else {}


def _around(service: Tree, tree: Tree, path: Path) -> dict[str, Any]:
    """Parts of the file that a service refers to; its folder names the project of volumes."""
    found = {part: tree[part] for part in _PARTS if part in tree and service.get(part)}
    if not found and "name" not in tree:
        return found
    folder = path.absolute().parent.name.lower()
    project = "".join(char for char in folder if char.isalnum() or char in "_-").lstrip("_-")
    return {"name": tree.get("name", project or "llama"), **found}


def _interpolation(variables: Mapping[str, str]) -> Callable[[Any], Any]:
    """A function that replaces the variables in a tree by their values."""
    replacement = Replacement()

    def interpolated(value: Any) -> Any:  # noqa: ANN401 - a tree of YAML values
        match value:
            case str():
                return _INTERPOLATED.sub(lambda m: replacement.of(_variable(m, variables)), value)
            case list():
                return [interpolated(item) for item in value]
            case dict():
                return {key: interpolated(item) for key, item in value.items()}
        return value

    return interpolated


def _variable(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match[1]:
        return "$"
    name, operator, text = match[2] or match[3], match[4], match[5]
    value = variables.get(name)
    if operator == "+":
        return str(text) if value else ""
    if not value and operator == "-":
        return str(text)
    if value is None:
        raise BadInputError(
            f"the Compose file uses ${name}, which no .env beside it sets, and spectui takes "
            "nothing from its own environment; write its value there"
        )
    return value
