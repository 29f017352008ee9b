"""Splits what a shell would read into commands and words. Nothing is run."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from spectui.errors import BadInputError
from spectui.export.sources import shell_syntax as syntax
from spectui.export.sources.shell_variables import PARAMETER, ShellVariables, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One of the commands of a text."""

    words: tuple[str, ...]
    trouble: BadInputError | None
    """What the shell would have to do more than start it."""
    is_conditional: bool
    """It depends on others whether it is run, or how often."""


def shell_commands(text: str, variables: Variables) -> Iterator[ShellCommand]:
    """Yield every command.

    A line that starts with a dash goes on with the command before it, whatever stood at its end,
    and so do all lines after one that starts a command: nobody's program is called so, and lists
    of arguments look like that.

    Args:
        text: one command, or a script.
        variables: looked at while commands are yielded, so that those before may have set them;
            the environment is asked for others.

    Raises:
        BadInputError: quotes are not balanced.
    """
    reader = _Reader(text, variables)
    while (found := reader.command()) is not None:
        yield found


def plain_words(text: str) -> list[str]:
    """Split as programs do that know a shell's quotes and blanks, and nothing else of it.

    Raises:
        BadInputError: quotes are not balanced.
    """
    found = _Reader(text.replace("\n", " "), {}, is_shell=False).command()
    return [] if found is None else list(found.words)


class _Reader:
    """Walks through a text once."""

    def __init__(self, text: str, variables: Variables, *, is_shell: bool = True) -> None:
        self._text = text.removeprefix("\N{BYTE ORDER MARK}")
        self._known = ShellVariables(variables, self._fail)
        self._replaced = "$`" if is_shell else ""
        self._is_shell = is_shell
        self._at = 0
        self._word: str | None = None
        self._words: list[str] = []
        self._trouble: BadInputError | None = None
        self._depth = 0
        self._has_ended = False
        self._is_target = False
        self._is_continued = False

    def command(self) -> ShellCommand | None:
        """The next command; None at the end."""
        self._words, self._trouble, self._has_ended = [], None, False
        while self._at < len(self._text) and not (self._has_ended and self._words):
            if self._text[self._at] == "\n" and self._is_shell:
                self._at += 1
                self._end_word()
                is_list = bool(self._words) and self._words[0].startswith("-")
                self._has_ended = not is_list and not self._goes_on()
            else:
                self._has_ended = False
                self._step()
        self._end_word()
        return self._told() if self._words else None

    def _told(self) -> ShellCommand:
        self._depth -= self._words[0] in syntax.CLOSING
        is_conditional = self._depth > 0
        self._depth += self._words[0] in syntax.OPENING
        while self._words[1:] and self._words[0] in syntax.KEYWORDS:
            del self._words[0]
        return ShellCommand(
            words=tuple(self._words), trouble=self._trouble, is_conditional=is_conditional
        )

    def _fail(self, message: str) -> None:
        """Keep what is wrong until it is known whether anybody needs the command."""
        self._trouble = self._trouble or BadInputError(message)

    def _goes_on(self) -> bool:
        """Whether the next line that says anything starts with a dash."""
        rest = syntax.ASIDE.match(self._text, self._at)
        at = self._at if rest is None else rest.end()
        return self._text.startswith("-", at)

    def _step(self) -> None:
        char = self._text[self._at]
        if char in syntax.BLANKS:
            self._at += 1
            self._end_word()
        elif char == "#" and self._word is None and self._is_shell:
            self._remark()
        elif char == "\\":
            self._escape()
        else:
            self._is_continued = False
            self._part(char)

    def _part(self, char: str) -> None:
        """What belongs to a word, or ends it."""
        if char == "'":
            self._single()
        elif char == '"':
            self._double()
        elif char in self._replaced:
            self._expand(quoted=False)
        elif not (self._is_shell and self._operate()):
            self._add(char)
            self._at += 1

    def _remark(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end
        if self._is_continued and self._words and self._goes_on():
            self._fail(
                "a remark stands between the lines of the command, where it ends it for a shell, "
                "so that the lines after it are no part of it; take the remark out"
            )

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text

    def _end_word(self) -> None:
        if self._word is not None and not self._is_target:
            self._words.append(self._word)
        self._is_target = self._is_target and self._word is None
        self._word = None

    def _escape(self) -> None:
        hidden = syntax.HIDDEN_END.match(self._text, self._at)
        if hidden is not None and hidden[0] == "\\":
            raise BadInputError(
                "the command cannot be read (no escaped character); check its quotes"
            )
        if hidden is not None:
            self._at = hidden.end()
            self._is_continued = True
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
        nothing = syntax.ALL_QUOTED.match(self._text, self._at)
        array = syntax.ARRAY_QUOTED.match(self._text, self._at)
        if nothing is not None:
            self._at = nothing.end()
            return
        if array is not None:
            self._at = array.end()
            self._spread(array[1])
            return
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
        elif following[:1] and following[0] in syntax.ESCAPED_IN_QUOTES:
            self._add(following[0])
            self._at += 2
        else:
            self._add("\\")
            self._at += 1

    def _expand(self, *, quoted: bool) -> None:
        everything = syntax.ALL_PARAMETERS.match(self._text, self._at)
        array = syntax.ARRAY.match(self._text, self._at)
        parameter = PARAMETER.match(self._text, self._at)
        if everything is not None:
            # What a script's caller adds: nobody does here.
            self._at = everything.end()
        elif array is not None:
            self._at = array.end()
            self._spread(array[1])
        elif parameter is not None:
            self._at = parameter.end()
            self._insert(self._known.value(parameter), quoted=quoted)
        else:
            self._check_substitution()
            self._add(self._text[self._at])
            self._at += 1

    def _spread(self, name: str) -> None:
        """All words of an array, each one for itself."""
        for n, word in enumerate(self._known.array(name)):
            if n:
                self._end_word()
            self._add(word)

    def _check_substitution(self) -> None:
        found = syntax.SUBSTITUTION.match(self._text, self._at)
        if found is not None:
            self._fail(
                f"the command contains {found[0]!r}, which the shell would replace; put there what "
                f"it stands for"
            )

    def _insert(self, value: str, *, quoted: bool) -> None:
        if quoted or syntax.NAMED.match(self._word or ""):
            self._add(value)
            return
        first, *others = re.split(r"[ \t\n]+", value)
        if first:
            self._add(first)
        for other in others:
            self._end_word()
            if other:
                self._add(other)

    def _operate(self) -> bool:
        """Take what is for the shell, outside quotes; whether there is any."""
        begins = self._word is None
        redirection = syntax.REDIRECTION.match(self._text, self._at) if begins else None
        is_value = syntax.NAMED.fullmatch(self._word or "") is not None
        home = syntax.HOME.match(self._text, self._at) if begins or is_value else None
        if redirection is not None:
            self._at = redirection.end()
            self._is_target = redirection["number"] is None
        elif home is not None:
            self._add(os.path.expanduser("~"))  # noqa: PTH111 - text, not a path yet
            self._at = home.end()
        elif self._text[self._at] == "(" and syntax.ARRAY_NAME.fullmatch(self._word or ""):
            self._array()
        else:
            return self._end_command(begins=begins)
        return True

    def _end_command(self, *, begins: bool) -> bool:
        """At an operator that stands by itself, or at the end of a word."""
        found = syntax.END.match(self._text, self._at)
        after = "" if found is None else self._text[found.end() : found.end() + 1]
        if found is None or not (begins or not after or after.isspace()):
            if begins and self._text[self._at] in "<>":
                shown = syntax.SHOWN.match(self._text, self._at)
                self._fail(
                    f"the command contains {shown[0] if shown else '<'!r}, which is for the shell; "
                    "give the part that starts llama-server alone"
                )
            return False
        self._at = found.end()
        self._end_word()
        self._has_ended = True
        return True

    def _array(self) -> None:
        """Words between parentheses, as bash has them."""
        name, plus, _ = (self._word or "").partition("+" if "+" in (self._word or "") else "=")
        outer, self._words, self._word = self._words, [], None
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "\n":
                self._at += 1
                self._end_word()
            else:
                self._step()
        if self._at >= len(self._text):
            raise BadInputError(f"the list {name}=( has no end; check its parentheses")
        self._at += 1
        self._end_word()
        words = self._words if self._depth == 0 else None
        self._known.keep(name, words, adds=plus == "+")
        self._words, self._has_ended = outer, False


def _unclosed() -> BadInputError:
    return BadInputError("the command cannot be read (no closing quotation); check its quotes")
