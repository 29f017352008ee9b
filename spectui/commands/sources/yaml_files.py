"""Reads YAML files of Compose and llama-swap, of bounded size."""

import re
from pathlib import Path

import yaml

from spectui.commands.sources.files import Tree
from spectui.errors import BadInputError

_MOST_YAML = 1 << 18
"""Maximum number of characters of a YAML file, which is slow to read."""


class _Loader(yaml.SafeLoader):
    """YAML loader for which all values but lists, mappings, booleans and null are text.

    So that a small file stays small, no part of it may refer to another one.
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
