"""Reads llama-server's command out of Compose and llama-swap files."""

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from spectui.errors import BadInputError
from spectui.export.server_options import PREFIX
from spectui.export.sources.choice import chosen
from spectui.export.sources.container import Tree, container_of
from spectui.export.sources.environment_files import environment_file
from spectui.export.sources.mounts import outside
from spectui.export.sources.service import referred
from spectui.export.sources.shell import inside
from spectui.export.sources.source import IMAGES, Source, names_server, runs_other

_YAML = re.compile(r"(?m)^(services|models)[ \t]*:")
_INTERPOLATED = re.compile(
    r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-?+])([^{}]*))?\})"
)
_BOOL = "tag:yaml.org,2002:bool"
_MOST_VALUES = 100_000
_KEYS = ("services", "models")


class _Loader(yaml.SafeLoader):
    """YAML as Compose and llama-swap read it, to whom ``on``, ``yes`` and such are text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))


def yaml_tree(text: str, path: Path) -> Tree | None:
    """The file's content if it looks like one of the two; None if not.

    Raises:
        BadInputError: it is no valid YAML.
    """
    if _YAML.search(text) is None:
        return None
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise BadInputError(f"{path} is no valid YAML ({_told(error)}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is nested too deeply; give a file that holds less") from error
    if _size(tree, {}, path) > _MOST_VALUES:
        raise BadInputError(
            f"{path} has more than {_MOST_VALUES} values once its references are followed; give a "
            "file that holds less"
        )
    is_known = isinstance(tree, dict) and any(isinstance(tree.get(k), dict) for k in _KEYS)
    return tree if is_known else None


def _told(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).split("\n", 1)[0]
    return f"line {error.problem_mark.line + 1}: {error.problem}"


def _size(value: object, known: dict[int, int | None], path: Path) -> int:
    """How many values there are, those that are referred to as often as they are.

    Raises:
        BadInputError: a value holds itself.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = None
        parts = value if isinstance(value, list) else (*value.keys(), *value.values())
        known[id(value)] = 1 + sum(_size(part, known, path) for part in parts)
    size = known[id(value)]
    if size is None:
        raise BadInputError(f"{path} has a value that holds itself; take out that reference")
    return size


def compose_source(tree: Tree, path: Path, wanted: str | None) -> Source:
    """A service's command, with its files where the host has them.

    Raises:
        BadInputError: no service or several run llama-server, or a variable is not set.
    """
    variables = {**_dotenv(path.parent), **os.environ}
    services = {str(n): s for n, s in tree["services"].items() if isinstance(s, dict)}
    # Who names a service knows what it runs.
    servers = [name for name, s in services.items() if name == wanted or _is_server(s)]
    name = chosen(servers, wanted, path, "service")
    service = _interpolated(services[name], variables)
    image = str(service.get("image", ""))
    if runs_other(image) and not _is_server(service):
        raise BadInputError(
            f"{path}: {name} runs {image}, which is no llama-server; give another service"
        )
    if "extends" in service:
        raise BadInputError(
            f"{path}: {name} extends another service; give what docker compose config prints"
        )
    container = container_of(service, path.parent, variables)
    around = _interpolated(referred(service, tree, path), variables)
    named = dataclasses.replace(container, name=name, around=around)
    return outside(inside(named), named.mounts)


def _is_server(service: Tree) -> bool:
    words = " ".join(str(service.get(key) or "") for key in ("entrypoint", "command"))
    return (
        names_server(re.split(r"[\s\[\],'\"]+", words))
        or IMAGES.search(str(service.get("image", ""))) is not None
        or PREFIX in str(service.get("environment"))
    )


def _dotenv(folder: Path) -> dict[str, str]:
    try:
        return environment_file((folder / ".env").read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}


def _interpolated(value: Any, variables: Mapping[str, str]) -> Any:  # noqa: ANN401 - a tree of YAML values
    match value:
        case str():
            return _INTERPOLATED.sub(lambda m: _variable(m, variables), value)
        case list():
            return [_interpolated(item, variables) for item in value]
        case dict():
            return {key: _interpolated(item, variables) for key, item in value.items()}
    return value


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
            f"the Compose file uses ${name}, which is not set; set it, or put its value there"
        )
    return value
