"""Parses a shell's text by tree-sitter's grammar of bash, and expands its words.

Nothing is run, and no environment is read: only the text itself sets variables, and the home folder
stays ``HOME``.
"""

import os.path
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from spectui.commands.home import HOME
from spectui.commands.sources.files import (
    INSTEAD,
    PLACEHOLDER,
    Replacement,
    excerpt_of,
    why_foreign,
)
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

CALLER = "@"
"""Name of the list of arguments that a script was called with, which is empty here."""
FOLDER = "PWD"
"""Name of the present folder, once it was changed: as it was given, below the first one."""
_BREAK, _KEEP = "\0 ", "\0-"
"""The end of a word, and a word that is one even if it is empty; no text has a NUL but ``HOME``."""
_LONGEST_PATTERN = 256
_PLAIN = re.compile(
    r"(?:[^ \t\r\n\\'\"$`~*?\[{<>()|&;^%:\x01-\x08\x0b\x0c\x0e-\x1f\x7f]++"
    r"|(?<=[^ \t\n=;&|<>(])~|\{\}|:(?!~)|%(?!\w+%)|\^(?![ \t]*(?:\n|\Z))"
    r"|\\(?:\n|[^A-Za-z0-9\n])|\$(?![A-Za-z_0-9{(\[@*#?$!'\"-])"
    r"|[*?\[](?=[^ \t\n'\"$`;&|<>()]*=))++",
    re.DOTALL,
)
"""Text without quotes that stands for itself, as patterns do that match no file: names with ``=``
are none of files."""
_SPACED = re.compile(
    r"\\([ \t])|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![^\s;&|()])#[^\n]*", re.DOTALL
)
_ESCAPED = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\(?:\n|([\"\\$`]))")
_HOME = re.compile(r"(?:(?<=[ \t\n=;&|(])|\A)~(?=[/ \t\n;&|<>)]|\Z)")
_DEFAULT = re.compile(r"[^{}$'\"\\`~*?\[\n]*")
"""Text of a default that means the same within quotes and without."""
_BLANKS = re.compile(r"[ \t\n]+")
_GAP = re.compile(r"(?:[ \t]+|\\\n|#[^\n]*(?=\n)|\n)*")
_NAMED = re.compile(
    r"\$\{?(?P<name>[A-Za-z_]\w*|[0-9]|[@*#?$!-])(?P<all>\[@\])?(?:(?P<sign>:?[-=]).*)?\}?",
    re.DOTALL | re.ASCII,
)
_SCRIPTS = frozenset({"$0", "${0}", "$BASH_SOURCE", "${BASH_SOURCE}", "${BASH_SOURCE[0]}"})
_OWN = re.compile(
    r"_|IFS|S?RANDOM|SECONDS|LINENO|BASH\w*|E?UID|PPID|SHLVL|EPOCH(REALTIME|SECONDS)|OPT(ARG|ERR|IND)"
    r"|OLDPWD|CDPATH|FUNCNAME|GROUPS|[#?$!*0-]"
)
"""Variables that a shell sets itself, or that change its parsing."""
_EXPANDED = frozenset({"simple_expansion", "expansion", "command_substitution"})
_PLAIN_WORDS = frozenset({"word", "number", "extglob_pattern", "regex", "$"})

Known = Callable[[str, "Node"], str | list[str] | None]
"""The value of a variable at a place: its text, a list, or None if it is not set."""


@cache
def _parser() -> "Parser":
    """The parser, which few commands of spectui need."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


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
        text = _SPACED.sub(lambda m: f"'{m[1]}'" if m[1] else m[0], text)
        # A backslash at the end that joins nothing.
        self.text = re.sub(r"(?<!\\)\\\n\s*\Z|(?<=\s)\\\Z", "\n", text)
        self.origin = origin
        # With a byte for each character, offsets in the tree are indexes of the text.
        self.root = _parser().parse(re.sub(r"[^\x00-\x7f]", "x", self.text).encode()).root_node
        if self.root.has_error:
            raise self._unread()

    def source(self, node: "Node") -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte]

    def refusal(self, place: "Node | int", what: str, instead: str = INSTEAD) -> BadInputError:
        """The error that refuses what stands at a node or an index, by its line."""
        at = place if isinstance(place, int) else place.start_byte
        line = self.text.count("\n", 0, at) + 1
        where = f"{self.origin}, line {line}" if self.origin else f"line {line}"
        return BadInputError(f"{where}: {what}; {instead}")

    def foreign(self, at: int) -> BadInputError:
        """The error for what stands at an index and only a shell can evaluate."""
        return self.refusal(at, *why_foreign(self.text, at))

    def _unread(self) -> BadInputError:
        """The error for the first place that the grammar does not know."""
        node = self.root
        while node.type != "ERROR" and not node.is_missing:
            node = next(child for child in node.children if child.has_error or child.is_missing)
        node = node.parent if node.is_missing and node.parent is not None else node
        line = self.text.rfind("\n", 0, node.start_byte) + 1
        end = self.text.find("\n", node.start_byte)
        found = PLACEHOLDER.search(self.text, line, end if end >= 0 else len(self.text))
        found = found or re.compile("['\"`]").search(self.text, node.start_byte, node.end_byte)
        return self.foreign(node.start_byte if found is None else found.start())


class Expander:
    """Expands the words of a script as bash would, from what is known before it runs."""

    def __init__(self, script: Script, known: Known) -> None:
        """Take the text, and the function that looks variables up."""
        self.script = script
        self.bounded = Replacement()
        self._known = known

    def words(self, nodes: Sequence["Node"]) -> list[str]:
        """The words of nodes; parts that only a joined line end separates are one word.

        Raises:
            BadInputError: a part of them depends on a run, or is not set.
        """
        marked, end = "", nodes[0].start_byte if nodes else 0
        for node in nodes:
            gap = self.script.text[end : node.start_byte]
            if not _GAP.fullmatch(gap):
                raise self.script.foreign(end + len(gap) - len(gap.lstrip()))
            if gap.replace("\\\n", ""):
                marked += _BREAK
            marked += self._text(node, splits=True)
            end = node.end_byte
        return [word.replace(_KEEP, "") for word in marked.split(_BREAK) if word]

    def text(self, node: "Node") -> str:
        """The text of a node where no words are split, as in an assignment.

        Raises:
            BadInputError: as ``words``.
        """
        return self._text(node, splits=False).replace(_KEEP, "")

    def check_name(self, name: str, node: "Node") -> None:
        """Refuse a name of a variable that a shell sets itself.

        Raises:
            BadInputError: it is one.
        """
        if _OWN.fullmatch(name):
            raise self.script.refusal(node, f"${name} is what only a running shell knows")

    def below(self, path: str, node: "Node") -> str:
        """A path resolved from the working folder, relative to the first one; empty for that.

        Raises:
            BadInputError: the folder is known at run time only.
        """
        folder = str(self._known(FOLDER, node) or "")
        joined = path if path.startswith(HOME) else os.path.join(folder, path)  # noqa: PTH118 - as a shell does
        plain = self.bounded.of(os.path.normpath(joined))
        if joined.startswith(HOME) and not plain.startswith(HOME):
            raise BadInputError("a path leads above the home folder, which only a shell knows")
        return "" if plain == "." else plain

    def _text(self, node: "Node", *, splits: bool) -> str:
        """The text of a word or of a part, with the marks of the words that it is split into."""
        span = (node.start_byte, node.end_byte)
        match node.type:
            case "raw_string":
                return f"{_KEEP}{self.script.source(node)[1:-1]}"
            case "string":
                return self._quoted(node, splits=splits)
            case kind if kind in _EXPANDED:
                if not splits:
                    return self._single(node)
                value = self._expanded(node)
                words = value if isinstance(value, list) else [value]
                return _BREAK.join(self._split(word, node) for word in words)
            case "concatenation":
                # The grammar divides text without quotes in places that mean nothing.
                parts = [child for child in node.children if child.type not in _PLAIN_WORDS]
                plain = partial(self._plain, node)
                return self._spliced(span, parts, plain, partial(self._text, splits=splits))
            case kind if kind in _PLAIN_WORDS:
                return self._plain(node, *span)
        raise self.script.foreign(node.start_byte)

    def _spliced(
        self,
        span: tuple[int, int],
        parts: Sequence["Node"],
        literal: Callable[[int, int], str],
        expand: Callable[["Node"], str],
    ) -> str:
        """The text between two indexes, with the text of its parts in their places."""
        (start, end), pieces = span, list[str]()
        for part in parts:
            pieces += [literal(start, part.start_byte)] if start < part.start_byte else []
            pieces.append(expand(part))
            start = part.end_byte
        pieces += [literal(start, end)] if start < end else []
        return "".join(pieces)

    def _plain(self, node: "Node", start: int, end: int) -> str:
        """A text without quotes, which may begin with the home folder."""
        text, home, at = self.script.text, "", start
        if _HOME.match(text, start):
            home, at = str(self._known("HOME", node) or HOME), start + 1
        plain = _PLAIN.match(text, at, end + _LONGEST_PATTERN)
        stop = at if plain is None else plain.end()
        if stop < end:
            raise self.script.foreign(stop)
        return home + _ESCAPED.sub(lambda m: m[1] or "", text[at:end])

    def _quoted(self, node: "Node", *, splits: bool) -> str:
        """A text in double quotes: what stands between its expansions is taken as it is."""
        parts = [child for child in node.children if child.type in _EXPANDED]
        start, end = node.start_byte + 1, node.end_byte - 1
        if splits and [(part.start_byte, part.end_byte) for part in parts] == [(start, end)]:
            value = self._expanded(parts[0])
            words = value if isinstance(value, list) else [value]
            return _BREAK.join(f"{_KEEP}{word}" for word in words)

        def literal(start: int, end: int) -> str:
            return _ESCAPED_IN_QUOTES.sub(lambda m: m[1] or "", self.script.text[start:end])

        return _KEEP + self._spliced((start, end), parts, literal, self._single)

    def _split(self, value: str, node: "Node") -> str:
        """The value of a variable without quotes."""
        if re.search(r"[*?\[]", value):
            what = f"a pattern of file names stands in a variable ({excerpt_of(value)})"
            remedy = "put the variable in quotes"
            if _BLANKS.search(value):
                remedy = 'make a list of it, NAME=(...), and write "${NAME[@]}"'
            raise self.script.refusal(node, what, remedy)
        return _BLANKS.sub(_BREAK, value)

    def _single(self, node: "Node") -> str:
        """The value of an expansion in a place for a text."""
        value = self._expanded(node)
        if isinstance(value, list):
            raise self.script.refusal(node, f"{self.script.source(node)} is a list of words")
        return value

    def _expanded(self, node: "Node") -> str | list[str]:
        """The value of an expansion: a list for ``$@`` and ``${NAME[@]}``, else a text."""
        source = self.script.source(node)
        if node.type == "command_substitution":
            return self._output(node)
        if source in _SCRIPTS and self.script.origin:
            return self.script.origin
        found = _NAMED.fullmatch(source)
        if found is None:
            raise self.script.foreign(node.start_byte)
        name = found["name"]
        value = self._variable(name, node)
        if found["sign"]:
            value = self._with_default(value, found, node)
        if value is None and name.isdecimal():
            raise self.script.foreign(node.start_byte)
        if value is None:
            raise self.script.refusal(
                node,
                f"${name} is not set in it, and spectui takes nothing from its own environment",
                "write its value there, or give pid:NUMBER of the running server",
            )
        if isinstance(value, list) != (bool(found["all"]) or name == CALLER):
            raise self.script.refusal(node, f"${name} is a list", f'write "${{{name}[@]}}"')
        self.bounded.of(value if isinstance(value, str) else " ".join(value))
        return value

    def _variable(self, name: str, node: "Node") -> str | list[str] | None:
        """The value of a variable; None if it is not set."""
        self.check_name(name, node)
        if name == FOLDER:
            return self._absolute("", node)
        if name == CALLER:
            return []
        value = None if name.isdecimal() else self._known(name, node)
        return HOME if value is None and name == "HOME" else value

    def _with_default(
        self, value: str | list[str] | None, found: re.Match[str], node: "Node"
    ) -> str | list[str] | None:
        """The value, or what stands behind ``-`` or ``=`` in its place."""
        if value if found["sign"].startswith(":") else value is not None:
            return value

        def literal(start: int, end: int) -> str:
            text = self.script.text[start:end]
            if not _DEFAULT.fullmatch(text):
                raise self.script.foreign(node.start_byte)
            return text

        parts = [part for child in node.children for part in _expansions(child)]
        span = (node.start_byte + found.end("sign"), node.end_byte - 1)
        return self._spliced(span, parts, literal, self._single)

    def _output(self, node: "Node") -> str:
        """Output of a command within a command: a folder, or a program's path.

        Raises:
            BadInputError: it is known at run time only.
        """
        parts = [
            one
            for part in node.named_children
            for one in (part.children if part.type == "list" else [part])
        ]
        try:
            asked = [self._asked(one) for one in parts if one.type != "&&"]
        except BadInputError as error:
            raise self.script.foreign(node.start_byte) from error
        match asked:
            case [["pwd"]]:
                return self._absolute("", node)
            case [["cd", path], ["pwd"]] | [["readlink" | "realpath", path]]:
                return self._absolute(path, node)
            case [["dirname", path]]:
                return os.path.dirname(path) or "."  # noqa: PTH120 - text, not a path
            case [["command -v" | "which", program]]:
                return program
        raise self.script.foreign(node.start_byte)

    def _asked(self, node: "Node") -> list[str]:
        """Words of a command without options; those of ``command -v`` as one."""
        if node.type == "redirected_statement":
            node = node.children[0]
        if node.type != "command":
            raise self.script.foreign(node.start_byte)
        words = self.words(words_of(node.children))
        if words[:2] == ["command", "-v"]:
            return ["command -v", *words[2:]]
        return [word for word in words if not word.startswith("-")]

    def _absolute(self, path: str, node: "Node") -> str:
        at = self.below(path, node)
        return at if at.startswith(HOME) else os.path.abspath(at)  # noqa: PTH100 - links stay


def _expansions(node: "Node") -> list["Node"]:
    """The expansions in a node, without those within them."""
    if node.type in _EXPANDED:
        return [node]
    return [one for child in node.children for one in _expansions(child)]


def words_of(parts: Sequence["Node"]) -> list["Node"]:
    """The nodes of a command's words among its parts: its name, and its arguments."""
    left = ("variable_assignment", "comment")
    return [
        part.children[0] if part.type == "command_name" else part
        for part in parts
        if part.type not in left and not part.type.endswith("_redirect")
    ]
