"""The blocks of a script, which say what is run for certain."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spectui.export.sources import shell_syntax as syntax
from spectui.export.sources.shell_command import ShellCommand, ShellWord
from spectui.export.sources.shell_variables import ShellVariables
from spectui.export.sources.source import ASSIGNMENT


class _Kind(Enum):
    PERHAPS = "run or not, or several times"
    CASE = "the same, with a pattern before each branch"
    LIST = "commands of one line that follow others only if those went well, or did not"
    GROUP = "run"
    APART = "run in a subshell"


_KINDS = {
    **dict.fromkeys(("if", "while", "until", "for", "select"), _Kind.PERHAPS),
    "case": _Kind.CASE,
    "{": _Kind.GROUP,
}


@dataclass(slots=True)
class _Block:
    kind: _Kind
    awaits_pattern: bool = False
    function: str | None = None
    """Whose body it is."""


class Blocks:
    """Follows the commands of a script as they are read."""

    def __init__(self, variables: ShellVariables) -> None:
        """Begin outside any; scopes are opened and closed in ``variables``."""
        self._variables = variables
        self._open: list[_Block] = []
        self._function: str | None = None
        """Whose body comes next."""
        self._bodies: dict[str, frozenset[str]] = {}
        """What functions assign."""

    @property
    def awaits_pattern(self) -> bool:
        """Whether what comes is the pattern of a ``case``."""
        return bool(self._open) and self._open[-1].awaits_pattern

    @property
    def is_open(self) -> bool:
        """Whether there is any."""
        return bool(self._open)

    @property
    def has_apart(self) -> bool:
        """Whether one of them is a subshell."""
        return any(block.kind is _Kind.APART for block in self._open)

    @property
    def is_apart(self) -> bool:
        """Whether the innermost is a subshell."""
        kinds = [block.kind for block in self._open if block.kind is not _Kind.LIST]
        return kinds[-1:] == [_Kind.APART]

    def begun(self, words: Sequence[ShellWord]) -> tuple[ShellWord, ...]:
        """The words of a command without those that begin, part or end blocks."""
        rest = list(words)
        while rest and rest[0].is_bare:
            word = rest[0].text
            if word in syntax.CLOSING:
                self.close()
                return ()
            header = _header(rest)
            if header:
                self._function = rest[int(word == "function")].text.removesuffix("()")
                del rest[:header]
                continue
            if word in _KINDS:
                self._begin(_KINDS[word])
            if word in syntax.NAMING:
                break
            if word in syntax.RENEWING:
                self._renew()
            elif word not in syntax.KEYWORDS:
                break
            del rest[0]
        if rest:
            # They are assigned once it is called.
            self._variables.forget(self._bodies.get(rest[0].text, ()))
        return tuple(rest)

    def join(self, command: ShellCommand | None, joint: str) -> None:
        """Mind what stands between a command and the next; None for a block that has ended."""
        if joint in {"&&", "||"}:
            if joint == "||" or command is None or not _goes_well(command):
                self._end_list()
                self._push(_Kind.LIST)
        elif joint != "|":
            self._end_list()
        if joint.startswith((";;", ";&")) and self._open and self._open[-1].kind is _Kind.CASE:
            self._open[-1].awaits_pattern = True

    def open_apart(self) -> None:
        """A subshell begins, or a function's body that is one."""
        self._begin(_Kind.APART)

    def close(self) -> None:
        """The innermost block ends."""
        self._end_list()
        if self._open:
            self._pop()

    def end_pattern(self) -> None:
        """A branch of a ``case`` begins."""
        self._renew()
        self._open[-1].awaits_pattern = False

    def _begin(self, kind: _Kind) -> None:
        function, self._function = self._function, None
        self._push(_Kind.PERHAPS if function and kind is _Kind.GROUP else kind, function)

    def _renew(self) -> None:
        """Another branch begins."""
        self._end_list()
        if self._open and self._open[-1].kind in {_Kind.PERHAPS, _Kind.CASE}:
            self._variables.branch()

    def _end_list(self) -> None:
        if self._open and self._open[-1].kind is _Kind.LIST:
            self._pop()

    def _push(self, kind: _Kind, function: str | None = None) -> None:
        self._open.append(_Block(kind, awaits_pattern=kind is _Kind.CASE, function=function))
        if kind is not _Kind.GROUP:
            self._variables.open(is_apart=kind is _Kind.APART)

    def _pop(self) -> None:
        block = self._open.pop()
        if block.kind is not _Kind.GROUP:
            assigned = self._variables.close()
            if block.function is not None:
                self._bodies[block.function] = assigned


def _goes_well(command: ShellCommand) -> bool:
    """Whether a script would be of no use where the command fails."""
    words = command.words
    if words and words[0] in syntax.CERTAIN:
        return True
    return bool(words) and all(ASSIGNMENT.fullmatch(word) for word in words)


def _header(words: Sequence[ShellWord]) -> int:
    """How many words are the name of a function that is defined."""
    texts = [word.text for word in words[:3]]
    if texts[0] == "function":
        return 3 if texts[2:] == ["()"] else 2
    if texts[0].endswith("()"):
        return 1
    return 2 if texts[1:2] == ["()"] else 0
