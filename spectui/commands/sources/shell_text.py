"""Splits the text of a shell into simple commands, with variables expanded as bash expands them.

Known are quotes, backslashes, comments, assignments, ``$NAME``, ``${NAME}``, ``${NAME:-default}``,
``$(pwd)``, lists (``NAME=(...)``, ``"${NAME[@]}"``), redirections, ``;``, ``&&`` and ``&``.
Everything else is refused with its line. Only the text itself sets variables: no environment is
asked, and the home folder stays ``HOME``. Otherwise than in bash, blanks and a remark may follow
the backslash at a line's end, as annotated commands have it; the command keeps the lines.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectui.commands.home import HOME
from spectui.commands.programs import names_server
from spectui.commands.sources.files import Replacement
from spectui.commands.sources.refusals import INSTEAD, PLACEHOLDER, reason, shown
from spectui.errors import BadInputError
from spectui.options.placement import OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT

Value = str | list[str]
"""Value of a variable: text, or the words of a list."""

_MOST_WORDS = 10_000
_NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
_NESTED = rf"\$(?:{_NAME}|\{{{_NAME}\}})"
_DEFAULT = rf"(?:[^{{}}$'\"\\`~*?\[\n]|{_NESTED})*+"
_FOLDERS = ("$(pwd)", "`pwd`")
"""Commands within a command whose output is that of ``$PWD``."""
_FOLDER = "|".join(map(re.escape, _FOLDERS))
_VARIABLE = rf"(?:\$(?!env:)(?:{_NAME}|\{{{_NAME}(?::?-{_DEFAULT})?\}})|{_FOLDER})"
_OPEN_DOUBLE = rf'"(?:[^"\\$`]|\\.|{_VARIABLE}|\$(?![A-Za-z_0-9{{(\[@*#?$!-]))*+'
_WORD_ENDS = frozenset(" \t\r\n;&|<>")
_TOKEN = re.compile(
    r"(?P<text>(?:[^ \t\r\n\\'\"$`~*?\[{<>()|&;^%:\x01-\x08\x0b\x0c\x0e-\x1f\x7f]++|\r(?!\n)"
    r"|(?<=[^ \t\n=;&|<>(])~|\{\}|:(?!~)|%(?!\w+%)|\^(?![ \t]*(?:\n|\Z)))++)"
    r"|\\(?:\r?\n|(?P<escaped>[^A-Za-z0-9\n]))|'(?P<single>[^']*)'"
    rf"|(?P<quote>\"?)\$\{{(?P<list>{_NAME})\[@\]\}}(?P=quote)|(?P<double>{_OPEN_DOUBLE}\")"
    rf"|(?P<variable>{_VARIABLE})",
    re.DOTALL,
)
"""A part of a word; without a match the word ends, or the text is refused."""
_OPEN_QUOTE = re.compile(_OPEN_DOUBLE, re.DOTALL)
_IN_QUOTES = re.compile(rf'\\(?:\n|(?P<escaped>["\\$`]))|(?P<variable>{_VARIABLE})')
_HOME = re.compile(rf"({_NAME}=)?~(?=[/ \t\n;&|<>)]|\Z)")
_SKIPPED = r"(?:[ \t]+|\r(?=\n)|#[^\n]*|\\(?:[ \t]+(?:#[^\n]*)?(?=\r?\n[ \t]*-))?\r?\n"
_WITHIN_LINE = re.compile(rf"{_SKIPPED})*+")
"""Blanks, comments, and line ends behind a backslash."""
_BETWEEN_LINES = re.compile(rf"{_SKIPPED}|\n)*+")
_TORN = re.compile(r"\\[ \t]+(?P<remark>#?)[^\n]*\n")
"""A backslash that joins no lines, since it does not end its own."""
_BLANKS = re.compile(r"[ \t\n]+")
_ASSIGNED = re.compile(rf"({_NAME})(\+?)=(\(?)")
_REDIRECTION = re.compile(r"(?:\d*(?:>>|>\||[<>]&|<>|[<>])|&>>?)(?![<(])[ \t]*")
_END = re.compile(
    r"\n|&&|;(?![;&])|&(?!>)|\|&?(?=[ \t\n]*(?:tee|cat|grep|tail|less|more|ts)(?:[ \t\n;&|]|\Z))"
)
_BARE_PATTERN = re.compile(r"[^\s'\"$`;&<>|=]*[|()*?\[][^\s'\"$`;&<>]*=[^\s'\"$`;&<>|]+(?=\s|\Z)")
_TAKE_PATTERNS = frozenset(
    flag for option in (OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT) for flag in option.flags
)
_OWN = re.compile(
    r"_|IFS|S?RANDOM|SECONDS|LINENO|BASH\w*|E?UID|PPID|SHLVL|EPOCH(REALTIME|SECONDS)|OPT(ARG|ERR|IND)"
    r"|OLDPWD|FUNCNAME|GROUPS"
)
"""Variables that a shell sets itself, or that change its parsing."""
_DECLARING = frozenset({"export", "readonly", "declare", "typeset"})
"""Commands whose arguments are assignments, where variables are not split at blanks."""
_PROMPT = re.compile(
    r"(?:\([^()\n]*\)[ \t]*)?(?:[$%>»\u276f\u279c]|\[?[\w.-]+@[\w.-]+[^\n$#%>]*[$#%>]"
    r"|(?:PS )?[A-Za-z]:\\[^\n>]*>)(?=[ \t]+[^ \t\n])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``NAME=VALUE`` before a command, or alone."""

    name: str
    value: Value
    adds: bool
    """Whether it is ``NAME+=VALUE``."""


@dataclass(slots=True, kw_only=True)
class ShellCommand:
    """A simple command."""

    place: str = ""
    """Position of its start, for messages."""
    assignments: list[Assignment] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    bare_patterns: list[str] = field(default_factory=list)
    """Values of ``-ot`` with backslashes and without the quotes that would keep them."""
    torn: list[tuple[int, bool]] = field(default_factory=list)
    """Lines where a blank stands behind the backslash, and whether a remark does, too."""
    beside: list[str] = field(default_factory=list)
    """Its redirections, and the rest of what is the shell's alone, as they stand in the text."""
    joint: str = ""
    """Its terminator: ``&&``, ``&``, ``;``, a pipe into what only reads, or the end of its line;
    empty at the end of the text."""


class _Fields:
    """Builds the words that one word of the text expands to."""

    def __init__(self, *, splits: bool) -> None:
        """Start without words; ``splits``: unquoted variables are split at blanks."""
        self.words: list[str] = []
        self.splits = splits
        self._pieces: list[str] = []
        self._is_open = False

    def add(self, text: str) -> None:
        """Append to the last word."""
        self._pieces.append(text)
        self._is_open = True

    def end(self) -> None:
        """Finish the last word, if there is one."""
        if self._is_open:
            self.words.append("".join(self._pieces))
        self._pieces, self._is_open = [], False

    def insert(self, value: str) -> None:
        """Append the value of an unquoted variable."""
        for n, part in enumerate(_BLANKS.split(value) if self.splits else [value]):
            if n:
                self.end()
            if part:
                self.add(part)


class ShellText:
    """A shell text, read command by command."""

    def __init__(self, text: str, values: Mapping[str, Value], origin: str) -> None:
        """Start at the beginning of the text.

        Args:
            text: text of a script, or a typed command.
            values: variables, which may change between commands.
            origin: the file that it stands in, for messages; empty for what is typed.
        """
        self._text = text.removeprefix("\N{BYTE ORDER MARK}")
        self._at = 0
        self._values = values
        self._origin = origin
        self._expansion = Replacement()
        self._command = ShellCommand()

    def commands(self) -> Iterator[ShellCommand]:
        """Yield every command that is not empty.

        Raises:
            BadInputError: quotes are not balanced, a variable is not set, or it holds what this
                reader does not know.
        """
        self._skip(lines=True)
        # A list of arguments, whose lines are no commands.
        is_list = self._text.startswith("-", self._at)
        is_new_line, is_first = True, True
        while self._at < len(self._text):
            is_new_line = "\n" in self._skip(lines=True) or is_new_line
            if is_new_line:
                self._check_line(is_first=is_first)
            start = self._at
            self._command = ShellCommand()
            self._read_command(is_list=is_list)
            is_new_line = self._command.joint == "\n"
            if self._command.words or self._command.assignments:
                is_first = False
                self._command.place = self._place(start)
                yield self._command

    def _read_command(self, *, is_list: bool) -> None:
        command = self._command
        while self._at < len(self._text):
            self._join_lines(lines=is_list)
            end = _END.match(self._text, self._at)
            redirection = _REDIRECTION.match(self._text, self._at)
            assigned = None if command.words else _ASSIGNED.match(self._text, self._at)
            if end is not None:
                self._check_end(end)
                command.joint = end[0]
                self._at = end.end()
                return
            if redirection is not None:
                if PLACEHOLDER.match(self._text, self._at):
                    raise self._foreign()
                self._at = redirection.end()
                if not self._word():
                    raise self._foreign()
                command.beside.append(self._text[redirection.start() : self._at])
            elif assigned is not None:
                self._assign(assigned)
            elif self._at < len(self._text):
                command.words += self._word()
                if len(command.words) > _MOST_WORDS:
                    raise self._refusal("the command has too many words; give a shorter one")

    def _skip(self, *, lines: bool) -> str:
        """Skip blanks and comments, and line ends if ``lines``; return the skipped text."""
        start = self._at
        found = (_BETWEEN_LINES if lines else _WITHIN_LINE).match(self._text, start)
        self._at = start if found is None else found.end()
        return self._text[start : self._at]

    def _join_lines(self, *, lines: bool) -> None:
        """Skip as ``_skip`` does, and keep the joints that are none for a shell."""
        start = self._at
        for found in _TORN.finditer(self._skip(lines=lines)):
            self._command.torn.append((self._line(start + found.start()), bool(found["remark"])))

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _place(self, at: int) -> str:
        line = f"line {self._line(at)}"
        return f"{self._origin}, {line}" if self._origin else line

    def _refusal(self, what: str) -> BadInputError:
        told = what if ";" in what else f"{what}; {INSTEAD}"
        return BadInputError(f"{self._place(self._at)}: {told}")

    def _foreign(self) -> BadInputError:
        """The error for the unsupported construct at this position."""
        open_quote = _OPEN_QUOTE.match(self._text, self._at)
        if open_quote is not None and open_quote.end() < len(self._text):
            self._at = open_quote.end()
        return self._refusal(reason(self._text, self._at))

    def _check_line(self, *, is_first: bool) -> None:
        """Skip a prompt that a line begins with, and refuse an option of the line before.

        Raises:
            BadInputError: it does.
        """
        prompt = _PROMPT.match(self._text, self._at)
        if prompt is not None:
            # It is no word of any command.
            self._at = prompt.end()
            self._skip(lines=False)
        if is_first or not self._text.startswith("-", self._at):
            return
        before = self._text.rfind("\n", 0, max(0, self._text.rfind("\n", 0, self._at)))
        if self._text[before + 1 : self._at].lstrip().startswith("#"):
            raise self._refusal(
                "it begins with an option, but the line before is a remark, which ends the command "
                "for a shell whatever it ends with; take the remark out"
            )
        raise self._refusal(
            "it begins with an option, but no backslash ends the line before, so that the "
            "command ends there for a shell; put a backslash there, and no remarks between"
        )

    def _check_end(self, end: re.Match[str]) -> None:
        """Refuse ``;`` or ``&`` in the middle of a word, where quotes were forgotten.

        Raises:
            BadInputError: it is.
        """
        around = self._text[end.start() - 1 : end.start()] + self._text[end.end() : end.end() + 1]
        if end[0] in {";", "&"} and len(around.strip()) > 1 and names_server(self._command.words):
            raise self._refusal(
                f"{end[0]!r} in the midst of a word ends the command for a shell; put the word in "
                "quotes, or blanks around the sign"
            )

    def _assign(self, found: re.Match[str]) -> None:
        """Take an assignment before the first word."""
        name = found[1]
        self._check_name(name)
        at = found.end()
        value = self._list(at) if found[3] else "".join(self._word(at))
        self._command.assignments.append(Assignment(name=name, value=value, adds=bool(found[2])))

    def _list(self, at: int) -> list[str]:
        """Words up to the closing parenthesis."""
        start, self._at = self._at, at
        words: list[str] = []
        self._skip(lines=True)
        while not self._text.startswith(")", self._at):
            if self._at == len(self._text):
                self._at = start
                raise self._refusal("the list has no end; check its parentheses")
            words += self._word(in_list=True)
            self._skip(lines=True)
        self._at += 1
        return words

    def _word(self, value_at: int | None = None, *, in_list: bool = False) -> list[str]:
        """Expand the next word: to none or several words if it holds variables.

        Args:
            value_at: start of an assignment's value; None for any other word.
            in_list: whether a parenthesis ends it.
        """
        start = self._at if value_at is None else value_at
        self._at = start
        named = _ASSIGNED.match(self._text, start)
        is_declared = named is not None and not _DECLARING.isdisjoint(self._command.words[:1])
        fields = _Fields(splits=value_at is None and not is_declared)
        bare = self._bare_pattern(start)
        if bare is not None:
            fields.add(bare[0])
            self._at = bare.end()
            if "\\" in bare[0]:
                self._command.bare_patterns.append(bare[0])
        home = _HOME.match(self._text, start)
        if home is not None:
            fields.add(f"{home[1] or ''}{self._variable('$HOME')}")
            self._at = home.end()
        while token := _TOKEN.match(self._text, self._at):
            self._take(token, fields)
            self._at = token.end()
        rest = self._text[self._at : self._at + 1]
        is_end = not rest or rest in _WORD_ENDS or (in_list and rest == ")")
        if not is_end or self._at == start != value_at:
            raise self._foreign()
        fields.end()
        return fields.words

    def _bare_pattern(self, start: int) -> re.Match[str] | None:
        """A tensor pattern without its quotes, which were lost to a pair around the whole command.

        Of a file every sign is the shell's.
        """
        is_value = bool(self._command.words) and self._command.words[-1] in _TAKE_PATTERNS
        return _BARE_PATTERN.match(self._text, start) if is_value and not self._origin else None

    def _take(self, token: re.Match[str], fields: _Fields) -> None:
        """Append a part of a word."""
        match token.lastgroup:
            case "list":
                self._take_list(token, fields)
            case "double":
                expanded = _IN_QUOTES.sub(
                    lambda m: self._variable(m[0]) if m["variable"] else m["escaped"] or "",
                    token[0][1:-1],
                )
                fields.add(expanded)
            case "variable":
                value = self._variable(token[0])
                self._check_pattern(value, fields)
                fields.insert(value)
            case str(kind):
                fields.add(token[kind])

    def _take_list(self, token: re.Match[str], fields: _Fields) -> None:
        words = self._value(token["list"])
        if not isinstance(words, list) or not fields.splits:
            raise self._refusal(f"{token[0]} is no list of words here")
        for n, word in enumerate(words):
            if n:
                fields.end()
            self._expansion.of(word)
            if token["quote"]:
                fields.add(word)
            else:
                self._check_pattern(word, fields)
                fields.insert(word)

    def _check_pattern(self, value: str, fields: _Fields) -> None:
        if fields.splits and re.search(r"[*?\[]", value):
            raise self._refusal(
                f"a pattern of file names stands in a variable ({shown(value)}); put the variable "
                "in quotes"
            )

    def _variable(self, text: str) -> str:
        """Expand ``$NAME``, ``${NAME}`` or ``${NAME:-default}``."""
        text = "$PWD" if text in _FOLDERS else text
        body = text[2:-1] if text.startswith("${") else text[1:]
        name, *alternative = re.split("(:?-)", body, maxsplit=1)
        value = self._value(name)
        if alternative and (value is None or (alternative[0] == ":-" and not value)):
            return re.sub(_NESTED, lambda m: self._variable(m[0]), alternative[1])
        return self._expansion.of(self._set_text(name))

    def _set_text(self, name: str) -> str:
        """The text of a variable that must be set."""
        value = self._value(name)
        if value is None:
            raise self._refusal(
                f"${name} is not set in it, and spectui takes nothing from its own environment; "
                "write its value there, or give pid:NUMBER of the running server"
            )
        if isinstance(value, list):
            raise self._refusal(f'${name} is a list; write "${{{name}[@]}}"')
        return value

    def _value(self, name: str) -> Value | None:
        self._check_name(name)
        command = self._command
        if not command.words and any(name == one.name for one in command.assignments):
            raise self._refusal(f"${name} is set in the same line; set it in a line before")
        if name == "PWD" and name not in self._values:
            return str(Path.cwd())
        return self._values.get(name, HOME if name == "HOME" else None)

    def _check_name(self, name: str) -> None:
        if _OWN.fullmatch(name):
            raise self._refusal(f"${name} is what only a running shell knows")
