"""Finds the values of variables and of the working folder at a place of a script, without running.

A value is looked up where it is needed: the last statement before that place that sets it counts.
Where a condition, a loop, a subshell or a function decides whether that statement has run by then,
the value is refused, as is a llama-server that stands in one of them. Nothing is run.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from spectui.commands.server_options import PREFIX
from spectui.commands.sources.files import excerpt_of
from spectui.commands.sources.shell_words import FOLDER, Expander, Script, words_of
from spectui.commands.sources.source import SESSION_VARIABLES
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node

_REFUSED = frozenset(
    {"source", ".", "eval", "builtin", "alias", "unalias", "enable", "let", "pushd", "popd"}
    | {"export", "readonly", "declare", "typeset", "local", "shift", "coproc"}
    | {"read", "mapfile", "readarray", "getopts"}
)
"""Commands that decide or change what is run."""
_HARMLESS = re.compile(r"[-+][euvxEm]*o?|errexit|nounset|pipefail|verbose|xtrace")
"""Options of ``set`` that only print, or end a script."""
_DECLARED = re.compile(r"-[argx]+")
"""Options of ``declare`` that change no value."""
_SETTING = re.compile(r"\$\{\w+:?=")
_ARITHMETIC = ("((", "$((", "for ((")
_COUNTING = re.compile(r"[^=!<>]=[^=]|\+\+|--")
"""Arithmetic that sets a variable."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DECIDING = frozenset(
    {"if_statement", "case_statement", "while_statement", "for_statement", "subshell"}
    | {"c_style_for_statement", "function_definition"}
)
"""Statements that decide whether what is in them runs, or run it elsewhere."""
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution"})

_MOST_COMMANDS = 5_000

Value = str | list[str]


class Flow:
    """The statements of a script, and the values that they leave behind."""

    def __init__(self, script: Script) -> None:
        """Take the script."""
        self.script = script
        self.expander = Expander(script, self.value)
        self.commands: list[Node] = []
        """Simple commands, in their order."""
        self.functions: set[str] = set()
        self._changes: dict[str, list[Node]] = {}
        self._exports: dict[str, list[Node]] = {}
        self._refused: list[Node] = []
        """Statements that may change anything."""
        self._function: Node | None = None
        """The last function of those that are read."""
        self._by_functions: dict[str, Node] = {}
        """Functions that set a variable, by its name."""
        self._left: dict[int, Value] = {}
        """Values behind statements, by these."""
        for node in _within(script.root):
            self._collect(node)

    def _collect(self, node: "Node") -> None:
        text, at = self.script.text, node.start_byte
        match node.type:
            case "variable_assignment" if not self.is_ahead(node):
                self._change(node, at)
            case "for_statement":
                self._change(node.children[1], node.children[1].start_byte)
            case "expansion" if _SETTING.match(text, at):
                self._change(node, at + 2)
            case "declaration_command":
                self._declaration(node)
            case "command" if words := [*map(self.script.source, words_of(node.children))]:
                self._command(node, words)
            case "function_definition":
                self.functions.add(self.script.source(node.children[0]))
                self._function = node
            case "unset_command":
                self._refused.append(node)
            case _ if text.startswith(_ARITHMETIC, at) and _COUNTING.search(
                text, at, node.end_byte
            ):
                self._refused.append(node)

    def is_ahead(self, node: "Node") -> bool:
        """Whether an assignment is made for the command behind it alone."""
        command = node.parent
        name = command.child_by_field_name("name") if command is not None else None
        return command is not None and command.type == "command" and name is not None

    def _change(self, node: "Node", at: int) -> None:
        """Keep a statement that sets the variable whose name begins at an index."""
        found = _NAME.match(self.script.text, at)
        name = FOLDER if node.type == "command" else "" if found is None else found[0]
        if not name or (name == FOLDER and node.type != "command"):
            self._refused.append(node)
        elif self._function is not None and at < self._function.end_byte:
            self._by_functions.setdefault(name, self._function)
        else:
            insort(self._changes.setdefault(name, []), node, key=_end)

    def _declaration(self, node: "Node") -> None:
        first, *others = node.children
        is_exported = first.type == "export"
        for child in others:
            source = self.script.source(child)
            if _DECLARED.fullmatch(source):
                is_exported |= "x" in source
            elif child.type not in {"variable_assignment", "variable_name"}:
                self._refused.append(node)
            elif is_exported and (name := _NAME.match(source)) is not None:
                self._exports.setdefault(name[0], []).append(child)

    def _command(self, node: "Node", words: list[str]) -> None:
        self.commands.append(node)
        if len(self.commands) > _MOST_COMMANDS:
            # To go up a tree takes as long as that is deep.
            raise BadInputError("the script has too many commands; give the one that is meant")
        first, *others = words[1:] if words[0] == "command" and len(words) > 1 else words
        if first == "cd":
            self._change(node, node.start_byte)
        if (
            first in _REFUSED
            or (first == "printf" and "-v" in others)
            or (first == "set" and not all(map(_HARMLESS.fullmatch, others)))
        ):
            self._refused.append(node)

    def check(self, at: "Node") -> None:
        """Refuse statements before a place that may change which command runs, or its words.

        Raises:
            BadInputError: there is one.
        """
        deciding = next((one for one in ancestors(at) if one.type in _DECIDING), None)
        if deciding is not None:
            what = f"{deciding.children[0].type!r} decides whether llama-server starts"
            raise self.script.refusal(deciding, what)
        for node in self._refused:
            if node.start_byte <= at.start_byte:
                what = excerpt_of(self.script.source(node))
                raise self.script.refusal(node, f"{what} may change what is run")
        firsts = {name: changes[0] for name, changes in self._changes.items()}
        for name, node in (firsts | self._by_functions).items():
            if node.start_byte < at.start_byte and name not in {FOLDER, "_"}:
                self.expander.check_name(name, node)

    def value(self, name: str, at: "Node") -> Value | None:
        """The value of a variable at a place; None if it is not set there.

        Raises:
            BadInputError: it is known at run time only.
        """
        change = self._last(self._changes.get(name, ()), at, name)
        if change is None:
            return None
        if change.id not in self._left:
            self._left[change.id] = self._behind(change, name)
        return self._left[change.id]

    def _behind(self, change: "Node", name: str) -> Value:
        """The value of a variable behind a statement that sets it."""
        match change.type:
            case "command":
                return self._folder(change)
            case "expansion":
                return self.expander.text(change)
            case "variable_assignment" if change.children[0].type == "variable_name":
                value = self._assigned(change)
                is_added = change.children[1].type == "+="
                return self._added(value, name, change) if is_added else value
            case "variable_assignment":
                raise self.script.foreign(change.start_byte)
        raise self._undecided(change.parent or change, name)

    def _folder(self, command: "Node") -> str:
        words = [one for one in self.expander.words(words_of(command.children)) if one != "--"]
        if len(words) != 2 or words[0] != "cd" or words[1].startswith("-"):  # noqa: PLR2004
            raise self.script.refusal(command, "'cd' is known with one folder")
        return self.expander.below(words[1], command)

    def _assigned(self, node: "Node") -> Value:
        for value in node.children[2:]:
            if value.type == "array":
                words = [one for one in value.named_children if one.type != "comment"]
                return self.expander.words(words)
            return self.expander.text(value)
        return ""

    def _added(self, value: Value, name: str, change: "Node") -> Value:
        before = self.value(name, change)
        if isinstance(value, list) and (isinstance(before, list) or not before):
            return [*(before or ()), *value]
        if isinstance(value, str) and not isinstance(before, list):
            return self.expander.bounded.of(f"{before or ''}{value}")
        raise self.script.refusal(change, "it adds a text to a list, or a list to a text")

    def _last(self, changes: Sequence["Node"], at: "Node", name: str) -> "Node | None":
        """The last of some statements that has run before a place; None where none has.

        Raises:
            BadInputError: only a run would tell.
        """
        function = self._by_functions.get(name)
        if function is not None and function.start_byte < at.start_byte:
            raise self._undecided(function, name)
        at_change = bisect_right(changes, at.start_byte, key=_end)
        change = changes[at_change - 1] if at_change else None
        deciding = None if change is None else self._deciding(change, at)
        if deciding is not None:
            raise self._undecided(deciding, name)
        return change

    def _deciding(self, change: "Node", at: "Node") -> "Node | None":
        """The statement that decides whether a change has happened at a place behind it."""
        beside, path = {one.id for one in ancestors(at)}, list(ancestors(change))
        common = next(n for n, one in enumerate(path) if one.id in beside)
        # What ``&&`` joins with the place has run.
        joined = {one.id for one in _joined(path[common])}
        deciding = None
        for one, outer in pairwise(path[: common + 1]):
            if one.type in _DECIDING | {"pipeline"} or _sign_behind(one) == "&":
                deciding = one
            if outer.type == "list" and one != outer.children[0] and outer.id not in joined:
                deciding = outer
        return deciding

    def _undecided(self, node: "Node", name: str) -> BadInputError:
        first = node.children[0]
        what = "the command beside it" if first.is_named else repr(first.type)
        if node.type == "function_definition":
            what = f"{self.script.source(first)}()"
        value = "the folder" if name == FOLDER else f"${name}"
        return self.script.refusal(node, f"{value} depends on {what}")

    def own(self, command: "Node") -> dict[str, Value]:
        """The variables that are set for a command alone.

        Raises:
            BadInputError: only a run would tell.
        """
        found: dict[str, Value] = {}
        ahead = [one for one in command.children if one.type == "variable_assignment"]
        for node in filter(self.is_ahead, ahead):
            source, behind = self.script.source(node), node.next_sibling
            gap = "" if behind is None else self.script.text[node.end_byte : behind.start_byte]
            # The grammar takes a line of several assignments for a part of the command below it.
            is_split = not gap or "\n" in gap.replace("\\\n", "")
            if is_split or any(re.search(rf"\$\{{?{name}\b", source) for name in found):
                what = "an assignment that is misread"
                raise self.script.refusal(node, what, "write it on a line of its own")
            name = source.partition("=")[0].rstrip("+")
            self.expander.check_name(name, node)
            found[name] = self._behind(node, name)
        return found

    def variables(self, at: "Node", own: Mapping[str, Value]) -> dict[str, str]:
        """The variables that reach a command: those that are exported, and its own.

        Raises:
            BadInputError: a value is known at run time only, or a variable of llama-server is not
                exported.
        """
        exported = (name for name, ones in self._exports.items() if self._last(ones, at, name))
        names = [one for one in exported if one not in SESSION_VARIABLES]
        found = {**{name: self.value(name, at) for name in names}, **own}
        for name, changes in self._changes.items():
            if name.startswith(PREFIX) and name not in found and self._last(changes, at, name):
                what = f"{name} is set before it, but not exported, so that no program gets it"
                raise self.script.refusal(at, what, "write export in front of it")
        for name, value in found.items():
            if isinstance(value, list):
                raise self.script.refusal(at, f"{name} is a list")
        return {name: value for name, value in found.items() if isinstance(value, str)}


def _within(node: "Node") -> Iterator["Node"]:
    """Yield the nodes of a tree in the order of the text, without commands within commands."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        if node.type not in _SUBSTITUTED:
            left += reversed(node.children)


def ancestors(node: "Node") -> Iterator["Node"]:
    """Yield a node and those that it is a part of, outwards."""
    yield node
    while node.parent is not None:
        node = node.parent
        yield node


def _sign(node: "Node") -> str:
    """The sign between the two sides of a list."""
    return next(child.type for child in node.children if child.type in {"&&", "||"})


def _joined(node: "Node") -> Iterator["Node"]:
    """Yield the lists that ``&&`` joins, from the outermost on."""
    while node.type == "list" and _sign(node) == "&&":
        yield node
        node = node.children[0]


def _end(node: "Node") -> int:
    return node.end_byte


def _sign_behind(node: "Node") -> str:
    return "" if node.next_sibling is None else node.next_sibling.type
