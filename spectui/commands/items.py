"""Divides the words of a command into options and their values."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.commands.server_options import Arity, ServerOption, canonical, server_option
from spectui.errors import BadInputError
from spectui.options.catalogue import BY_FLAG
from spectui.options.option import Option

FLASH_ATTENTION = {
    **dict.fromkeys(("on", "1", "true", "enabled"), "on"),
    **dict.fromkeys(("off", "0", "false", "disabled"), "off"),
    **dict.fromkeys(("auto", "-1"), "auto"),
}
"""Values of ``-fa``; before autumn 2025 it took none."""

_NUMBER = re.compile(r"-\.?\d")
_SPECULATIVE = re.compile(
    r"--(spec-|no-spec-|draft|lookup-|suffix-|p-split|(no-)?multi-token-)|--.+-draft$"
    r"|-(md|ngld|otd|ctkd|ctvd|n?cmoed|tb?d|Cr?b?d|devd|cd|hfr?d|lc[sd]|ps|draft|(no-)?mtp)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One option of a command."""

    flag: str
    """The option without its value; a stray word that follows no option is a flag too."""
    option: Option | None
    """None if spectui's own command line has no such option."""
    values: tuple[str, ...]
    words: tuple[str, ...]
    """All of its words, unchanged."""

    @property
    def server(self) -> ServerOption | None:
        """The option in llama-server's tables; None if no table has it."""
        return server_option(self.flag)

    @property
    def name(self) -> str:
        """One name for all spellings."""
        if self.option is not None:
            return self.option.name
        flag = self.flag if self.server is None else self.server.long_flag
        return flag.lstrip("-")

    @property
    def separate(self) -> tuple[str, ...]:
        """The words as llama-server reads them: with ``--flag=value`` split."""
        if len(self.words) != 1 or not self.values or self.server is None:
            return self.words
        if self.server.arity_of(canonical(self.flag)) is not Arity.NONE:
            return (self.flag, *self.values)
        if FLASH_ATTENTION.get(self.values[0].lower()) != "off":
            return (self.flag,)
        # What switches nothing on is left out.
        is_negation = canonical(self.flag) in self.server.negations
        other = self.server.long_flag if is_negation else self.server.negation
        return () if other is None else (other,)

    @property
    def is_speculative(self) -> bool:
        """Whether the option configures drafting."""
        return _SPECULATIVE.match(canonical(self.flag)) is not None


def divide(words: Sequence[str]) -> Iterator[Given]:
    """Pair every option with its values.

    Options take what they take in llama-server. What follows one that no table has and does not
    look like an option is its value: only its own parser knows better.

    Raises:
        BadInputError: an option lacks its value.
    """
    at = 0
    while at < len(words):
        given = _given(words[at:])
        yield given
        at += len(given.words)


def _given(rest: Sequence[str]) -> Given:
    flag, equals, attached = rest[0].partition("=")
    option, arity = BY_FLAG.get(canonical(flag)), _arity(flag)
    if equals and arity in {None, Arity.UNTOLD}:
        flag, equals, option, arity = rest[0], "", None, None
    if equals:
        return Given(flag=flag, option=option, values=(attached,), words=(rest[0],))
    n_values = _n_values(flag, arity, rest[1:])
    values = tuple(rest[1 : 1 + n_values])
    return Given(flag=flag, option=option, values=values, words=(rest[0], *values))


def _arity(flag: str) -> Arity | None:
    option = server_option(flag)
    return None if option is None else option.arity_of(canonical(flag))


def _n_values(flag: str, arity: Arity | None, following: Sequence[str]) -> int:
    match arity:
        case None | Arity.UNTOLD:
            looks = map(_is_option, following)
            return next((n for n, is_option in enumerate(looks) if is_option), len(following))
        case Arity.MAYBE:
            # No llama-server takes a word by itself: it can only be meant for the option.
            return int(bool(following) and not _is_option(following[0]))
        case Arity.NONE:
            return 0
    wanted = 2 if arity is Arity.TWO else 1
    if len(following) < wanted:
        raise BadInputError(
            f"{flag} lacks its value{'s' if wanted > 1 else ''}; write "
            f"{'both' if wanted > 1 else 'it'} after the option"
        )
    return wanted


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.match(word)


def without(words: Sequence[str], *flags: str) -> tuple[str, ...]:
    """The words without these options and their values.

    Raises:
        BadInputError: a known option lacks its value.
    """
    return tuple(
        word
        for given in divide(words)
        if canonical(given.flag) not in flags
        for word in given.words
    )


def value_of(words: Sequence[str], flag: str) -> str | None:
    """The last value of an option; None if it is not given.

    Raises:
        BadInputError: a known option lacks its value.
    """
    found = [g.values[0] for g in divide(words) if canonical(g.flag) == flag and g.values]
    return found[-1] if found else None
