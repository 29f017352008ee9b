"""Puts words together out of what a shell would read, with its quotes."""

from spectui.errors import BadInputError
from spectui.export.sources import shell_syntax as syntax
from spectui.export.sources.shell_command import ShellWord, hidden


class Scanner:
    """Walks through a text once. Who knows what is replaced in it says so in ``expand``."""

    def __init__(self, text: str, *, replaced: str) -> None:
        """Begin at the start; a character of ``replaced`` begins what a shell replaces."""
        self.text = text
        self.at = 0
        self.word: ShellWord | None = None
        self.words: list[ShellWord] = []
        self.is_continued = False
        """The line goes on behind its end."""
        self.is_target = False
        """The word that follows is the file of a redirection."""
        self._replaced = replaced

    def expand(self, *, quoted: bool) -> None:
        """Take what a shell replaces, with what it stands for."""
        raise NotImplementedError

    def spread(self, name: str) -> None:
        """Take all words of a list, each one for itself."""
        raise NotImplementedError

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self.text)

    def add(self, text: str, *, bare: str | None = None) -> None:
        """Go on with the word; ``bare`` is what of it a shell acts on, nothing where quoted."""
        more = ShellWord(text=text, bare=hidden(text) if bare is None else bare)
        self.word = more if self.word is None else self.word + more

    def end_word(self) -> None:
        """Keep the word, if there is one."""
        if self.word is not None and not self.is_target:
            self.words.append(self.word)
        self.is_target = self.is_target and self.word is None
        self.word = None

    def take_quoted(self) -> bool:
        """Take the quotes, the backslash or the replacement that is next; whether it is one."""
        char = self.text[self.at]
        if char == "\\":
            self._escape()
            return True
        if char == "'":
            self._single()
        elif char == '"':
            self._double()
        elif char in self._replaced:
            self.expand(quoted=False)
        else:
            return False
        self.is_continued = False
        return True

    def rest(self) -> ShellWord:
        """All that is left as one word, with its blanks."""
        while not self.is_at_end:
            if not self.take_quoted():
                char = self.text[self.at]
                self.add(char, bare=char)
                self.at += 1
        return self.word or ShellWord(text="", bare="")

    def _escape(self) -> None:
        ends = syntax.HIDDEN_END.match(self.text, self.at)
        if ends is not None and ends[0] == "\\":
            raise BadInputError(
                "the command cannot be read (no escaped character); check its quotes"
            )
        if ends is not None:
            self.at = ends.end()
            self.is_continued = True
        else:
            self.add(self.text[self.at + 1])
            self.at += 2

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise _unclosed()
        self.add(self.text[self.at + 1 : end])
        self.at = end + 1

    def _double(self) -> None:
        nothing = syntax.ALL_QUOTED.match(self.text, self.at) if self._replaced else None
        array = syntax.ARRAY_QUOTED.match(self.text, self.at) if self._replaced else None
        if nothing is not None:
            self.at = nothing.end()
            return
        if array is not None:
            self.at = array.end()
            self.spread(array[1])
            return
        self.at += 1
        self.add("")
        while not self.is_at_end:
            if self.text[self.at] == '"':
                self.at += 1
                return
            self._quoted()
        raise _unclosed()

    def _quoted(self) -> None:
        """The next of what stands in double quotes."""
        char = self.text[self.at]
        if char == "\\":
            self._escape_in_quotes()
        elif char in self._replaced:
            self.expand(quoted=True)
        else:
            self.add(char)
            self.at += 1

    def _escape_in_quotes(self) -> None:
        following = self.text[self.at + 1 : self.at + 3]
        if following.startswith(("\n", "\r\n")):
            self.at += 1 + len(following.partition("\n")[0]) + 1
        elif following[:1] and following[0] in syntax.ESCAPED_IN_QUOTES:
            self.add(following[0])
            self.at += 2
        else:
            self.add("\\")
            self.at += 1


def plain_words(text: str) -> list[str]:
    """Split as programs do that know a shell's quotes and blanks, and nothing else of it.

    Raises:
        BadInputError: quotes are not balanced.
    """
    scanner = Scanner(text.removeprefix("\N{BYTE ORDER MARK}"), replaced="")
    while not scanner.is_at_end:
        char = scanner.text[scanner.at]
        if char in f"{syntax.BLANKS}\n":
            scanner.at += 1
            scanner.end_word()
        elif not scanner.take_quoted():
            scanner.add(char)
            scanner.at += 1
    scanner.end_word()
    return [word.text for word in scanner.words]


def _unclosed() -> BadInputError:
    return BadInputError("the command cannot be read (no closing quotation); check its quotes")
