"""Puts in the place of variables and commands what a shell would put there."""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path

from spectui.errors import BadInputError
from spectui.export.sources import shell_syntax as syntax
from spectui.export.sources.shell_command import ShellCommand, ShellWord
from spectui.export.sources.shell_output import output_of
from spectui.export.sources.shell_parameters import Parameter, end_of_braces, parameter_at
from spectui.export.sources.shell_scanner import Scanner
from spectui.export.sources.shell_variables import ShellVariables

_DEEPEST = 12
"""Commands within commands."""
_LONGEST_SHOWN = 60
_ESCAPED = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n]+")
_OTHER = re.compile(r"[^*?\[\] \t\n]")
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)


class Expanding(Scanner):
    """Knows variables, and where the script is."""

    def __init__(
        self, text: str, known: ShellVariables, script: Path | None, *, n_within: int
    ) -> None:
        """Begin at the start.

        Args:
            text: to walk through.
            known: looked at, and set by ``${NAME:=...}``.
            script: the file that it stands in; None for what is typed.
            n_within: how many commands it is within.

        Raises:
            BadInputError: too many.
        """
        super().__init__(text, replaced="$`")
        self.known = known
        self.script = script
        self.n_within = n_within
        self.is_one_word = False
        """Blanks of what is put in divide no words yet."""
        self.trouble: BadInputError | None = None
        if n_within > _DEEPEST:
            raise BadInputError("the command is nested too deeply; give one that holds less")

    def within(self, text: str, at: int = 0, *, is_nested: bool = False) -> "Expanding":
        """One that reads what is within this; ``is_nested`` if a parenthesis ends it."""
        raise NotImplementedError

    def commands(self) -> Iterator[tuple[ShellCommand, str]]:
        """All that remain, each with what stands behind it."""
        raise NotImplementedError

    def fail(self, trouble: str | BadInputError) -> None:
        """Keep what is wrong until it is known whether anybody needs the command."""
        error = BadInputError(trouble) if isinstance(trouble, str) else trouble
        self.trouble = self.trouble or error

    def expand(self, *, quoted: bool) -> None:
        """Take a variable, or a command within the command, with what it stands for."""
        parameter = parameter_at(self.text, self.at)
        if parameter is not None:
            self.at = parameter.end
            self._replace(parameter, quoted=quoted)
        elif syntax.SUBSTITUTION.match(self.text, self.at):
            self._substitute(quoted=quoted)
        else:
            self.add(self.text[self.at])
            self.at += 1

    def spread(self, name: str) -> None:
        """Take all words of a list, each one for itself."""
        try:
            words = self.known.array(name)
        except BadInputError as error:
            self.fail(error)
            return
        for n, word in enumerate(words):
            if n:
                self.end_word()
            self.add(word)

    def _replace(self, parameter: Parameter, *, quoted: bool) -> None:
        if parameter.is_everything:
            # What a script's caller adds: nobody does here.
            return
        if parameter.index:
            self.spread(parameter.name)
            return
        try:
            self._insert(self._value(parameter), quoted=quoted)
        except BadInputError as error:
            self.fail(error)

    def _value(self, parameter: Parameter) -> ShellWord:
        name = parameter.name
        if parameter.is_script:
            return _acted_on(self._script(parameter))
        value = self.known.get(name)
        is_missing = value is None or (parameter.counts_empty and not value)
        if parameter.operator == "+":
            return _acted_on("") if is_missing else self._word_of(parameter)
        if value is not None and not is_missing:
            return _acted_on(value)
        if parameter.operator in {"-", "="}:
            word = self._word_of(parameter)
            if parameter.operator == "=":
                self.known.assign(name, word.text)
            return word
        raise BadInputError(
            f"the command uses ${name}, which is not set; put there what it stands for"
        )

    def _word_of(self, parameter: Parameter) -> ShellWord:
        """What stands in for a value."""
        inner = self.within(parameter.word)
        inner.is_one_word = True
        word = inner.rest()
        if inner.trouble is not None:
            raise inner.trouble
        return word

    def _script(self, parameter: Parameter) -> str:
        if self.script is None:
            raise BadInputError(
                "the command uses the name of the script that it stands in; give that script, or "
                "put there what it stands for"
            )
        path = self.script.absolute()
        return str(path.parent if parameter.is_cut else path)

    def _substitute(self, *, quoted: bool) -> None:
        start = self.at
        told = self._told()
        if told is not None:
            self._insert(_acted_on(told), quoted=quoted)
            return
        shown = " ".join(self.text[start : self.at].split())
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}…"
        self.fail(
            f"the command contains {shown!r}, which the shell would replace; put there what it "
            "stands for"
        )
        self.add(self.text[start : self.at])

    def _told(self) -> str | None:
        """What a command within the command prints, if it is known; moves behind it."""
        text, at = self.text, self.at
        arithmetic = syntax.ARITHMETIC.match(text, at + 1)
        backquoted, escaped = _BACKQUOTED.match(text, at), _ESCAPED.match(text, at)
        if arithmetic is not None:
            self.at = arithmetic.end()
        elif backquoted is not None:
            self.at = backquoted.end()
            return self._output(self.within(re.sub(r"\\([`\\$])", r"\1", backquoted[1])))
        elif text.startswith("$(", at):
            inner = self.within(text, at + 2, is_nested=True)
            told = self._output(inner)
            self.at = inner.at
            return told
        elif text.startswith("${", at):
            self.at = end_of_braces(text, at)
        elif escaped is not None:
            self.at = escaped.end()
        else:
            self.at = at + 1
        return None

    def _output(self, inner: "Expanding") -> str | None:
        self.known.open(is_apart=True)
        found = tuple(inner.commands())
        self.known.close()
        folder = self.known.folder
        if folder is None:
            return None
        commands, joints = [one for one, _ in found], [joint for _, joint in found]
        return output_of(commands, joints, os.path.abspath(folder))  # noqa: PTH100 - as a shell does

    def _insert(self, word: ShellWord, *, quoted: bool) -> None:
        """Go on with what is put in: the blanks that are not quoted divide words."""
        if self.is_one_word and not quoted:
            self.add(word.text, bare=word.bare)
            return
        if quoted or (self.word is not None and syntax.NAMED.match(self.word.text)):
            self.add(word.text)
            return
        end = 0
        for blanks in _BLANKS.finditer(word.bare):
            self._add_part(word, end, blanks.start())
            self.end_word()
            end = blanks.end()
        self._add_part(word, end, len(word.text))

    def _add_part(self, word: ShellWord, start: int, end: int) -> None:
        if end > start:
            self.add(word.text[start:end], bare=word.bare[start:end])


def _acted_on(value: str) -> ShellWord:
    """A value as a shell puts it in: it looks for blanks and patterns in it, and for no more."""
    return ShellWord(text=value, bare=_OTHER.sub("\0", value))
