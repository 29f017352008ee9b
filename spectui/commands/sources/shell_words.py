"""The tree of a shell's text, by tree-sitter's grammar of bash, and the words that its parts mean.

Nothing is run, and no environment is asked: only the text itself sets variables, and the home
folder stays ``HOME``. What only a run would tell is kept as the error that says so, which is raised
where the value is used.
"""

import os.path
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from time import process_time
from typing import TYPE_CHECKING, Union

from spectui.commands.home import HOME
from spectui.commands.sources.files import Replacement
from spectui.commands.sources.refusals import INSTEAD, PLACEHOLDER, reason, shown
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

CALLER = "@"
"""Name of the list of what the caller of a script or of a function gives it."""
FOLDER = "PWD"
"""Name of the present folder, once it was changed: as it was given, below the first one."""
EXPORTS_ALL = "set -a"
_BREAK, _KEEP = "\0 ", "\0-"
"""The end of a word, and a word that is one even if it is empty; no text has a NUL but ``HOME``."""
_MOST_WORDS = 10_000
_LONGEST_S, _CHUNK = 3, 1 << 16
"""Seconds of the processor after which a text is given up, which is no command of anybody."""
_PLAIN = re.compile(
    r"(?:[^ \t\r\n\\'\"$`~*?\[{<>()|&;^%:\x01-\x08\x0b\x0c\x0e-\x1f\x7f]++"
    r"|(?<=[^ \t\n=;&|<>(])~|\{\}|:(?!~)|%(?!\w+%)|\^(?![ \t]*(?:\n|\Z))"
    r"|\\(?:\n|[^A-Za-z0-9\n])|\$(?![A-Za-z_0-9{(\[@*#?$!'\"-]))++",
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
_NAMED = re.compile(
    r"\$\{?(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?P<all>\[@\])?(?:(?P<sign>:?[-=?+]).*)?\}?",
    re.DOTALL | re.ASCII,
)
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


class Environment(dict[str, Union[str, list[str], "Node", BadInputError]]):
    """Values that a shell has between its commands, by name.

    ``NAME`` is a variable's text, list, or why nobody knows it, ``NAME()`` a function,
    ``export NAME`` is there if the variable is exported, ``EXPORTS_ALL`` as well.
    """

    def known(self, name: str) -> "str | list[str] | Node | None":
        """A value; None if there is none.

        Raises:
            BadInputError: only a run would tell.
        """
        value = self.get(name)
        if isinstance(value, BadInputError):
            raise value
        return value

    def doubt(self, before: "Environment", refused: Callable[[str], BadInputError]) -> None:
        """Forget what has changed since ``before``, as it depends on the run."""
        for name in self.keys() | before.keys():
            if self.get(name) != before.get(name):
                self[name] = refused(name)


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
        # A joint with nothing behind it.
        self.text = re.sub(r"(?<!\\)\\\n\s*\Z", "\n", self.text)
        self._bytes = self.text.encode("utf-8", "surrogatepass")
        end_s = process_time() + _LONGEST_S
        try:
            self.root = (
                _parser()
                .parse(
                    lambda at, _point: self._bytes[at : at + _CHUNK],
                    progress_callback=lambda *_state: process_time() > end_s,
                )
                .root_node
            )
        except ValueError as error:
            _parser().reset()
            raise BadInputError(
                "the command is no shell's, or takes too long to read; give a plain one"
            ) from error
        if self.root.has_error:
            raise self._unread()

    def at(self, offset: int) -> int:
        """Index in the text of an offset in bytes."""
        is_plain = len(self._bytes) == len(self.text)
        return offset if is_plain else len(self.between(0, offset))

    def between(self, start: int, end: int) -> str:
        """The text between two offsets in bytes."""
        return self._bytes[start:end].decode("utf-8", "surrogatepass")

    def source(self, node: "Node") -> str:
        """The text of a node."""
        return self.between(node.start_byte, node.end_byte)

    def refusal(self, node: "Node", what: str) -> BadInputError:
        """The error that refuses a node, by its line."""
        return self._refusal(node.start_point.row + 1, what)

    def foreign(self, offset: int) -> BadInputError:
        """The error for what stands at an offset in bytes."""
        at = self.at(offset)
        return self._refusal(self.text.count("\n", 0, at) + 1, reason(self.text, at))

    def _refusal(self, line: int, what: str) -> BadInputError:
        place = f"{self.origin}, line {line}" if self.origin else f"line {line}"
        return BadInputError(f"{place}: {what if ';' in what else f'{what}; {INSTEAD}'}")

    def _unread(self) -> BadInputError:
        """The error for the first place that the grammar does not know."""
        node = self.root
        while node.type != "ERROR" and not node.is_missing:
            node = next(child for child in node.children if child.has_error or child.is_missing)
        node = node.parent if node.is_missing and node.parent is not None else node
        row = node.start_point.row
        for found in PLACEHOLDER.finditer(self.text):
            if self.text.count("\n", 0, found.start()) == row:
                return self._refusal(row + 1, reason(self.text, found.start()))
        quote = re.search(rb"['\"`]", self._bytes[node.start_byte : node.end_byte])
        return self.foreign(node.start_byte + (quote.start() if quote else 0))


class Expander:
    """Expands the words of a script as bash would, from what is known before it runs."""

    def __init__(self, script: Script, environment: Environment) -> None:
        """Start with the environment, which its owner may replace."""
        self.script = script
        self.environment = environment
        self.caller: list[str] | None = None
        """Words that a function is given; None outside of functions, where nobody knows them."""
        self.lacks_caller = False
        """Whether the words hold what a caller gives, which is nothing here."""
        self.bounded = Replacement()

    def words(self, nodes: Sequence["Node"]) -> list[str]:
        """The words of nodes; those that only a line's joint divides are one.

        Raises:
            BadInputError: a part of them depends on a run, or is not set.
        """
        pieces: list[str] = []
        end = nodes[0].start_byte if nodes else 0
        for node in nodes:
            gap = self.script.between(end, node.start_byte)
            if not _GAP.fullmatch(gap):
                raise self.script.foreign(end + len(gap) - len(gap.lstrip()))
            is_first = not pieces or bool(gap.replace("\\\n", ""))
            pieces += [_BREAK] if is_first else []
            pieces.append(self._text(node, is_first=is_first))
            end = node.end_byte
        words = [word.replace(_KEEP, "") for word in "".join(pieces).split(_BREAK) if word]
        if len(words) > _MOST_WORDS:
            what = "the command has too many words; give a shorter one"
            raise self.script.refusal(nodes[0], what)
        return words

    def text(self, node: "Node") -> str:
        """The text of a node where no words are split, as in an assignment."""
        return self._text(node, is_first=True, splits=False).replace(_KEEP, "")

    def _value(self, name: str, node: "Node") -> str | list[str] | None:
        """The value of a variable; None if it is not set."""
        self.check_name(name, node)
        value = self.environment.known(name)
        if name == FOLDER:
            return self._absolute("")
        if name == CALLER:
            self.lacks_caller |= self.caller is None
            return self.caller or []
        if isinstance(value, str | list):
            return value
        return HOME if name == "HOME" else None

    def check_name(self, name: str, node: "Node") -> None:
        """Make sure that a name is none that a shell itself sets.

        Raises:
            BadInputError: it is.
        """
        if _OWN.fullmatch(name):
            raise self.script.refusal(node, f"${name} is what only a running shell knows")

    def below(self, path: str) -> str:
        """A path as the present folder makes it, below the first one; empty for that itself.

        Raises:
            BadInputError: only a run would tell the folder.
        """
        folder = str(self.environment.known(FOLDER) or "")
        joined = path if path.startswith(HOME) else os.path.join(folder, path)  # noqa: PTH118 - as a shell does
        plain = os.path.normpath(joined)
        return "" if plain == "." else plain

    def _text(self, node: "Node", *, is_first: bool, splits: bool = True) -> str:
        """The text of a word or of a part, with the marks of the words that it is split into."""
        match node.type:
            case "concatenation":
                return self._joined(node, is_first=is_first, splits=splits)
            case "raw_string":
                return f"{_KEEP}{self.script.source(node)[1:-1]}"
            case "string":
                return self._quoted(node, splits=splits)
            case "simple_expansion" | "expansion" | "command_substitution":
                value = self._expanded(node, is_list=splits)
                words = value if isinstance(value, list) else [value]
                return _BREAK.join(self._split(w, node) for w in words) if splits else words[0]
            case kind if kind in _PLAIN_WORDS:
                return self._plain(node.start_byte, node.end_byte, is_first=is_first)
        raise self.script.foreign(node.start_byte)

    def _joined(self, node: "Node", *, is_first: bool, splits: bool) -> str:
        """The text of parts, of which those without quotes are read together."""
        pieces, start = [], node.start_byte
        for part in (*node.children, None):
            if part is not None and part.type in _PLAIN_WORDS:
                continue
            end = node.end_byte if part is None else part.start_byte
            begins = is_first and start == node.start_byte
            pieces += [self._plain(start, end, is_first=begins)] if start < end else []
            if part is not None:
                pieces.append(self._text(part, is_first=False, splits=splits))
                start = part.end_byte
        return "".join(pieces)

    def _plain(self, start_byte: int, end_byte: int, *, is_first: bool) -> str:
        """A text without quotes, which may begin with the home folder."""
        text, at, end = self.script.text, self.script.at(start_byte), self.script.at(end_byte)
        home = ""
        if is_first and _HOME.match(text, at):
            home, at = str(self.environment.known("HOME") or HOME), at + 1
        plain = _PLAIN.match(text, at, end)
        stop = at if plain is None else plain.end()
        if stop != end:
            raise self.script.foreign(
                start_byte + len(text[self.script.at(start_byte) : stop].encode())
            )
        return home + _ESCAPED.sub(lambda m: m[1] or "", text[at:end])

    def _quoted(self, node: "Node", *, splits: bool) -> str:
        """A text in double quotes: what stands between its expansions is taken as it is."""
        parts = [child for child in node.children if child.type in _EXPANDED]
        is_whole = bool(parts) and self.script.source(node) == f'"{self.script.source(parts[0])}"'
        if is_whole and splits:
            value = self._expanded(parts[0], is_list=True)
            return _BREAK.join(
                f"{_KEEP}{w}" for w in (value if isinstance(value, list) else [value])
            )
        return _KEEP + self._spliced(
            (node.start_byte + 1, node.end_byte - 1),
            parts,
            lambda text: _ESCAPED_IN_QUOTES.sub(lambda m: m[1] or "", text),
        )

    def _spliced(
        self, span: tuple[int, int], parts: Sequence["Node"], literal: Callable[[str], str]
    ) -> str:
        """The text between two offsets, with its expansions in place."""
        pieces, (start, end) = [], span
        for part in parts:
            pieces += [literal(self.script.between(start, part.start_byte))]
            pieces += self._expanded(part)
            start = part.end_byte
        return "".join([*pieces, literal(self.script.between(start, end))])

    def _split(self, value: str, node: "Node") -> str:
        """The value of a variable without quotes."""
        if re.search(r"[*?\[]", value):
            raise self.script.refusal(
                node,
                f"a pattern of file names stands in a variable ({shown(value)}); put the "
                "variable in quotes",
            )
        return _BLANKS.sub(_BREAK, value)

    def _expanded(self, node: "Node", *, is_list: bool = False) -> str | list[str]:
        """Value of ``$NAME``, ``${NAME}`` with a default, a list, or a known command."""
        source = self.script.source(node)
        if source in _SCRIPTS and self.script.origin:
            return self.script.origin
        if node.type == "command_substitution":
            return self._output(node)
        found = _NAMED.fullmatch(source)
        if found is None:
            raise self.script.foreign(node.start_byte)
        name = found["name"]
        value = self._value(name, node)
        if found["sign"]:
            value = self._with_default(value, found, node)
        if value is None and name.isdecimal():
            raise self.script.foreign(node.start_byte)
        if value is None:
            raise self.script.refusal(
                node,
                f"${name} is not set in it, and spectui takes nothing from its own environment; "
                "write its value there, or give pid:NUMBER of the running server",
            )
        as_list = bool(found["all"]) or name == CALLER
        if isinstance(value, list) and not as_list:
            raise self.script.refusal(node, f'${name} is a list; write "${{{name}[@]}}"')
        if isinstance(value, list) != (as_list and is_list):
            raise self.script.refusal(node, f"{source} is no list of words here")
        self.bounded.of("".join(value))
        return value

    def _with_default(
        self, value: str | list[str] | None, found: re.Match[str], node: "Node"
    ) -> str | list[str] | None:
        """The value, or what stands behind ``-``, ``=``, ``?`` or ``+`` in its place."""
        sign = found["sign"]
        is_set = bool(value) if sign.startswith(":") else value is not None
        if sign.endswith("?"):
            return value if is_set else None
        if is_set != sign.endswith("+"):
            return value if is_set else ""

        def literal(text: str) -> str:
            if not _DEFAULT.fullmatch(text):
                raise self.script.foreign(node.start_byte)
            return text

        inner = [part for child in node.children for part in _expansions(child)]
        text = self._spliced(
            (node.start_byte + found.end("sign"), node.end_byte - 1), inner, literal
        )
        if sign.endswith("="):
            self.environment[found["name"]] = text
        return text

    def _output(self, node: "Node") -> str:
        """Output of a command within a command: a folder, or a program's path."""
        known = None
        with suppress(BadInputError):
            match [
                one
                for part in node.named_children
                for one in (part.children if part.type == "list" else [part])
            ]:
                case [one] if one.type == "command":
                    known = self._printed(self.words(words_of(one.children)))
                case [first, sign, last] if sign.type == "&&":
                    words = [self.words(words_of(one.children)) for one in (first, last)]
                    if words[0][:1] == ["cd"] and words[1][:1] == ["pwd"]:
                        known = self._absolute(words[0][1])
        if known is None:
            raise self.script.foreign(node.start_byte)
        return known

    def _printed(self, words: Sequence[str]) -> str | None:
        match [word for word in words if word != "--"]:
            case ["pwd"] | ["pwd", "-P" | "-L"]:
                return self._absolute("")
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
