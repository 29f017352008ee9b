"""Splits the text of a shell into simple commands, with variables expanded as bash expands them.

Known are quotes, backslashes, comments, assignments, ``$NAME``, ``${NAME}``, ``${NAME:-default}``,
lists (``NAME=(...)``, ``"${NAME[@]}"``), redirections, ``;``, ``&&`` and ``&``. Everything else is
refused with its line. Otherwise than in bash, a remark may follow the backslash at a line's end, as
annotated commands have it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectui.errors import BadInputError
from spectui.export.sources.files import Replacement
from spectui.export.sources.source import names_server

Value = str | list[str]
"""Of a variable: text, or the words of a list."""

INSTEAD = (
    "spectui does not interpret that; give the plain command, or pid:NUMBER of the running server"
)
"""What a refusal advises."""
_NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
_ORDINARY = re.compile(r"[^ \t\n\\'\"$`~*?\[{<>()|&;^%:]+")
_ORDINARY_IN_QUOTES = re.compile(r'[^"\\$`]+')
_SKIPPED = re.compile(r"[ \t]+|\\(?:[ \t]+(?:#[^\n]*)?(?=\n[ \t]*-))?\n")
"""Blanks, and ends of lines behind a backslash."""
_BLANKS = re.compile(r"[ \t\n]+")
_ASSIGNED = re.compile(rf"({_NAME})(\+?)=(\(?)")
_NAMED = re.compile(rf"{_NAME}=")
_NESTED = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})\}})")
_VARIABLE = re.compile(
    rf"\$(?!env:)(?:(?P<short>{_NAME})|\{{(?P<long>{_NAME})(?:(?P<operator>:?-)"
    rf"(?P<default>(?:[^{{}}$'\"\\`~*?\[\n]|{_NESTED.pattern})*+))?\}})"
)
_LIST = re.compile(rf'("?)\$\{{({_NAME})\[@\]\}}\1')
_DYNAMIC = re.compile(
    r"_|IFS|S?RANDOM|SECONDS|LINENO|BASH\w*|E?UID|PPID|SHLVL|EPOCH(REALTIME|SECONDS)|OPT(ARG|ERR|IND)"
    r"|OLDPWD|FUNCNAME|GROUPS"
)
"""Variables that a shell sets itself, or that change how it reads."""
_PATTERN = frozenset("*?[")
_QUOTING = frozenset("\\'\"$")
_BREAKS = frozenset(" \t\n;&|<>")
_END = re.compile(r"\n|;;?&?|&&|&(?!>)|\|[|&]?")
_REDIRECTION = re.compile(r"\d*(?:>>|>\||[<>]&|<>|[<>])|&>>?")
_HOME = re.compile(r"~(?=[/ \t\n;&|<>)]|\Z)")
_CONSTRUCT = re.compile(
    r"(?P<command>\$\((?!\()[^()\n]*\)?|`[^`\n]*`?)|(?P<arithmetic>\$?\(\([^()\n]*(?:\)\))?|\$\[)"
    r"|(?P<document>\d*<<<?-?[^ \t\n;&|<>]*)|(?P<process>[<>]\([^()\n]*\)?)"
    r"|(?P<caller>\$[0-9@*#]|\$\{[0-9@*#][^}\n]*\}?)|(?P<state>\$[?!$-])"
    r"|(?P<expansion>\$\{[^}\n]*\}?)|(?P<escapes>\$['\"])|(?P<function>\(\))"
    r"|(?P<test>\[\[?(?=[ \t\n]))|(?P<parenthesis>[()])|(?P<pattern>[*?\[][^ \t\n;&|<>]*)"
    r"|(?P<braces>\{[^ \t\n;&|<>]*)"
    r"|(?P<home>:?~[^ \t\n/;&|<>]*)"
)
_MEANING = {
    "command": "a command within the command",
    "arithmetic": "arithmetic",
    "document": "a here-document",
    "process": "a command in place of a file",
    "caller": "what the caller of the script gives it",
    "state": "what only a running shell knows",
    "expansion": "another expansion than ${NAME} or ${NAME:-default}",
    "escapes": "a quote with escapes",
    "function": "the definition of a function",
    "parenthesis": "a subshell or a pattern",
    "test": "a condition",
    "pattern": "a pattern of file names (if not, put it in quotes)",
    "braces": "several words in braces (if not, put it in quotes)",
    "home": "somebody's home folder",
}
_PLACEHOLDER = re.compile(r"<(?:[A-Za-z][^<>\n;&|]*[^\s<>0-9&;|]|[A-Za-z][\w.-]*)>")
_WINDOWS = re.compile(r"[\^`][ \t]*(?=\n|\Z)|%\w+%|\$env:|\\[A-Za-z0-9][^ \t\n]*", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:\([^()\n]*\)[ \t]*)?(?:[$%>»\u276f]|\[?[\w.-]+@[\w.-]+[^\n$#%>]*[$#%>]"
    r"|(?:PS )?[A-Za-z]:\\[^\n>]*>)(?=[ \t]+[^ \t\n])"
)
_DECLARING = frozenset({"export", "readonly", "declare", "typeset"})
"""Commands whose arguments are assignments, in which blanks of variables make no words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``NAME=VALUE`` before a command, or alone."""

    name: str
    value: Value
    adds: bool
    """Whether it is ``NAME+=VALUE``."""


@dataclass(slots=True, kw_only=True)
class ShellCommand:
    """A simple command, less its redirections."""

    place: str
    """Where it begins, for messages."""
    assignments: list[Assignment] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    joint: str = ""
    """What ends it: ``&&``, ``&``, ``;`` or the end of its line; nothing at the end of the text."""


class _Fields:
    """The words that one word of the text becomes."""

    def __init__(self, *, splits: bool) -> None:
        """Begin with none; ``splits`` if blanks of variables that are not quoted divide words."""
        self.words: list[str] = []
        self.splits = splits
        self._pieces: list[str] | None = None

    def add(self, text: str) -> None:
        """Go on with the last word."""
        if self._pieces is None:
            self._pieces = []
        self._pieces.append(text)

    def end(self) -> None:
        """Keep the last word, if there is one."""
        if self._pieces is not None:
            self.words.append("".join(self._pieces))
        self._pieces = None

    def insert(self, value: str) -> None:
        """Go on with what a variable stands for that is not quoted."""
        parts = _BLANKS.split(value) if self.splits else [value]
        for n, part in enumerate(parts):
            if n:
                self.end()
            if part:
                self.add(part)


class ShellText:
    """Reads one command after the other."""

    def __init__(self, text: str, values: Mapping[str, Value], origin: str) -> None:
        """Begin at the start.

        Args:
            text: of a script, or what is typed.
            values: variables, which may change between commands; the environment is asked for
                others.
            origin: the file that it stands in, for messages; empty for what is typed.
        """
        self._text = text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n")
        self._at = 0
        self._values = values
        self._origin = origin
        self._expansion = Replacement()
        self._command = ShellCommand(place="")
        self._is_list = False
        """It begins with an option: a list of arguments, whose lines are no commands."""
        self._is_in_list = False
        """Between the parentheses of ``NAME=(...)``."""
        self._line = (0, 1)
        """A place, and the number of its line."""

    def commands(self) -> Iterator[ShellCommand]:
        """Yield every command that is not empty.

        Raises:
            BadInputError: quotes are not balanced, a variable is not set, or it holds what this
                reader does not know.
        """
        self._skip()
        while self._text.startswith("\n", self._at):
            self._at += 1
            self._skip()
        self._is_list = self._text.startswith("-", self._at)
        joint, is_first = "\n", True
        while self._at < len(self._text):
            self._skip()
            if joint == "\n":
                self._check_line(is_first=is_first)
            self._command = ShellCommand(place=self._place())
            self._read_command()
            joint = self._command.joint
            if self._command.words or self._command.assignments:
                is_first = False
                yield self._command

    def _read_command(self) -> None:
        command = self._command
        while not command.joint:
            self._skip()
            end = _END.match(self._text, self._at)
            if end is not None:
                self._check_end(end)
                command.joint = end[0]
                self._at = end.end()
            elif self._at == len(self._text):
                return
            elif not (self._redirection() or self._assignment()):
                command.words += self._word()

    def _refusal(self, what: str, instead: str = INSTEAD) -> BadInputError:
        return BadInputError(f"{self._place()}: {what}; {instead}")

    def _place(self) -> str:
        before, line = self._line
        line += self._text.count("\n", before, self._at)
        self._line = (self._at, line)
        return f"{self._origin}, line {line}" if self._origin else f"line {line}"

    def _check_line(self, *, is_first: bool) -> None:
        """Refuse a line that begins with a prompt, or with an option of the line before.

        Raises:
            BadInputError: it does.
        """
        prompt = _PROMPT.match(self._text, self._at)
        if prompt is not None:
            raise self._refusal(f"{prompt[0]!r} is a shell's prompt", "leave it out")
        if not is_first and self._text.startswith("-", self._at):
            raise self._refusal(
                "it begins with an option, but no backslash ends the line before, so that the "
                "command ends there for a shell",
                "end the line before in a backslash, and take out remarks between the lines",
            )

    def _check_end(self, end: re.Match[str]) -> None:
        """Refuse operators other than those that end a command.

        Raises:
            BadInputError: it is one.
        """
        around = self._text[end.start() - 1 : end.start()] + self._text[end.end() : end.end() + 1]
        is_within = len(around.strip()) > 1 and names_server(self._command.words)
        if end[0] in {";", "&"} and is_within:
            raise self._refusal(
                f"{end[0]!r} in the midst of a word ends the command for a shell",
                "put the word in quotes, or blanks around the sign",
            )
        if end[0].startswith("|"):
            what = "a condition" if end[0] == "||" else "a pipe into another command"
            raise self._refusal(f"{end[0]!r} is {what} (if not, put it in quotes)")
        if end[0] not in {";", "&", "&&", "\n"}:
            raise self._refusal(f"{end[0]!r} is a part of 'case'")

    def _check_construct(self, *, but: str = "") -> None:
        """Refuse what begins here if it is not of the known subset.

        Raises:
            BadInputError: it is not.
        """
        windows = _WINDOWS.match(self._text, self._at)
        if windows is not None:
            raise self._refusal(
                f"{windows[0].strip()!r} belongs to a shell of Windows",
                "write it for a POSIX shell: backslashes at the ends of lines, quotes around paths",
            )
        found = _CONSTRUCT.match(self._text, self._at)
        if found is not None and found.lastgroup != but:
            raise self._refusal(f"{found[0]!r} is {_MEANING[found.lastgroup or but]}")

    def _skip(self) -> None:
        """Go over blanks, remarks, and ends of lines that a backslash hides."""
        while self._at < len(self._text):
            found = _SKIPPED.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._is_list and self._text[self._at] == "\n":
                self._at += 1
            else:
                return

    def _redirection(self) -> bool:
        """Leave out a redirection with its file; whether there is one.

        Raises:
            BadInputError: it is a placeholder, or reads a text or a command.
        """
        found = _REDIRECTION.match(self._text, self._at)
        if found is None:
            return False
        placeholder = _PLACEHOLDER.match(self._text, self._at)
        if placeholder is not None:
            raise self._refusal(
                f"{placeholder[0]} is a placeholder", "put there what it stands for"
            )
        self._check_construct()
        self._at = found.end()
        self._skip()
        if not self._word():
            self._check_construct()
            raise self._refusal(f"no file follows {found[0]!r}", "put it in quotes if it is text")
        return True

    def _assignment(self) -> bool:
        """Take an assignment that stands before any word; whether there is one."""
        found = None if self._command.words else _ASSIGNED.match(self._text, self._at)
        if found is None:
            return False
        name = found[1]
        self._check_name(name)
        value: Value
        if found[3]:
            self._at = found.end()
            value = self._list(name)
        else:
            value = "".join(self._word(at=found.end()))
        self._command.assignments.append(Assignment(name=name, value=value, adds=bool(found[2])))
        return True

    def _list(self, name: str) -> list[str]:
        """Words up to the closing parenthesis."""
        start, words = self._at, list[str]()
        self._is_in_list = True
        self._skip()
        while not self._text.startswith(")", self._at):
            if self._at == len(self._text):
                self._at = start
                raise self._refusal(f"the list {name}=( has no end", "check its parentheses")
            char = self._text[self._at]
            if char in ";&|<>":
                raise self._refusal(f"{char!r} stands in a list", "put it in quotes")
            if char == "\n":
                self._at += 1
            else:
                words += self._word()
            self._skip()
        self._at += 1
        self._is_in_list = False
        return words

    def _word(self, at: int | None = None) -> list[str]:
        """Words that the next word stands for: none or several if variables are in it.

        Args:
            at: where the value of an assignment begins; None for any other word.
        """
        start = self._at
        named = _NAMED.match(self._text, start)
        is_declared = named is not None and not _DECLARING.isdisjoint(self._command.words[:1])
        fields = _Fields(splits=at is None and not is_declared)
        self._at = start if at is None else at
        homes = {self._at, self._at if named is None else named.end()}
        while self._at < len(self._text):
            char = self._text[self._at]
            ordinary = _ORDINARY.match(self._text, self._at)
            if ordinary is not None:
                fields.add(ordinary[0])
                self._at = ordinary.end()
            elif char in _BREAKS or (char == ")" and self._is_in_list):
                break
            elif char in _QUOTING:
                self._quoted(char, fields)
            elif char == "~" and self._at in homes and _HOME.match(self._text, self._at):
                fields.add(self._expansion.of(self._home()))
                self._at += 1
            else:
                is_text = {"~": self._at not in homes, ":": named is None}.get(char, False)
                if not is_text and not self._text.startswith("{}", self._at):
                    self._check_construct()
                fields.add(char)
                self._at += 1
        fields.end()
        return fields.words

    def _quoted(self, char: str, fields: _Fields) -> None:
        """Take what a quote, a backslash or a dollar sign begins."""
        spread = _LIST.match(self._text, self._at)
        if spread is not None:
            self._spread(spread, fields)
        elif char == "$":
            self._expand(fields, is_quoted=False)
        elif char == "'":
            end = self._text.find("'", self._at + 1)
            if end < 0:
                raise self._refusal("a quote has no end", "check the quotes")
            fields.add(self._text[self._at + 1 : end])
            self._at = end + 1
        elif char == '"':
            self._double(fields)
        elif self._text.startswith("\\\n", self._at):
            self._at += 2
        else:
            self._check_construct()
            if self._at + 1 == len(self._text):
                raise self._refusal("nothing follows the last backslash", "take it out")
            fields.add(self._text[self._at + 1])
            self._at += 2

    def _double(self, fields: _Fields) -> None:
        start = self._at
        self._at += 1
        fields.add("")
        while not self._text.startswith('"', self._at):
            ordinary = _ORDINARY_IN_QUOTES.match(self._text, self._at)
            if ordinary is not None:
                fields.add(ordinary[0])
                self._at = ordinary.end()
            elif self._text.startswith("\\", self._at):
                following = self._text[self._at + 1 : self._at + 2]
                is_escaped = following in {"$", "`", '"', "\\"}
                fields.add(following if is_escaped else "" if following == "\n" else "\\")
                self._at += 2 if is_escaped or following == "\n" else 1
            elif self._text.startswith("$", self._at):
                self._expand(fields, is_quoted=True)
            elif self._at < len(self._text):
                self._check_construct()
            else:
                self._at = start
                raise self._refusal("a quote has no end", "check the quotes")
        self._at += 1

    def _expand(self, fields: _Fields, *, is_quoted: bool) -> None:
        """Take a variable with what it stands for, or a dollar sign that begins none."""
        found = _VARIABLE.match(self._text, self._at)
        if found is None:
            self._check_construct(but="escapes" if is_quoted else "")
            fields.add("$")
            self._at += 1
            return
        name, operator = found["short"] or found["long"], found["operator"]
        value = self._value(name)
        if operator and (value is None or (operator == ":-" and not value)):
            value = _NESTED.sub(lambda m: self._set_text(m[1] or m[2]), found["default"])
        else:
            value = self._set_text(name)
        self._put(value, fields, is_quoted=is_quoted)
        self._at = found.end()

    def _spread(self, found: re.Match[str], fields: _Fields) -> None:
        """Take all words of a list."""
        words = self._value(found[2])
        if not isinstance(words, list) or not fields.splits:
            raise self._refusal(f"{found[0]} is no list here", "put there what it stands for")
        for n, word in enumerate(words):
            if n:
                fields.end()
            self._put(word, fields, is_quoted=bool(found[1]))
        self._at = found.end()

    def _put(self, value: str, fields: _Fields, *, is_quoted: bool) -> None:
        """Go on with a value."""
        if is_quoted:
            fields.add(self._expansion.of(value))
        elif fields.splits and not _PATTERN.isdisjoint(value):
            raise self._refusal(
                f"a pattern of file names stands in a variable ({value!r})",
                "put the variable in quotes",
            )
        else:
            fields.insert(self._expansion.of(value))

    def _set_text(self, name: str) -> str:
        """The text of a variable that has to be set."""
        value = self._value(name)
        if value is None:
            raise self._refusal(f"${name} is not set", "set it, or put there what it stands for")
        if isinstance(value, list):
            raise self._refusal(f"${name} is a list", f'write "${{{name}[@]}}"')
        return value

    def _value(self, name: str) -> Value | None:
        self._check_name(name)
        command = self._command
        if not command.words and any(name == one.name for one in command.assignments):
            raise self._refusal(f"${name} is set in the same line", "set it in a line before")
        if name == "PWD" and name not in self._values:
            return str(Path.cwd())
        return self._values.get(name, os.environ.get(name))

    def _check_name(self, name: str) -> None:
        if _DYNAMIC.fullmatch(name):
            raise self._refusal(f"${name} is what only a running shell knows")

    def _home(self) -> str:
        home = self._value("HOME")
        return home if isinstance(home, str) else str(Path.home())
