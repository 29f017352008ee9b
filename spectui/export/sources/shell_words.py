"""Splits what a shell would read into commands and words. Nothing is run."""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path

from spectui.errors import BadInputError
from spectui.export.sources import shell_syntax as syntax
from spectui.export.sources.shell_blocks import Blocks
from spectui.export.sources.shell_command import ShellCommand
from spectui.export.sources.shell_expansion import Expanding
from spectui.export.sources.shell_patterns import is_pattern
from spectui.export.sources.shell_variables import ShellVariables


def shell_commands(
    text: str, variables: ShellVariables, *, script: Path | None = None
) -> Iterator[ShellCommand]:
    """Yield every command.

    A line that starts with a dash goes on with the command before it, whatever stood at its end,
    and so do all lines after one that starts a command: nobody's program is called so, and lists
    of arguments look like that.

    Args:
        text: one command, or a script.
        variables: looked at while commands are yielded, so that those before may have set them.
        script: the file that it stands in; None for what is typed.

    Raises:
        BadInputError: quotes are not balanced.
    """
    reader = _Reader(text.removeprefix("\N{BYTE ORDER MARK}"), variables, script)
    for command, _joint in reader.commands():
        yield command


class _Reader(Expanding):
    """Finds commands, and follows the blocks that they are in."""

    def __init__(
        self,
        text: str,
        variables: ShellVariables,
        script: Path | None,
        *,
        n_within: int = 0,
        is_nested: bool = False,
    ) -> None:
        super().__init__(text, variables, script, n_within=n_within)
        self._blocks = Blocks(variables)
        self._documents: list[re.Match[str]] = []
        self._has_ended = False
        self._joint = ""
        self._is_nested = is_nested
        """A parenthesis that nothing opened ends it."""
        self._is_over = False

    def commands(self) -> Iterator[tuple[ShellCommand, str]]:
        """All that remain, each with what stands behind it."""
        while self._read():
            parts = self._blocks.begun(self.words)
            command = ShellCommand(parts=parts, trouble=self.trouble) if parts else None
            if command is not None:
                yield command, self._joint
            self._blocks.join(command, self._joint)
        if self._is_nested and not self._is_over:
            raise BadInputError("the command within $( has no end; check its parentheses")
        while self.n_within and self._blocks.is_open:
            self._blocks.close()

    def within(self, text: str, at: int = 0, *, is_nested: bool = False) -> "_Reader":
        """One that reads what is within this."""
        inner = _Reader(
            text, self.known, self.script, n_within=self.n_within + 1, is_nested=is_nested
        )
        inner.at = at
        return inner

    def _read(self) -> bool:
        """Read the words of the next command; whether there is any."""
        self.words, self.trouble, self._has_ended, self._joint = [], None, False, ""
        while not (self.is_at_end or self._is_over or (self._has_ended and self.words)):
            if self.text[self.at] == "\n":
                self._new_line()
                is_list = bool(self.words) and self.words[0].text.startswith("-")
                self._has_ended = not is_list and not self._goes_on()
            else:
                self._has_ended = False
                self._step()
        self.end_word()
        if self.is_at_end and self._documents:
            raise _endless(self._documents[0])
        return bool(self.words)

    def _goes_on(self) -> bool:
        """Whether the next line that says anything starts with a dash."""
        rest = syntax.ASIDE.match(self.text, self.at)
        at = self.at if rest is None else rest.end()
        return self.text.startswith("-", at) and not self._blocks.awaits_pattern

    def _new_line(self) -> None:
        self.at += 1
        self.end_word()
        for start in self._documents:
            end = syntax.end_of_document(start).search(self.text, self.at)
            if end is None:
                raise _endless(start)
            self.at = end.end()
        self._documents.clear()

    def _step(self) -> None:
        char = self.text[self.at]
        if char in syntax.BLANKS:
            self.at += 1
            self.end_word()
        elif char == "#" and self.word is None:
            self._remark()
        elif not (self.take_quoted() or self._operate()):
            self.is_continued = False
            self.add(char, bare=char)
            self.at += 1

    def _remark(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end
        if self.is_continued and self.words and self._goes_on():
            self.fail(
                "a remark stands between the lines of the command, where it ends it for a shell, "
                "so that the lines after it are no part of it; take the remark out"
            )

    def _operate(self) -> bool:
        """Take what is for the shell, outside quotes; whether there is any."""
        self.is_continued = False
        begins = self.word is None
        document = syntax.DOCUMENT.match(self.text, self.at)
        redirection = syntax.REDIRECTION.match(self.text, self.at) if begins else None
        is_value = self.word is not None and syntax.NAMED.fullmatch(self.word.text) is not None
        home = syntax.HOME.match(self.text, self.at) if begins or is_value else None
        if document is not None:
            self.end_word()
            self._documents.append(document)
            self.at = document.end()
        elif redirection is not None:
            self.at = redirection.end()
            self.is_target = redirection["number"] is None
        elif home is not None:
            self.add(os.path.expanduser("~"))  # noqa: PTH111 - text, not a path yet
            self.at = home.end()
        else:
            return self._parenthesis() or self._end_command(begins=begins)
        return True

    def _parenthesis(self) -> bool:
        char = self.text[self.at]
        if char == "(":
            is_list = self.word is not None and syntax.ARRAY_NAME.fullmatch(self.word.text)
            return self._array() if is_list else self._open()
        return char == ")" and self._close()

    def _open(self) -> bool:
        """A subshell, where a command may begin; whether it is one."""
        if self._blocks.awaits_pattern and self.word is None:
            self.at += 1
            return True
        if self.word is not None or any(w.text not in syntax.BEGINNING for w in self.words):
            return False
        arithmetic = syntax.ARITHMETIC.match(self.text, self.at)
        if arithmetic is not None:
            self.add("((")
            self.at = arithmetic.end()
        elif self.words:
            self._has_ended = True
        else:
            self._blocks.open_apart()
            self.at += 1
        return True

    def _close(self) -> bool:
        """The end of a pattern, of a subshell or of all of it; whether it is one."""
        bare = "" if self.word is None else self.word.bare
        if bare.count("(") > bare.count(")"):
            return False
        is_case = bool(self.words) and self.words[0].text == "case"
        is_end = [w.text for w in (*self.words, self.word) if w is not None] == ["esac"]
        if is_case or (self._blocks.awaits_pattern and not is_end):
            self.end_word()
            if is_case:
                self._blocks.begun(self.words)
            self._blocks.end_pattern()
            self.words, self.trouble = [], None
        elif not (self._blocks.has_apart or self._is_nested):
            return False
        elif self.words or self.word is not None:
            self.end_word()
            self._has_ended = True
            return True
        elif self._blocks.is_apart:
            self._blocks.close()
        elif self._is_nested and not self._blocks.has_apart:
            self._is_over = True
        else:
            return False
        self.at += 1
        return True

    def _end_command(self, *, begins: bool) -> bool:
        """At an operator that stands by itself, or at the end of a word."""
        found = syntax.END.match(self.text, self.at)
        after = "" if found is None else self.text[found.end() : found.end() + 1]
        if found is None or not (begins or not after or after.isspace()):
            if begins and self.text[self.at] in "<>":
                shown = syntax.SHOWN.match(self.text, self.at)
                self.fail(
                    f"the command contains {shown[0] if shown else '<'!r}, which is for the shell; "
                    "give the part that starts llama-server alone"
                )
            return False
        self.at = found.end()
        self.end_word()
        self._has_ended, self._joint = True, found[0]
        if self._blocks.awaits_pattern and found[0] == "|":
            self.words = []
        if not self.words:
            self._blocks.join(None, found[0])
        return True

    def _array(self) -> bool:
        """Words between parentheses, as bash has them."""
        named = "" if self.word is None else self.word.text
        name, plus, _ = named.partition("+" if "+" in named else "=")
        outer, self.words, self.word = self.words, [], None
        self.at += 1
        while not self.is_at_end and self.text[self.at] != ")":
            if self.text[self.at] == "\n":
                self._new_line()
            else:
                self._step()
        if self.is_at_end:
            raise BadInputError(f"the list {name}=( has no end; check its parentheses")
        self.at += 1
        self.end_word()
        words = None if any(map(is_pattern, self.words)) else [w.text for w in self.words]
        self.known.keep(name, words, adds=plus == "+")
        self.words, self._has_ended = outer, False
        return True


def _endless(document: re.Match[str]) -> BadInputError:
    return BadInputError(
        f"the text that {document[0]!r} begins has no end; put the word on a line of its own "
        "behind it"
    )
