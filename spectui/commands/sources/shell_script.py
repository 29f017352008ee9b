"""Walks the tree of a script as a shell runs it, up to the commands that may start llama-server.

Assignments, ``export``, ``cd``, ``set``, calls of functions, and commands that change nothing for
the server are followed. What a condition, a loop or a function may change is known no more behind
it, and refused by its line where the server's command needs it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

import msgspec

from spectui.commands.home import HOME
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.refusals import PLACEHOLDER
from spectui.commands.sources.shell_words import (
    EXPORTS_ALL,
    FOLDER,
    WORDS,
    Environment,
    Expander,
    Script,
    words_of,
)
from spectui.commands.sources.source import OF_SHELLS
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node

_REFUSED = {
    **dict.fromkeys(("source", "."), "another script, which may set anything"),
    **dict.fromkeys(("eval", "builtin"), "a command in another's words"),
    **dict.fromkeys(("alias", "unalias", "enable", "let"), "a change that only a shell follows"),
    **dict.fromkeys(("pushd", "popd"), "a change of folders other than 'cd'"),
    **dict.fromkeys(
        ("export", "readonly", "declare", "typeset", "local"), "a declaration in an unusual form"
    ),
    "shift": "a change of what the caller of the script gives it",
    "coproc": "a group of commands",
}
"""Commands that decide or change what is run, with their descriptions."""
_ASIDE = frozenset(
    {":", "true", "echo", "printf", "mkdir", "sleep", "ulimit", "umask", "trap", "shopt", "wait"}
    | {"false", "test", "[", "module", "conda", "systemctl", "service"}
    | {"chmod", "chown", "rm", "mv", "cp", "ln", "install", "cat", "tee", "ls", "which", "type"}
    | {"kill", "pkill", "killall", "pgrep", "grep", "tail", "break", "continue", "journalctl"}
)
"""Commands beside the server's start in scripts, or that only mention a program."""
_ASSUMING = frozenset({"sudo", "doas"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts"})
"""Commands that set variables to what nobody knows before."""
_ENDING = frozenset({"exit", "return", "logout"})
_HARMLESS = re.compile(r"[-+][euvxEm]*o?|errexit|nounset|pipefail|verbose|xtrace")
"""Options of ``set`` that only print, or end a script."""
_DECLARED = re.compile(r"-[argx]+")
"""Options of ``declare`` that change no value."""
_EFFECT = re.compile(r"\$\{\w+:?=|\(\([^\n]*?(?:[^=!<>]=[^=]|\+\+|--)|\$\[|\blet\b")
"""Assignments within a word that is not evaluated."""
_LOOPS = frozenset({"while_statement", "for_statement"})
_CLAUSES = frozenset({"elif_clause", "else_clause", "case_item"})
_OF_REDIRECTIONS = frozenset(
    {"file_descriptor", "heredoc_start", "heredoc_body", "heredoc_end", "process_substitution"}
)
_MOST_COMMANDS = 1000
_LONGEST_FOLDER = 4096


class Candidate(msgspec.Struct, kw_only=True):
    """A possible server command, with what the shell knows at that point."""

    line: int
    is_server: bool
    """Whether it names llama-server."""
    words: list[str]
    variables: Mapping[str, str]
    """Variables that reach the command."""
    folder: str
    beside: list[str]
    """Redirections and other syntax for the shell alone, as they stand in the text."""
    takes_caller: bool


class Session(Expander):
    """Walks a script, with the environment of its shell."""

    def __init__(self, script: Script, environment: Environment) -> None:
        super().__init__(script, environment)
        self.candidates: list[Candidate] = []
        self.n_commands = 0
        self.unread: BadInputError | None = None
        """Why another program's words could not be read."""
        self._is_over = False
        self._is_list = False
        """Whether the text is a list of arguments, whose lines are no commands."""

    def walk(self, node: "Node") -> None:
        """Take a statement as a shell would.

        Raises:
            BadInputError: it may change anything, or is unknown.
        """
        if self._is_over:
            return
        known = self._by_type.get(node.type)
        if known is not None and self.script.source(node)[:2] != "((":
            known(self, node)
        elif node.type in WORDS:
            self._check_effect(node)
        else:
            first = self.script.source(node).split()[0]
            what = f"{first!r} is what only a shell follows"
            raise (
                self.script.refusal(node, what)
                if first.isalpha()
                else self.script.foreign(node.start_byte)
            )

    def _sequence_of(self, node: "Node") -> None:
        self._sequence(node.children)

    def _subshell(self, node: "Node") -> None:
        self._apart(node.children)

    def _list(self, node: "Node") -> None:
        left, sign, right = (child for child in node.children if child.type != "comment")
        behind = [right]
        while sign.type == "&&" and left.type == "list" and left.children[1].type == "&&":
            behind.insert(0, left.children[-1])
            left = left.children[0]
        self.walk(left)
        place = "beside" if sign.type == "&&" else "before"
        self._perhaps(behind, behind[0], f"the command {place} it")

    def _function_definition(self, node: "Node") -> None:
        [name], [body] = map(node.children_by_field_name, ("name", "body"))
        self.environment[f"{self.script.source(name)}()"] = body

    def _pipeline(self, node: "Node") -> None:
        first, *others = node.named_children
        for one in self._apart([first]):
            one.beside.append(_on_one_line(self.script.between(first.end_byte, node.end_byte)))
        n_before = len(self.candidates)
        if any(one.is_server for one in self._apart(others)):
            raise self.script.refusal(node, "what stands in front of a pipe gives it more words")
        del self.candidates[n_before:]

    def _redirected_statement(self, node: "Node") -> None:
        n_before = len(self.candidates)
        redirects = node.children_by_field_name("redirect")
        beside = " ".join(map(self._redirection, redirects))
        # The grammar counts the words behind a redirection among its own.
        more = [n for one in redirects for n in one.children_by_field_name("destination")[1:]]
        left = [child for child in node.children if child not in redirects]
        if more and [child.type for child in left] != ["command"]:
            raise self.script.foreign(more[0].start_byte)
        if more:
            self._command(left[0], more)
        else:
            self._sequence(left)
        for one in self.candidates[n_before:]:
            one.beside.append(beside)

    def _depending(self, node: "Node") -> None:
        """Walk the branches of a condition, or the body of a loop."""
        what = repr(node.children[0].type)
        variable = node.child_by_field_name("variable")
        if variable is not None:
            name = self.script.source(variable)
            self.environment[name] = self._undecided(node, what, name)
        branches: list[list[Node]] = [[]]
        for child in node.children:
            branches += [[]] if child.type in _CLAUSES else []
            branches[-1].append(child)
        n_before = len(self.candidates)
        # What one round of a loop changes is unknown in the next.
        for _ in range(2 if node.type in _LOOPS else 1):
            del self.candidates[n_before:]
            for branch in branches:
                self._perhaps(branch, node, what)

    def _variable_assignment(self, node: "Node") -> None:
        name, sign, *values = node.children
        if name.type != "variable_name":
            raise self.script.foreign(node.start_byte)
        value = self._value_of(values[0]) if values else ""
        self._assign(self.script.source(name), value, node, adds=sign.type == "+=")

    def _declaration_command(self, node: "Node") -> None:
        first, *others = node.children
        is_exported = first.type == "export"
        for child in others:
            source = self.script.source(child)
            if child.type == "variable_assignment":
                self._variable_assignment(child)
            elif _DECLARED.fullmatch(source):
                is_exported |= "x" in source
            elif child.type != "variable_name":
                raise self.script.refusal(node, f"{source!r} is no plain assignment")
            if is_exported:
                self.environment[f"export {source.partition('=')[0].rstrip('+')}"] = ""

    def _command(self, node: "Node", more: Sequence["Node"] = ()) -> None:
        self.n_commands += 1
        if self.n_commands > _MOST_COMMANDS:
            raise self.script.refusal(node, f"more than {_MOST_COMMANDS} commands stand before it")
        parts = self._on_last_line(node)
        nodes, problem = [*words_of(parts), *more], None
        beside = [self._redirection(part) for part in parts if part.type.endswith("_redirect")]
        self.lacks_caller = False
        try:
            words = self.words(nodes)
        except BadInputError as error:
            behind = (word for one in nodes[1:] for word in self.script.source(one).split())
            words, problem = [*self.words(nodes[:1]), *behind], error
        if not words or self._continues(node, words):
            return
        assignments = [part for part in parts if part.type == "variable_assignment"]
        if self._own(node, words, problem, has_own=bool(assignments)) or _is_aside(words):
            if problem is not None:
                self._check_effect(node)
            return
        self._is_over = words[0] == "exec"
        outer = self.environment
        try:
            self.candidates += (
                [self._candidate(parts[0], assignments, words, beside)] if problem is None else []
            )
        except BadInputError as error:
            problem = error
        self.environment = outer
        if problem is not None and names_server(words):
            raise problem
        if problem is not None:
            self.unread = problem
            self._check_effect(node)

    _by_type: ClassVar[Mapping[str, Callable[["Session", "Node"], None]]] = {
        **dict.fromkeys(("program", "do_group", "comment"), _sequence_of),
        **dict.fromkeys(("variable_assignments", "compound_statement"), _sequence_of),
        **dict.fromkeys(("else_clause", "elif_clause", "case_item"), _sequence_of),
        **dict.fromkeys(("if_statement", "case_statement"), _depending),
        **dict.fromkeys(("while_statement", "for_statement"), _depending),
        "negated_command": _depending,
        "function_definition": _function_definition,
        "subshell": _subshell,
        "list": _list,
        "pipeline": _pipeline,
        "redirected_statement": _redirected_statement,
        "variable_assignment": _variable_assignment,
        "declaration_command": _declaration_command,
        "command": _command,
    }

    def _sequence(self, nodes: Sequence["Node"]) -> None:
        for node, behind in zip_longest(nodes, nodes[1:]):
            sign = "" if behind is None else behind.type
            if node.is_named and sign == "&":
                for one in self._apart([node]):
                    one.beside.append("&")
            elif node.is_named:
                self.walk(node)
            if behind is not None and sign in {";", "&"} and self.candidates:
                self._check_end(behind)

    def _apart(self, nodes: Sequence["Node"]) -> list[Candidate]:
        """Walk statements in a subshell; return the candidates among them."""
        environment, is_over, n_before = self.environment, self._is_over, len(self.candidates)
        self.environment = Environment(environment)
        self._sequence(nodes)
        self.environment, self._is_over = environment, is_over
        return self.candidates[n_before:]

    def _perhaps(self, nodes: Sequence["Node"], at: "Node", what: str) -> None:
        """Walk statements that may run, or may not, or often."""
        before, is_over = Environment(self.environment), self._is_over
        self._sequence(nodes)
        self._is_over = is_over
        self.environment.doubt(before, lambda name: self._undecided(at, what, name))

    def _undecided(self, at: "Node", what: str, name: str) -> BadInputError:
        shown = f"${name}" if name.isidentifier() else name
        return self.script.refusal(at, f"{shown} depends on {what}")

    def _check_end(self, end: "Node") -> None:
        """Refuse ``;`` or ``&`` in the middle of a word, where quotes were forgotten."""
        at = self.script.at(end.start_byte)
        around = self.script.text[at - 1 : at] + self.script.text[at + 1 : at + 2]
        if len(around.strip()) > 1 and self.candidates[-1].is_server:
            raise self.script.refusal(
                end,
                f"{end.type!r} in the midst of a word ends the command for a shell; put the word "
                "in quotes, or blanks around the sign",
            )

    def _check_effect(self, node: "Node") -> None:
        """Make sure that what is not read sets no variable."""
        found = _EFFECT.search(self.script.source(node))
        if found is not None:
            raise self.script.refusal(node, f"{found[0]!r} sets a variable on the run")

    def _redirection(self, node: "Node") -> str:
        """The text of a redirection."""
        at = self.script.at(node.start_byte)
        parts = {child.type for child in node.named_children}
        if PLACEHOLDER.match(self.script.text, at) or parts - _OF_REDIRECTIONS - WORDS:
            raise self.script.foreign(node.start_byte)
        self._check_effect(node)
        ends = [one.start_byte for one in node.children_by_field_name("destination")[1:]]
        return _on_one_line(self.script.between(node.start_byte, min([*ends, node.end_byte])))

    def _value_of(self, node: "Node") -> str | list[str] | BadInputError:
        """The value of an assignment, or why nobody knows it."""
        try:
            if node.type == "array":
                return self.words([c for c in node.named_children if c.type != "comment"])
            return self.text(node)
        except BadInputError as error:
            self._check_effect(node)
            return error

    def _assign(
        self, name: str, value: str | list[str] | BadInputError, node: "Node", *, adds: bool
    ) -> None:
        """Set a variable."""
        self.check_name(name, node)
        before = self.environment.get(name) if adds else None
        if isinstance(before, BadInputError):
            return
        if isinstance(before, list) and isinstance(value, list):
            value = [*before, *value]
        elif isinstance(before, str) and isinstance(value, str):
            value = self.bounded.of(f"{before}{value}")
        elif before is not None and not isinstance(value, BadInputError):
            raise self.script.refusal(node, f"{name} is a text and a list")
        self.environment[name] = value
        if self.environment.known(EXPORTS_ALL):
            self.environment[f"export {name}"] = ""

    def _on_last_line(self, node: "Node") -> list["Node"]:
        """The parts of a command; the grammar counts assignments on lines before among them."""
        parts = list(node.children)
        for n in range(len(parts) - 1, 0, -1):
            gap = self.script.between(parts[n - 1].end_byte, parts[n].start_byte)
            gap = gap.replace("\\\n", "")
            if not gap and parts[n - 1].type == "variable_assignment":
                what = "an assignment that is misread; put its value in one pair of quotes"
                raise self.script.refusal(parts[n - 1], what)
            if "\n" in gap:
                for one in parts[:n]:
                    if one.type != "variable_assignment":
                        raise self.script.foreign(one.start_byte)
                    self._variable_assignment(one)
                return parts[n:]
        return parts

    def _continues(self, node: "Node", words: Sequence[str]) -> bool:
        """Add words to a list of arguments, of which no line is a command; return whether so."""
        is_option = self.script.source(node).startswith("-")
        before = node.prev_sibling
        if self.n_commands == 1:
            self._is_list = is_option
        elif self._is_list and self.candidates and (before is None or before.type != ";"):
            self.candidates[-1].words += words
            return True
        elif is_option and not self._is_list:
            raise self.script.refusal(
                node,
                "it begins with an option, but no backslash ends the line before, or that is a "
                "remark, so that the command ends there for a shell; put a backslash there, and no "
                "remarks between",
            )
        return False

    def _own(
        self, node: "Node", words: list[str], problem: BadInputError | None, *, has_own: bool
    ) -> bool:
        """Take a command of the shell itself; return whether it is one."""
        first, *others = words
        function = self.environment.known(f"{first}()")
        if first in _REFUSED:
            raise self.script.refusal(node, f"{first!r} is {_REFUSED[first]}")
        if first == "printf" and "-v" in others:
            raise self.script.refusal(node, "'printf -v' sets a variable")
        if first in _ENDING:
            self._is_over = True
        elif first in _READING:
            for name in ("REPLY", "MAPFILE", *filter(str.isidentifier, others)):
                self.environment[name] = self._undecided(node, repr(first), name)
        elif function is not None or first in {"cd", "set"}:
            if problem is not None:
                raise problem
            if has_own:
                raise self.script.refusal(node, f"a variable is set for {first!r} alone")
            if function is not None and not isinstance(function, str | list):
                outer, self.caller = self.caller, others
                self._perhaps([function], node, f"{first}()")
                self.caller = outer
            else:
                (self._go if first == "cd" else self._set)(words, node)
        else:
            return False
        return True

    def _go(self, words: Sequence[str], node: "Node") -> None:
        if len(words) != 2 or words[1].startswith("-") or "CDPATH" in self.environment:  # noqa: PLR2004
            raise self.script.refusal(node, "'cd' is known with one folder")
        folder = self.below(words[1])
        if len(folder) > _LONGEST_FOLDER:
            raise self.script.refusal(node, "the name of the folder is too long")
        if words[1].startswith(HOME) and not folder.startswith(HOME):
            what = "'cd' leads above the home folder, which only a shell knows"
            raise self.script.refusal(node, what)
        self.environment[FOLDER] = folder

    def _set(self, words: Sequence[str], node: "Node") -> None:
        match list(words[1:]):
            case [("-a" | "+a") as flag] | [("-o" | "+o") as flag, "allexport"]:
                self.environment[EXPORTS_ALL] = flag.removeprefix("+a").removeprefix("+o")
            case options if not all(map(_HARMLESS.fullmatch, options)):
                raise self.script.refusal(node, "'set' may change what is run")

    def _candidate(
        self, node: "Node", assignments: list["Node"], words: list[str], beside: list[str]
    ) -> Candidate:
        names = [self.script.source(child.children[0]) for child in assignments]
        self.environment = Environment(self.environment)
        for child in assignments:
            self._variable_assignment(child)
        own = [f"{name}={self._known_text(name, node)}" for name in names]
        for name in names:
            self.environment.pop(name, None)
        return Candidate(
            line=node.start_point.row + 1,
            is_server=names_server(words),
            words=[*own, *words],
            variables=dict(self._reaching(node)),
            folder=self.below(""),
            beside=beside,
            takes_caller=self.lacks_caller,
        )

    def _known_text(self, name: str, node: "Node") -> str:
        value = self.environment.known(name)
        if not isinstance(value, str):
            raise self.script.refusal(node, f"{name} is a list or an addition")
        return value

    def _reaching(self, node: "Node") -> Iterator[tuple[str, str]]:
        """Yield the variables that reach a command from before it."""
        for name, value in self.environment.items():
            if not name.isidentifier() or name in OF_SHELLS or isinstance(value, list):
                continue
            if self.environment.known(f"export {name}") is not None:
                yield name, self._known_text(name, node)
            elif name.startswith(PREFIX):
                raise self.script.refusal(
                    node,
                    f"{name} is set before it, but not exported, so that the program does not get "
                    "it; write export in front of it",
                )


def _is_aside(words: Sequence[str]) -> bool:
    """Whether a command is a side step of the script, not the server's start."""
    first, *others = words
    if first in _ASSUMING and others:
        first = others[0]
    is_asking = first == "command" and others[:1] in (["-v"], ["-V"])
    return is_asking or first in _ASIDE or (first == "exec" and not others)


def _on_one_line(text: str) -> str:
    return " ".join(re.split(r"(?:\\\n|\s)+", text.strip()))
