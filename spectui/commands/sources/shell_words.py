"""The tree of a shell's text, by tree-sitter's grammar of bash, and the words that its parts mean.

Nothing is run, and no environment is asked: only the text itself sets variables, and the home
folder stays ``HOME``. A value that only a run would tell is kept as the error that says so, which
is raised where the value is used.
"""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from spectui.commands.home import HOME
from spectui.commands.sources.files import Replacement
from spectui.commands.sources.refusals import INSTEAD, PLACEHOLDER, reason, shown
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Value = str | list[str] | BadInputError
"""Value of a variable: text, the words of a list, or why nobody knows it."""
CALLER = "@"
"""Name of the list of what the caller of a script or of a function gives it."""
FOLDER = "PWD"
"""Name of the present folder, once it was changed: as it was given, below the first one."""

_MOST_WORDS = 10_000
_MOST_OPENED = 2000
"""Parentheses above which the grammar takes seconds."""
_PLAIN = re.compile(
    r"(?:[^ \t\r\n\\'\"$`~*?\[{<>()|&;^%:\x01-\x08\x0b\x0c\x0e-\x1f\x7f]++"
    r"|(?<=[^ \t\n=;&|<>(])~|\{\}|:(?!~)|%(?!\w+%)|\^(?![ \t]*(?:\n|\Z))"
    r"|\\(?:\n|[^A-Za-z0-9\n]))++",
    re.DOTALL,
)
"""Text without quotes that stands for itself."""
_SPACED = re.compile(
    r"\\([ \t])|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![^\s;&|()])#[^\n]*", re.DOTALL
)
_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\(?:\n|([\"\\$`]))")
_HOME = re.compile(r"~(?=[/ \t\n;&|<>)]|\Z)")
_DEFAULT = re.compile(r"[^{}$'\"\\`~*?\[\n]*")
"""Text of a default that means the same within quotes and without."""
_BLANKS = re.compile(r"[ \t\n]+")
_GAP = re.compile(r"(?:[ \t]+|\\\n|#[^\n]*(?=\n)|\n)*")
_SCRIPTS = frozenset({"$0", "${0}", "$BASH_SOURCE", "${BASH_SOURCE}", "${BASH_SOURCE[0]}"})
_OWN = re.compile(
    r"_|IFS|S?RANDOM|SECONDS|LINENO|BASH\w*|E?UID|PPID|SHLVL|EPOCH(REALTIME|SECONDS)|OPT(ARG|ERR|IND)"
    r"|OLDPWD|FUNCNAME|GROUPS|[#?$!*0-]"
)
"""Variables that a shell sets itself, or that change its parsing."""
_EXPANDED = frozenset({"simple_expansion", "expansion", "command_substitution"})
_PLAIN_WORDS = frozenset({"word", "number", "extglob_pattern", "regex", "$"})
WORDS = (
    _EXPANDED
    | _PLAIN_WORDS
    | {"string", "raw_string", "ansi_c_string", "concatenation", "variable_name", "test_command"}
)
"""Nodes that are words or parts of one, or decide without a command."""


@cache
def _parser() -> "Parser":
    """The parser, which few commands of spectui need."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@dataclass(slots=True)
class Environment:
    """What a shell knows between its commands."""

    values: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, "Node | BadInputError"] = field(default_factory=dict)
    exports_all: bool = False

    def copy(self) -> "Environment":
        """What a subshell starts with."""
        lists = {n: list(v) if isinstance(v, list) else v for n, v in self.values.items()}
        return Environment(lists, set(self.exported), dict(self.functions), self.exports_all)

    def doubt(self, before: "Environment", refused: Callable[[str], BadInputError]) -> None:
        """Forget what has changed since ``before``, as it depends on the run.

        Args:
            before: the environment if nothing had changed.
            refused: makes the error that is raised where a changed variable is used.

        Raises:
            BadInputError: whether variables are exported depends on the run.
        """
        for name in self.values.keys() | before.values.keys():
            is_same = (name in self.exported) == (name in before.exported)
            if self.values.get(name) != before.values.get(name) or not is_same:
                self.values[name] = refused(f"${name}")
        for name, body in self.functions.items():
            if before.functions.get(name) != body:
                self.functions[name] = refused(f"{name}()")
        if self.exports_all != before.exports_all:
            raise refused("'set -a'")


class Script:
    """The text of a script or of a typed command, and its tree."""

    def __init__(self, text: str, origin: str) -> None:
        """Parse the text.

        Args:
            text: lines that end with a line feed alone.
            origin: the file that the text stands in, for messages; empty for what is typed.

        Raises:
            BadInputError: no shell reads it.
        """
        # The grammar passes over a blank behind a backslash.
        self.text = _SPACED.sub(
            lambda m: f"'{m[1]}'" if m[1] else m[0], text.removeprefix("\N{BYTE ORDER MARK}")
        )
        self.origin = origin
        if self.text.count("(") > _MOST_OPENED:
            raise BadInputError("the command has too many parentheses; give a plain one")
        self._bytes = self.text.encode("utf-8", "surrogatepass")
        self.root = _parser().parse(self._bytes).root_node
        if self.root.has_error:
            raise self._unread()

    def at(self, offset: int) -> int:
        """Index in the text of an offset in bytes."""
        is_plain = len(self._bytes) == len(self.text)
        return offset if is_plain else len(self._bytes[:offset].decode("utf-8", "surrogatepass"))

    def between(self, start: int, end: int) -> str:
        """The text between two offsets in bytes."""
        return self._bytes[start:end].decode("utf-8", "surrogatepass")

    def source(self, node: "Node") -> str:
        """The text of a node."""
        return self.between(node.start_byte, node.end_byte)

    def line(self, node: "Node") -> int:
        """The line that a node begins on."""
        return node.start_point.row + 1

    def refusal(self, node: "Node", what: str) -> BadInputError:
        """The error that refuses a node, by its line."""
        return self._refusal(self.line(node), what)

    def foreign(self, offset: int) -> BadInputError:
        """The error for what stands at an offset in bytes."""
        at = self.at(offset)
        return self._refusal(self.text.count("\n", 0, at) + 1, reason(self.text, at))

    def place(self, line: int) -> str:
        """A line for messages."""
        return f"{self.origin}, line {line}" if self.origin else f"line {line}"

    def _refusal(self, line: int, what: str) -> BadInputError:
        told = what if ";" in what else f"{what}; {INSTEAD}"
        return BadInputError(f"{self.place(line)}: {told}")

    def _unread(self) -> BadInputError:
        """The error for the first place that the grammar does not know."""
        node = self.root
        while node.type != "ERROR" and not node.is_missing:
            node = next(child for child in node.children if child.has_error or child.is_missing)
        for found in PLACEHOLDER.finditer(self.text):
            if self.text.count("\n", 0, found.start()) == node.start_point.row:
                return self._refusal(self.line(node), reason(self.text, found.start()))
        quote = next((one for one in _leaves(node) if one.type in {"'", '"', "`"}), node)
        return self.foreign(quote.start_byte)


def _leaves(node: "Node") -> Iterator["Node"]:
    if not node.children:
        yield node
    for child in node.children:
        yield from _leaves(child)


class Fields:
    """Builds the words that one word of the text expands to."""

    def __init__(self, *, splits: bool) -> None:
        """Start without words; ``splits``: unquoted variables are split at blanks."""
        self.words: list[str] = []
        self.splits = splits
        self.is_open = False
        """Whether a word was begun."""
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        """Append to the last word."""
        self._pieces.append(text)
        self.is_open = True

    def end(self) -> None:
        """Finish the last word, if there is one."""
        if self.is_open:
            self.words.append("".join(self._pieces))
        self._pieces, self.is_open = [], False

    def insert(self, value: str) -> None:
        """Append the value of an unquoted variable."""
        for n, part in enumerate(_BLANKS.split(value) if self.splits else [value]):
            if n:
                self.end()
            if part:
                self.add(part)


class Expander:
    """Expands the words of a script as bash would, from what is known before it runs."""

    def __init__(self, script: Script, environment: Environment) -> None:
        """Start with the environment, which its owner may replace."""
        self.script = script
        self.environment = environment
        self.lacks_caller = False
        """Whether the words hold what a caller gives, which is nothing here."""
        self.bounded = Replacement()

    def words(self, nodes: Sequence["Node"]) -> list[str]:
        """The words of nodes; those that only a line's joint divides are one.

        Raises:
            BadInputError: a part of them depends on a run, or is not set.
        """
        found: list[str] = []
        fields, end = Fields(splits=True), -1
        for node in nodes:
            gap = self.script.between(end, node.start_byte) if end >= 0 else " "
            if gap.replace("\\\n", ""):
                fields.end()
                if end >= 0 and not _GAP.fullmatch(gap):
                    raise self.script.foreign(end + len(gap) - len(gap.lstrip()))
            self._add(node, fields, is_first=not fields.is_open)
            end = node.end_byte
            if len(fields.words) > _MOST_WORDS:
                raise self.script.refusal(
                    node, "the command has too many words; give a shorter one"
                )
        fields.end()
        found += fields.words
        return found

    def text(self, node: "Node") -> str:
        """The text of a node where no words are split, as in an assignment."""
        fields = Fields(splits=False)
        self._add(node, fields, is_first=True)
        fields.end()
        return "".join(fields.words)

    def value(self, name: str, node: "Node") -> str | list[str] | None:
        """The value of a variable; None if it is not set.

        Raises:
            BadInputError: only a run would tell.
        """
        self.check_name(name, node)
        value = self.environment.values.get(name)
        if isinstance(value, BadInputError):
            raise value
        if name == FOLDER:
            return self._absolute("")
        if value is None and name == CALLER:
            self.lacks_caller = True
            return []
        return HOME if value is None and name == "HOME" else value

    def text_of(self, name: str, node: "Node") -> str:
        """The text of a variable that is set.

        Raises:
            BadInputError: it is a list, or only a run would tell.
        """
        value = self.value(name, node)
        if not isinstance(value, str):
            raise self.script.refusal(node, f"{name} is a list")
        return value

    def below(self, path: str) -> str:
        """A path as the present folder makes it, below the first one; empty for that itself.

        Raises:
            BadInputError: only a run would tell the folder.
        """
        folder = self.environment.values.get(FOLDER, "")
        if isinstance(folder, BadInputError):
            raise folder
        joined = path if path.startswith(HOME) else os.path.join(str(folder), path)  # noqa: PTH118 - as a shell does
        return os.path.normpath(joined) if joined and os.path.normpath(joined) != "." else ""

    def check_name(self, name: str, node: "Node") -> None:
        """Make sure that a name is none that a shell itself sets.

        Raises:
            BadInputError: it is.
        """
        if _OWN.fullmatch(name):
            raise self.script.refusal(node, f"${name} is what only a running shell knows")

    def _add(self, node: "Node", fields: Fields, *, is_first: bool) -> None:
        match node.type:
            case "concatenation":
                plain = [child.type in _PLAIN_WORDS for child in node.children]
                for n, part in enumerate(node.children):
                    if not plain[n]:
                        self._add(part, fields, is_first=False)
                    elif not n or not plain[n - 1]:
                        last = plain.index(False, n) - 1 if False in plain[n:] else -1
                        end = node.children[last].end_byte
                        self._add_plain(part, end, fields, is_first=is_first and not n)
            case "raw_string":
                fields.add(self.script.source(node)[1:-1])
            case "string":
                self._add_string(node, fields)
            case "simple_expansion" | "expansion" | "command_substitution":
                self._add_expansion(node, fields, is_quoted=False)
            case kind if kind in _PLAIN_WORDS:
                self._add_plain(node, node.end_byte, fields, is_first=is_first)
            case _:
                raise self.script.foreign(node.start_byte)

    def _add_plain(self, node: "Node", end_byte: int, fields: Fields, *, is_first: bool) -> None:
        """Append text without quotes, up to ``end_byte``."""
        text, start = self.script.text, self.script.at(node.start_byte)
        at, end = start, self.script.at(end_byte)
        home = _HOME.match(text, at) if is_first else None
        if home is not None:
            value = self.value("HOME", node)
            fields.add(value if isinstance(value, str) else "")
            at = home.end()
        plain = _PLAIN.match(text, at, end)
        stop = at if plain is None else plain.end()
        if stop != end and text[start:end] != "$":
            raise self.script.foreign(node.start_byte + len(text[start:stop].encode()))
        fields.add(_ESCAPED.sub(lambda m: m[1] or "", text[at:end]))

    def _add_string(self, node: "Node", fields: Fields) -> None:
        """Append a text in double quotes: what stands between its expansions is taken as it is."""
        parts = [child for child in node.children if child.type in _EXPANDED]
        source = self.script.source(node)
        if len(parts) == 1 and source == f'"{self.script.source(parts[0])}"':
            self._add_expansion(parts[0], fields, is_quoted=True)
            return
        fields.add("")
        at = node.start_byte + 1
        for part in (*parts, None):
            end = node.end_byte - 1 if part is None else part.start_byte
            text = self.script.between(at, end)
            fields.add(_ESCAPED_IN_QUOTES.sub(lambda m: m[1] or "", text))
            if part is not None:
                fields.add(self._text_of(part))
                at = part.end_byte

    def _add_expansion(self, node: "Node", fields: Fields, *, is_quoted: bool) -> None:
        value = self.expanded(node)
        if isinstance(value, str) and is_quoted:
            fields.add(value)
            return
        words = [value] if isinstance(value, str) else value
        if not fields.splits and not isinstance(value, str):
            raise self._no_list(node)
        for n, word in enumerate(words):
            if n:
                fields.end()
            self.bounded.of(word)
            if is_quoted:
                fields.add(word)
                continue
            if fields.splits and re.search(r"[*?\[]", word):
                raise self.script.refusal(
                    node,
                    f"a pattern of file names stands in a variable ({shown(word)}); put the "
                    "variable in quotes",
                )
            fields.insert(word)

    def _text_of(self, node: "Node") -> str:
        value = self.expanded(node)
        if not isinstance(value, str):
            raise self._no_list(node)
        return value

    def _no_list(self, node: "Node") -> BadInputError:
        return self.script.refusal(node, f"{self.script.source(node)} is no list of words here")

    def expanded(self, node: "Node") -> str | list[str]:
        """What ``$NAME``, ``${NAME}`` with a default, a list, or a known command stands for."""
        if self.script.source(node) in _SCRIPTS:
            return self._own_path(node)
        if node.type == "command_substitution":
            return self._output(node)
        target = node.children[1] if len(node.children) > 1 else node
        is_list = target.type == "subscript"
        if is_list and self.script.source(target).endswith("[@]"):
            target = target.children[0]
        elif is_list or target.type not in {"variable_name", "special_variable_name"}:
            raise self.script.foreign(node.start_byte)
        name = self.script.source(target)
        is_list = is_list or name == CALLER
        rest = node.children[2:-1] if node.type == "expansion" else []
        value = self._given(name, node) if name.isdecimal() else self.value(name, node)
        if rest:
            value = self._with_default(name, value, rest, node)
        if value is None:
            raise self._unset(name, node)
        if isinstance(value, list) != is_list:
            what = f'${name} is a list; write "${{{name}[@]}}"'
            raise (
                self.script.refusal(node, what) if isinstance(value, list) else self._no_list(node)
            )
        return value if isinstance(value, list) else self.bounded.of(value)

    def _given(self, name: str, node: "Node") -> str | None:
        """A word that the caller of a script or of a function gives it."""
        words = self.value(CALLER, node)
        is_given = 0 < int(name) <= len(words or ())
        return words[int(name) - 1] if is_given and isinstance(words, list) else None

    def _unset(self, name: str, node: "Node") -> BadInputError:
        if name.isdecimal():
            return self.script.foreign(node.start_byte)
        return self.script.refusal(
            node,
            f"${name} is not set in it, and spectui takes nothing from its own environment; "
            "write its value there, or give pid:NUMBER of the running server",
        )

    def _with_default(
        self, name: str, value: str | list[str] | None, rest: Sequence["Node"], node: "Node"
    ) -> str | list[str] | None:
        """The value, or what stands behind ``-``, ``=``, ``?`` or ``+`` in its place."""
        sign = self.script.source(rest[0])
        if sign.lstrip(":") not in {"-", "=", "?", "+"} or isinstance(value, list):
            raise self.script.foreign(node.start_byte)
        is_set = bool(value) if sign.startswith(":") else value is not None
        if sign.endswith("?"):
            return value if is_set else None
        if is_set != sign.endswith("+"):
            return value if is_set else ""
        text = self._default(rest, node)
        if sign.endswith("="):
            self.check_name(name, node)
            self.environment.values[name] = text
        return text

    def _default(self, rest: Sequence["Node"], node: "Node") -> str:
        """The text behind the sign of an expansion, in which variables may stand."""
        pieces: list[str] = []
        at = rest[0].end_byte
        inner = [n for top in rest[1:] for n in _shallow(top)]
        for part in (*inner, None):
            text = self.script.between(at, node.end_byte - 1 if part is None else part.start_byte)
            if not _DEFAULT.fullmatch(text):
                raise self.script.foreign(node.start_byte)
            pieces.append(text)
            if part is not None:
                pieces.append(self._text_of(part))
                at = part.end_byte
        return "".join(pieces)

    # Commands within a command whose output is known.

    def _own_path(self, node: "Node") -> str:
        if not self.script.origin:
            raise self.script.foreign(node.start_byte)
        return self.script.origin

    def _output(self, node: "Node") -> str:
        """What a command within a command prints: a folder, a program's path, the script's place.

        Raises:
            BadInputError: any other command, whose output only a run would tell.
        """
        known = None
        with suppress(BadInputError):
            match node.named_children:
                case [one] if one.type == "command":
                    known = self._printed(self.words(words_of(one)))
                case [one] if one.type == "list":
                    known = self._folder_of(one)
        if known is None:
            raise self.script.foreign(node.start_byte)
        return known

    def _folder_of(self, node: "Node") -> str | None:
        """The folder that ``cd FOLDER && pwd`` prints."""
        first, sign, last = node.children
        if {first.type, last.type} != {"command"} or sign.type != "&&":
            return None
        words = self.words(words_of(first))
        if len(words) != 2 or words[0] != "cd" or self._printed(self.words(words_of(last))) is None:  # noqa: PLR2004
            return None
        return self._absolute(words[1])

    def _printed(self, words: Sequence[str]) -> str | None:
        match [word for word in words if word != "--"]:
            case ["pwd"] | ["pwd", "-P" | "-L"]:
                return self._absolute(".")
            case ["dirname", path]:
                return os.path.dirname(path) or "."  # noqa: PTH120 - text, not a path
            case ["readlink" | "realpath", *options, path] if not set(options) - {"-f", "-e"}:
                return self._absolute(path)
            case ["command", "-v", program] | ["which", program]:
                return program
        return None

    def _absolute(self, path: str) -> str:
        at = self.below(path)
        return at if at.startswith(HOME) else os.path.abspath(at)  # noqa: PTH100 - links stay


def _shallow(node: "Node") -> Iterator["Node"]:
    """Yield the expansions in a default, without those within them."""
    if node.type in {"simple_expansion", "expansion"}:
        yield node
    else:
        for child in node.children:
            yield from _shallow(child)


def words_of(command: "Node") -> list["Node"]:
    """The nodes of a command's words: its name, and its arguments."""
    left = ("variable_assignment", "comment")
    return [
        child.children[0] if child.type == "command_name" else child
        for child in command.children
        if child.type not in left and not child.type.endswith("_redirect")
    ]
