"""Reads YAML files of Compose and llama-swap, bounded before they are built."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from spectui.commands.sources.files import Tree
from spectui.errors import BadInputError

_MOST_YAML = 1 << 18
"""Maximum number of characters of a YAML file, which is slow to read."""
_MOST_VALUES = 100_000
_CHARACTERS = 64
"""Characters of a text that count as one more value."""
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "merge")
)


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


def yaml_trees(text: str, path: Path) -> list[Tree]:
    """Content of a file that holds commands, by document; empty if the text is none.

    Its size is bounded before it is built: references count as often as they are used.

    Raises:
        BadInputError: it is no valid YAML, too large, or holds a value of a foreign type.
    """
    if len(text) > _MOST_YAML:
        raise BadInputError(
            f"{path} has more than {_MOST_YAML} characters; give a file that holds less"
        )
    try:
        trees = list(_documents(_Loader(text), path))
    except yaml.YAMLError as error:
        raise BadInputError(f"{path} is no valid YAML ({_told(error)}); correct it") from error
    except (ValueError, LookupError, AttributeError) as error:
        # A number that is none, under an explicit tag.
        raise BadInputError(f"{path} holds a value that is not of its tag; correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is nested too deeply; give a file that holds less") from error
    return [tree for tree in trees if isinstance(tree, dict)]


def _documents(loader: _Loader, path: Path) -> Iterator[object]:
    size = 0
    while loader.check_node() and (node := loader.get_node()) is not None:
        size += _size(node, {}, path)
        if size > _MOST_VALUES:
            raise BadInputError(
                f"{path} has more than {_MOST_VALUES} values once its references are followed; "
                "give a file that holds less"
            )
        yield loader.construct_document(node)


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
