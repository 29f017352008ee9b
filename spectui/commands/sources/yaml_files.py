"""Reads YAML files of Compose and llama-swap, of bounded size."""

import re
from pathlib import Path

import yaml

from spectui.commands.sources.files import Tree
from spectui.errors import BadInputError

_MOST_YAML = 1 << 18
"""Maximum number of characters of a YAML file, which is slow to read."""

_MOST_REFERENCES = 64
"""References of a file to parts of itself."""


class _Loader(yaml.SafeLoader):
    """YAML loader that keeps all but plain numbers, ``true``, ``false`` and ``null`` as text.

    Compose and llama-swap take ``on``, ``yes``, dates and ``22:22`` for text as well. So that a
    small file stays small, a part that others refer to refers to none itself.
    """

    def __init__(self, stream: str) -> None:
        """Load a text."""
        super().__init__(stream)
        self._n_references = 0
        self._plain = set[int]()
        """Nodes that are complete and refer to no others."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Build a node.

        Raises:
            BadInputError: it refers to a part that refers to others, or too many do so.
        """
        is_reference, n_before = self.check_event(yaml.AliasEvent), self._n_references
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call] # PyYAML's own
        node = super().compose_node(parent, index)
        if not is_reference:
            if self._n_references == n_before:
                self._plain.add(id(node))
            return node
        self._n_references += 1
        if id(node) not in self._plain or self._n_references > _MOST_REFERENCES:
            raise BadInputError(f"line {line} refers to too much of the file; write that out")
        return node

    def construct_scalar(self, node: yaml.Node) -> str:
        """The text of a node; two escapes that JSON writes for one character are that character."""
        text: str = super().construct_scalar(node)  # type: ignore[arg-type]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
