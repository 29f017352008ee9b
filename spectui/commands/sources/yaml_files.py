"""Reads the YAML files that start llama-server: of Compose, and of llama-swap."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.programs import is_server_today, names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.containers import contained, plain_words, scalar, started
from spectui.commands.sources.files import Replacement, Tree, chosen
from spectui.commands.sources.source import LLAMA_CPP
from spectui.errors import BadInputError

_MOST_YAML = 1 << 18
"""Maximum number of characters of a YAML file, which is slow to read."""
_VARIABLE = re.compile(r"\$(?:(\$)|[A-Za-z_]\w*|\{[^}\n]*\}?)")
"""A dollar sign that stands for itself, or a variable, in Compose."""
_MACRO = re.compile(r"\$\{[A-Za-z0-9_.-]+\}")
_PORT = "${PORT}"
"""The port that llama-swap chooses when the model runs."""
_OWN_KEYS = frozenset({"cmd", "env", "macros"})
_DEEPEST = 8
"""Deepest nesting of macros."""


def read_yaml(text: str, path: Path, wanted: str | None) -> ServerCommand | None:
    """The command of a service or a model in a file; None if it is neither program's.

    Raises:
        BadInputError: it cannot be read, has no such entry, or several and none was named.
    """
    for tree in _trees(text, path):
        if isinstance(tree.get("services"), dict):
            return _composed(tree, path, wanted)
        if isinstance(tree.get("models"), dict):
            return _swap_command(tree, path, wanted)
    return None


class _Loader(yaml.SafeLoader):
    """YAML loader for which all values but lists, mappings, booleans and null are text.

    References between parts are refused, since they can make a small file grow without bound.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Build a node.

        Raises:
            BadInputError: it refers to another one.
        """
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call] # PyYAML's own
            raise BadInputError(f"line {line} refers to another part of the file; write that out")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: yaml.Node) -> str:
        """The text of a node; two escapes that JSON writes for one character are that character."""
        text: str = super().construct_scalar(node)  # type: ignore[arg-type]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


def _trees(text: str, path: Path) -> list[Tree]:
    """Content of a file that holds commands, by document; empty if the text is none.

    Raises:
        BadInputError: it is no valid YAML, too large, or holds a value of a foreign type.
    """
    if len(text) > _MOST_YAML:
        raise BadInputError(
            f"{path} has more than {_MOST_YAML} characters; give a file that holds less"
        )
    try:
        trees = list(yaml.load_all(text, _Loader))
    except BadInputError as error:
        raise BadInputError(f"{path}, {error}") from None
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        what = str(error.problem).split("\n", 1)[0]
        raise BadInputError(f"{path} is no valid YAML ({line}{what}); correct it") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # A number that is none, under an explicit tag, or nothing but brackets.
        raise BadInputError(f"{path} is no YAML that can be read; correct it") from error
    return [tree for tree in trees if isinstance(tree, dict)]


def _composed(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """The command of a service in a file of Compose that starts llama-server.

    Raises:
        BadInputError: no service or several do, or parts of it stand elsewhere.
    """
    services = {str(n): s for n, s in tree["services"].items() if isinstance(s, dict)}
    servers = [name for name, service in services.items() if _is_service(service)]
    name = chosen(servers, wanted, path, "service")
    place = f"{path}: {name}"
    service = _resolved(services[name], place)
    for key in ("env_file", "extends"):
        if service.get(key):
            raise _unresolved(place, key)
    return replace(contained(service, path.absolute().parent), known_as=name)


def _is_service(service: Tree) -> bool:
    words = " ".join(str(service.get(key) or "") for key in ("entrypoint", "command"))
    return (
        any(map(is_server_today, re.split(r"[\s\[\],'\"]+", words)))
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


def _swap_command(tree: Tree, path: Path, wanted: str | None) -> ServerCommand:
    """A model's command, without the port.

    Raises:
        BadInputError: there is no such model, several and none was named, or a macro is unknown.
    """
    models = {
        str(name): model
        for name, model in tree["models"].items()
        if isinstance(model, dict) and isinstance(model.get("cmd"), str)
    }
    macros = {name: _macros(tree, name, model) for name, model in models.items()}
    servers = (n for n, m in models.items() if n == wanted or _is_model(m["cmd"], macros[n]))
    name = chosen(servers, wanted, path, "model")
    model, own = models[name], macros[name]
    words = plain_words(_expanded_macros(model["cmd"], own))
    listed = model.get("env")
    variables = map(str, listed if isinstance(listed, list) else ())
    given = (ASSIGNMENT.fullmatch(_expanded_macros(one, own)) for one in variables)
    environment = {match[1]: match[2] for match in given if match is not None}
    command = started(words, environment)
    return replace(
        command,
        items=tuple(item for item in command.items if _PORT not in item.text),
        known_as=name,
        beside=(
            *(str(key) for key in model if key not in _OWN_KEYS),
            *(item.text for item in command.items if _PORT in item.text),
        ),
    )


def _is_model(text: str, macros: Mapping[str, str]) -> bool:
    """Whether a command starts llama-server, as far as its macros are known."""
    with suppress(BadInputError):
        # An error in its macros is reported once it is chosen.
        text = _expanded(text, macros)
    return names_server(text.split()) or LLAMA_CPP.search(text) is not None


def _macros(tree: Tree, name: str, model: Tree) -> dict[str, str]:
    """The values of macros, by their text in a command, such as ``${MODEL}``."""
    own = {**_named(tree.get("macros")), **_named(model.get("macros")), "MODEL_ID": name}
    return {f"${{{macro}}}": value for macro, value in own.items()}


def _named(macros: object) -> dict[str, str]:
    found = macros if isinstance(macros, dict) else {}
    return {str(name): scalar(value) for name, value in found.items()}


def _expanded_macros(text: str, macros: Mapping[str, str]) -> str:
    """A command on one line, its macros expanded.

    Raises:
        BadInputError: as ``_expanded``, or one is unknown.
    """
    text = _expanded(text, macros)
    for left in _MACRO.findall(text):
        if left != _PORT:
            raise BadInputError(
                f"the llama-swap file uses {left}, which it does not define, and spectui takes "
                "nothing from the environment; put there what it stands for"
            )
    return text


def _expanded(text: str, macros: Mapping[str, str]) -> str:
    """A command on one line, with all macros expanded that are known, and without comments.

    Raises:
        BadInputError: they have no end, or stand for too much.
    """
    bounded = Replacement()
    for _ in range(_DEEPEST):
        before = text
        lines = (line for line in text.splitlines() if not line.strip().startswith("#"))
        text = " ".join(line.rstrip().removesuffix("\\") for line in lines)
        text = _MACRO.sub(lambda match: bounded.of(macros.get(match[0], match[0])), text)
        if text == before:
            return text
    raise BadInputError(
        "the macros of the llama-swap file refer to each other without an end; put there what "
        "they stand for"
    )
