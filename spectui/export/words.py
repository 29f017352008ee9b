"""Divides the words of a command into options with their values."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.errors import BadInputError
from spectui.export.names import BY_FLAG, Option

FLASH_ATTENTION = {
    **dict.fromkeys(("on", "1", "true", "enabled"), "on"),
    **dict.fromkeys(("off", "0", "false", "disabled"), "off"),
    **dict.fromkeys(("auto", "-1"), "auto"),
}
"""What builds take after ``-fa``; before autumn 2025 they took nothing."""

_NUMBER = re.compile(r"-\.?\d")
_SPECULATIVE = re.compile(
    r"--(spec-|no-spec-|draft|lookup-)|--.+-draft$"
    r"|-(md|ngld|otd|ctkd|ctvd|n?cmoed|tb?d|Cr?b?d|devd|cd|hfr?d)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One option as a command gives it."""

    flag: str
    """Without its value; a stray word that follows no option is a flag too."""
    option: Option | None
    """None if spectui does not know it."""
    values: tuple[str, ...]
    words: tuple[str, ...]
    """All of it, as it stands."""

    @property
    def is_speculative(self) -> bool:
        """It says how to draft, so that it has no place in a command that does not."""
        return _SPECULATIVE.match(canonical(self.flag)) is not None


def divide(words: Sequence[str]) -> Iterator[Given]:
    """Pair every option with what belongs to it.

    Known options take what they take in llama-server. What follows an unknown one and does not
    look like an option is its value: only its own parser knows better.

    Raises:
        BadInputError: a known option lacks its value.
    """
    at = 0
    while at < len(words):
        given = _given(words[at:])
        yield given
        at += len(given.words)


def _given(rest: Sequence[str]) -> Given:
    flag, equals, attached = rest[0].partition("=")
    option = BY_FLAG.get(canonical(flag))
    if equals and (option is None or option.is_switch or not flag.startswith("--")):
        flag, equals, option = rest[0], "", None
    if equals:
        return Given(flag=flag, option=option, values=(attached,), words=(rest[0],))
    n_values = _n_values(flag, option, rest[1:])
    values = tuple(rest[1 : 1 + n_values])
    return Given(flag=flag, option=option, values=values, words=(rest[0], *values))


def _n_values(flag: str, option: Option | None, following: Sequence[str]) -> int:
    if option is None:
        looks = (word.startswith("-") and not _NUMBER.match(word) for word in following)
        return next((n for n, is_option in enumerate(looks) if is_option), len(following))
    if option.is_switch:
        return 0
    if option.name == "flash-attn":
        return int(bool(following) and following[0] in FLASH_ATTENTION)
    if not following:
        raise BadInputError(f"{flag} lacks its value; write it after the option")
    return 1


def canonical(flag: str) -> str:
    """The spelling that the tables have: llama-server takes ``_`` for ``-`` in long options."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def without(words: Sequence[str], *flags: str) -> tuple[str, ...]:
    """The words less these options and their values.

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
