"""Splits what a POSIX shell would read into commands and words. Nothing is run."""

import os
import re
from collections.abc import Iterator, Mapping

from spectui.errors import BadInputError

_BLANKS = " \t\r"
_HIDDEN_END = re.compile(r"\\(?:\r?\n|[ \t]+(?:#[^\n]*)?(?:\n|\Z)|\Z)")
"""A line end that a backslash hides; blanks and a remark after it are forgiven."""
_OPERATOR = re.compile(r"[|&;]|\d*[<>]")
_OPERATOR_AT_END = re.compile(r"[|&;]+(?=\s|\Z)")
_PARAMETER = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^{}]*))?\})"
)
_ALL_PARAMETERS = re.compile(r"\$[@*]|\$\{[@*]\}")
_ALL_QUOTED = re.compile(r'"(?:\$[@*]|\$\{[@*]\})"')
_SUBSTITUTION = re.compile(r"`|\$[({0-9$!?#']")
_ASIDE = re.compile(r"(?:[ \t\r\n]|#[^\n]*(?:\n|\Z))*")
_SHOWN = re.compile(r"\S+")
_NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ESCAPED_IN_QUOTES = '$`"\\'


def shell_commands(text: str, variables: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the words of every command.

    A line that starts with a dash goes on with the command before it, whatever stood at its end,
    and so do all lines after one that starts a command: nobody's program is called so, and lists
    of arguments look like that.

    Args:
        text: one command, or a script.
        variables: looked at while commands are yielded, so that those before may have set them;
            the environment is asked for others.

    Raises:
        BadInputError: quotes are not balanced, the shell would have to do more than start a
            program, or a variable is not set.
    """
    reader = _Reader(text, variables)
    while words := reader.command():
        yield words


def plain_words(text: str) -> list[str]:
    """Split as programs do that know a shell's quotes and blanks, and nothing else of it.

    Raises:
        BadInputError: quotes are not balanced.
    """
    return _Reader(text.replace("\n", " "), {}, is_shell=False).command()


class _Reader:
    """Walks through a text once."""

    def __init__(self, text: str, variables: Mapping[str, str], *, is_shell: bool = True) -> None:
        self._text = text.removeprefix("\N{BYTE ORDER MARK}")
        self._variables = variables
        self._replaced = "$`" if is_shell else ""
        self._is_shell = is_shell
        self._at = 0
        self._word: str | None = None
        self._words: list[str] = []

    def command(self) -> list[str]:
        """Words of the next command; none at the end."""
        self._words = []
        while self._at < len(self._text):
            if self._text[self._at] == "\n":
                self._at += 1
                self._end_word()
                if self._words and not self._words[0].startswith("-") and not self._goes_on():
                    return self._words
            else:
                self._step()
        self._end_word()
        return self._words

    def _goes_on(self) -> bool:
        """Whether the next line that says anything starts with a dash."""
        rest = _ASIDE.match(self._text, self._at)
        at = self._at if rest is None else rest.end()
        return self._text.startswith("-", at)

    def _step(self) -> None:
        char = self._text[self._at]
        if char in _BLANKS:
            self._at += 1
            self._end_word()
        elif char == "#" and self._word is None and self._is_shell:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif char == "\\":
            self._escape()
        elif char == "'":
            self._single()
        elif char == '"':
            nothing = _ALL_QUOTED.match(self._text, self._at)
            self._at = self._at if nothing is None else nothing.end()
            if nothing is None:
                self._double()
        elif char in self._replaced:
            self._expand(quoted=False)
        else:
            if self._is_shell:
                self._check_operator()
            self._add(char)
            self._at += 1

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append(self._word)
            self._word = None

    def _escape(self) -> None:
        hidden = _HIDDEN_END.match(self._text, self._at)
        if hidden is not None and hidden[0] == "\\":
            raise BadInputError(
                "the command cannot be read (no escaped character); check its quotes"
            )
        if hidden is not None:
            self._at = hidden.end()
        else:
            self._add(self._text[self._at + 1])
            self._at += 2

    def _single(self) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise _unclosed()
        self._add(self._text[self._at + 1 : end])
        self._at = end + 1

    def _double(self) -> None:
        self._at += 1
        self._add("")
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\":
                self._escape_in_quotes()
            elif char in self._replaced:
                self._expand(quoted=True)
            else:
                self._add(char)
                self._at += 1
        raise _unclosed()

    def _escape_in_quotes(self) -> None:
        following = self._text[self._at + 1 : self._at + 3]
        if following.startswith(("\n", "\r\n")):
            self._at += 1 + len(following.partition("\n")[0]) + 1
        elif following[:1] and following[0] in _ESCAPED_IN_QUOTES:
            self._add(following[0])
            self._at += 2
        else:
            self._add("\\")
            self._at += 1

    def _expand(self, *, quoted: bool) -> None:
        everything = _ALL_PARAMETERS.match(self._text, self._at)
        parameter = _PARAMETER.match(self._text, self._at)
        if everything is not None:
            # What a script's caller adds: nobody does here.
            self._at = everything.end()
        elif parameter is not None:
            self._at = parameter.end()
            self._insert(self._value(parameter), quoted=quoted)
        else:
            self._check_substitution()
            self._add(self._text[self._at])
            self._at += 1

    def _check_substitution(self) -> None:
        found = _SUBSTITUTION.match(self._text, self._at)
        if found is not None:
            raise BadInputError(
                f"the command contains {found[0]!r}, which the shell would replace; put there what "
                f"it stands for"
            )

    def _value(self, parameter: re.Match[str]) -> str:
        name, default = parameter[1] or parameter[2], parameter[3]
        value = self._variables.get(name, os.environ.get(name))
        if value is None or (value == "" and default is not None):
            value = default
        if value is None:
            raise BadInputError(
                f"the command uses ${name}, which is not set; put there what it stands for"
            )
        return value

    def _insert(self, value: str, *, quoted: bool) -> None:
        if quoted or _NAMED.match(self._word or ""):
            self._add(value)
            return
        first, *others = re.split(r"[ \t\n]+", value)
        if first:
            self._add(first)
        for other in others:
            self._end_word()
            if other:
                self._add(other)

    def _check_operator(self) -> None:
        found = _OPERATOR.match(self._text, self._at) if self._word is None else None
        found = found or _OPERATOR_AT_END.match(self._text, self._at)
        if found is not None:
            shown = _SHOWN.match(self._text, self._at)
            raise BadInputError(
                f"the command contains {shown[0] if shown else found[0]!r}, which is for the "
                f"shell; give the part that starts llama-server alone"
            )
        if self._text[self._at] == "(" and _NAMED.fullmatch(self._word or ""):
            raise BadInputError(
                f"the command contains {self._word}(...), which is for the shell; "
                f"give the part that starts llama-server alone"
            )


def _unclosed() -> BadInputError:
    return BadInputError("the command cannot be read (no closing quotation); check its quotes")
