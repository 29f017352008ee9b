"""Reads files that hold commands: bounded text, YAML, assignments, one entry of several."""

import re
from collections.abc import Collection, Iterable, Mapping
from errno import EFBIG
from pathlib import Path
from typing import Any

import yaml

from spectui.commands.command import ASSIGNMENT
from spectui.errors import BadInputError
from spectui.reading import read_file

MOST_BYTES = 1 << 20
"""Maximum number of bytes of a file with a command: a larger one is a model, or something else."""
Tree = Mapping[str, Any]

_MOST_YAML = 1 << 18
"""Maximum number of characters of a YAML file, which is slow to read."""
_MOST_VALUES = 100_000
_MOST_REPLACED = 100_000
_CHARACTERS = 64
"""Characters of a text that count as one more value."""
_MOST_SHOWN = 8
_YAML = re.compile(r"(?m)^(services|models)[ \t]*:")
_KEYS = ("services", "models")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "merge")
)


def text_of_file(path: Path, what: str | None = None) -> str:
    r"""Text of a regular file of at most ``MOST_BYTES``, with lines that end in ``\n``.

    Args:
        path: path of the file.
        what: name in messages; the path if None.

    Raises:
        BadInputError: it cannot be read, is a device or a pipe, too large, or no text.
    """
    name = what or str(path)
    try:
        content = read_file(path, MOST_BYTES)
    except OSError as error:
        if error.errno == EFBIG:
            raise BadInputError(
                f"{name} is too large to hold a command; give a file that holds one"
            ) from error
        raise BadInputError(
            f"{name} cannot be read ({error.strerror}); give a file that is there"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name} is no text; give a file that holds a command") from error
    if "\0" in text:
        raise BadInputError(f"{name} is no text; give a file that holds a command")
    return text.replace("\r\n", "\n")


def assignments(text: str) -> dict[str, str]:
    """Variables of an environment file of systemd, Compose or Docker: one per line."""
    found: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        match = ASSIGNMENT.fullmatch(line.strip().removeprefix("export "))
        if match is not None:
            value = match[2].strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[match[1]] = value[1:-1] if is_quoted else value
    return found


class Replacement:
    """Bounds the size of substituted variables, which may refer to each other."""

    def __init__(self, most: int = _MOST_REPLACED) -> None:
        """Start with nothing substituted; at most ``most`` characters may be."""
        self._left = most

    def of(self, text: str) -> str:
        """Return the text, after counting it.

        Raises:
            BadInputError: it was too much in all.
        """
        self._left -= len(text) + 1
        if self._left < 0:
            raise BadInputError("the variables stand for too much text; give a shorter command")
        return text


def chosen(
    names: Iterable[str], wanted: str | None, path: Path, what: str, others: Collection[str] = ()
) -> str:
    """The name of the requested entry, as in ``FILE:NAME``, or of the only one.

    Args:
        names: names of entries that run llama-server.
        wanted: the name behind the file's name.
        path: path of the file.
        what: the entries are.
        others: names of all entries, of which one may run it without saying so.

    Raises:
        BadInputError: there is none of that name, none at all, or several and none was named.
    """
    found = list(names)
    if wanted is not None:
        if wanted in found or wanted in others:
            return wanted
        has = f"; it has {_listed(found)}" if found else ""
        raise BadInputError(f"{path} has no {what} {wanted} that runs llama-server{has}")
    if not found and others:
        raise BadInputError(
            f"{path} has no {what} that is known to run llama-server; if one does, give it as "
            f"{path}:NAME, with {_listed(list(others))}"
        )
    if not found:
        raise BadInputError(f"{path} has no {what} that runs llama-server; give another file")
    if len(found) > 1:
        raise BadInputError(
            f"{path} has {len(found)} {what}s that run llama-server; give one of them as "
            f"{path}:NAME, with {_listed(found)}"
        )
    return found[0]


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


class _Loader(yaml.SafeLoader):
    """YAML loader that keeps all but plain numbers, ``true``, ``false`` and ``null`` as text.

    Compose and llama-swap take ``on``, ``yes``, dates and ``22:22`` for text as well.
    """


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]{0,17})", "-+0123456789"),
    ("float", r"[-+]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(e[-+]?[0-9]{1,2})?", "-+.0123456789"),
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):  # fmt: skip
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


def yaml_tree(text: str, path: Path) -> Tree | None:
    """Content of a Compose or llama-swap file; None if the text does not look like one.

    Its size is bounded before it is built: references count as often as they are used.

    Raises:
        BadInputError: it is no valid YAML, too large, or holds a value of a foreign type.
    """
    if _YAML.search(text) is None:
        return None
    if len(text) > _MOST_YAML:
        raise BadInputError(
            f"{path} has more than {_MOST_YAML} characters; give a file that holds less"
        )
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}, path) > _MOST_VALUES:
            raise BadInputError(
                f"{path} has more than {_MOST_VALUES} values once its references are followed; "
                "give a file that holds less"
            )
        tree = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise BadInputError(f"{path} is no valid YAML ({_told(error)}); correct it") from error
    except (ValueError, LookupError, AttributeError) as error:
        # A number that is none, under an explicit tag.
        raise BadInputError(f"{path} holds a value that is not of its tag; correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is nested too deeply; give a file that holds less") from error
    is_known = isinstance(tree, dict) and any(isinstance(tree.get(k), dict) for k in _KEYS)
    return tree if is_known else None


def _told(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).split("\n", 1)[0]
    return f"line {error.problem_mark.line + 1}: {error.problem}"


def _size(node: yaml.Node, known: dict[int, int | None], path: Path) -> int:
    """Number of values in a node; shared nodes count as often as they are referred to.

    Raises:
        BadInputError: a value holds itself, or has a tag of another kind.
    """
    if id(node) not in known:
        if node.tag not in _TAGS:
            raise BadInputError(
                f"{path}, line {node.start_mark.line + 1}: {node.tag} is a type that spectui does "
                "not know; write a plain value"
            )
        known[id(node)] = None
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = (part if isinstance(part, tuple) else (part,) for part in parts)
        own = 1 + (len(node.value) // _CHARACTERS if isinstance(node, yaml.ScalarNode) else 0)
        known[id(node)] = own + sum(_size(one, known, path) for pair in pairs for one in pair)
    size = known[id(node)]
    if size is None:
        raise BadInputError(f"{path} has a value that holds itself; take out that reference")
    return size
