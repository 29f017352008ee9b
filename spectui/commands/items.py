"""Splits a command's words, and variables that stand for options, into options with values."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from spectui.commands.server_options import (
    FALSE,
    NEGATION,
    TRUE,
    Arity,
    ServerOption,
    canonical,
    option_of_variable,
    server_option,
)
from spectui.errors import BadInputError
from spectui.options.catalogue import BY_FLAG
from spectui.options.option import Option

FLASH_ATTENTION = {
    **dict.fromkeys(("on", "1", "true", "enabled"), "on"),
    **dict.fromkeys(("off", "0", "false", "disabled"), "off"),
    **dict.fromkeys(("auto", "-1"), "auto"),
}
"""Values of ``-fa``; before autumn 2025 it took none."""

FILE_LISTS = frozenset({"--lora", "--control-vector", "--lora-scaled", "--control-vector-scaled"})
"""Options whose value is several paths; the last two have a number behind each."""
_WANTED = {Arity.ONE: 1, Arity.TWO: 2, Arity.VARIES: 1}
"""Numbers of values that options take, at least."""
_NUMBER = re.compile(r"-\.?\d")
_SPECULATIVE = re.compile(
    r"--(spec-|no-spec-|draft|lookup-|suffix-|p-split|(no-)?multi-token-)|--.+-draft$"
    r"|-(md|ngld|otd|ctkd|ctvd|n?cmoed|tb?d|Cr?b?d|devd|cd|hfr?d|lc[sd]|ps|draft|(no-)?mtp)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One option of a command with its values."""

    flag: str
    """The option without its value; a stray word that follows no option is a flag too."""
    spelling: str
    """The flag as the tables spell it."""
    name: str
    """One name for all spellings."""
    option: Option | None
    """None if spectui's own command line has no such option."""
    server: ServerOption | None
    """The option in llama-server's tables; None if no table has it."""
    values: tuple[str, ...]
    words: tuple[str, ...]
    """All of its words, unchanged."""
    variable: str | None = None
    """The variable that stands for the option in the command; None for an argument."""

    @property
    def n_missing(self) -> int:
        """Number of values that the option lacks."""
        arity = None if self.server is None else self.server.arity_of(self.spelling)
        return 0 if arity is None else max(_WANTED.get(arity, 0) - len(self.values), 0)

    @property
    def is_path(self) -> bool:
        """Whether its value is a path, or several."""
        server = self.server
        return server is not None and (server.is_file or server.long_flag in FILE_LISTS)

    def with_values(self, values: tuple[str, ...]) -> "Item":
        """The item with other values, in words of their own."""
        return replace(self, values=values, words=(self.flag, *values))

    @property
    def value(self) -> str:
        """The last value; empty for a switch."""
        return self.values[-1] if self.values else ""

    @property
    def shown(self) -> str:
        """The option's spelling in the command."""
        return self.flag if self.variable is None else self.variable

    @property
    def text(self) -> str:
        """The words as they are shown to people."""
        return " ".join(self.words)

    @property
    def separate(self) -> tuple[str, ...]:
        """The words as llama-server reads them: with ``--flag=value`` split, but for a switch."""
        server = self.server
        if server is None or server.arity_of(self.spelling) is Arity.NONE:
            return self.words
        return (self.flag, *self.values)

    @property
    def is_speculative(self) -> bool:
        """Whether the option configures drafting."""
        return _SPECULATIVE.match(self.spelling) is not None

    @property
    def is_negation(self) -> bool:
        """Whether the option switches something off."""
        return self.flag.startswith(("-no-", "--no-"))


def words_of(items: Iterable[Item]) -> tuple[str, ...]:
    """All words of some items."""
    return tuple(word for item in items for word in item.words)


def divide(words: Sequence[str], variable: str | None = None) -> Iterator[Item]:
    """Pair every option with its values.

    Options take as many values as in llama-server. Words behind an option that no table has are its
    values, up to the next word that looks like an option: only its own parser knows better.

    Args:
        words: arguments of a command.
        variable: the variable that stands for them.
    """
    at = 0
    while at < len(words):
        flag, equals, attached = words[at].partition("=")
        arity = _arity(flag)
        if equals and arity in {None, Arity.VARIES}:
            flag, equals, arity = words[at], "", None
        end = at + 1 if equals else _values_end(arity, words, at + 1)
        values = (attached,) if equals else tuple(words[at + 1 : end])
        yield _item(flag, values, tuple(words[at:end]), variable)
        at = end


def _arity(flag: str) -> Arity | None:
    """Number of words that a flag takes; None where no table has it."""
    server = server_option(flag)
    return None if server is None else server.arity_of(canonical(flag))


def _item(flag: str, values: tuple[str, ...], words: tuple[str, ...], variable: str | None) -> Item:
    server = server_option(flag)
    option = None if server is None else BY_FLAG.get(canonical(flag))
    return Item(
        flag=flag,
        spelling=canonical(flag),
        name=_option_name(flag, option, server),
        option=option,
        server=server,
        values=values,
        words=words,
        variable=variable,
    )


def _option_name(flag: str, option: Option | None, server: ServerOption | None) -> str:
    if option is not None:
        return option.name
    return (flag if server is None else server.long_flag).lstrip("-")


def _values_end(arity: Arity | None, words: Sequence[str], start: int) -> int:
    """Index behind the values of an option, which begin at ``start``."""
    match arity:
        case None | Arity.VARIES:
            options = (n for n in range(start, len(words)) if _is_option(words[n]))
            return next(options, len(words))
        case Arity.MAYBE:
            # No llama-server takes a word without an option, so it is meant for this one.
            return start + int(start < len(words) and not _is_option(words[start]))
        case Arity.NONE:
            return start
    return min(start + _WANTED[arity], len(words))


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.match(word)


def items_of_variable(variable: str, value: str) -> Iterator[Item]:
    """The option of a variable that stands for one; nothing for a switch that is left off.

    Raises:
        BadInputError: its value is no switch's.
    """
    return divide(_as_arguments(variable, value), variable)


def is_ignored(variable: str, value: str) -> bool:
    """Whether llama-server ignores the variable of a bare switch, for a value that is no word."""
    option = option_of_variable(variable)
    if option is None or option.arity is not Arity.NONE or option.spelled_for(variable)[1]:
        return False
    return value not in TRUE | FALSE


def _as_arguments(variable: str, value: str) -> tuple[str, ...]:
    option = option_of_variable(variable)
    assert option is not None  # noqa: S101 - asked before
    flag, off = option.spelled_for(variable)
    if off is not None and variable.startswith(NEGATION):
        # llama-server ignores the value: being set is enough.
        return (off,)
    if off is None:
        if option.arity is Arity.NONE:
            return (flag,) if value in TRUE else ()
        # An empty path is none, and an empty number is the server's to refuse.
        return () if option.is_file and not value else (flag, value)
    if value not in TRUE | FALSE:
        raise BadInputError(f"{variable} is {value!r}; give it 1 or 0")
    return (flag,) if value in TRUE else (off,)
