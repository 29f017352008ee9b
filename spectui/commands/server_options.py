"""All options of llama-server, whether or not spectui has them: flags, values, variables.

``tables/`` has a table for each dialect, and one of former options; ``tools/draw_options.py``
draws them from the parsers. A line holds an option's flags; then "=" for a value, "@" for one that
is a path, "= =" for two values, nothing for a switch; after "!" the flags that switch it off; after
"$" the variable, without its LLAMA_ARG_; after "%" until when it was taken. A "+" in front is set
by hand: servers that spectui starts get the option from commands of others, since it neither runs,
fetches nor writes anything, nor decides who may reach the server.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from spectui.options.option import Dialect

_TABLES = Path(__file__).with_name("tables")
PREFIX = "LLAMA_ARG_"
"""Prefix of the variables that stand for options."""
NEGATION = "LLAMA_ARG_NO_"
"""Prefix of those whose presence alone switches an option off."""
TRUE = frozenset({"on", "enabled", "true", "1"})
FALSE = frozenset({"off", "disabled", "false", "0"})
"""Words for a switch in variables and files."""
_HARMLESS = "+"
_DRAWN_FROM = re.compile(r"# What the llama-server of (.+? of \d{4}-\d\d-\d\d)\b")
_UNPREFIXED = re.compile(r"-C|--(?!(no-)?spec-).*draft")
"""Old names of a draft's options, which llama-server took up again."""
LATER = f"{Dialect.LLAMA_CPP}-later"
"""Table of options that are newer than the build of llama.cpp's own table."""
_VALUES = {"=": False, "@": True}
"""Marks of a value, and whether it is a path."""


class Arity(Enum):
    """Number of words that an option takes as values."""

    NONE = 0
    ONE = 1
    TWO = 2
    MAYBE = "a word such as on, where the build takes one"
    VARIES = "builds disagree"


_ARITIES = {
    **dict.fromkeys(((), (0,)), Arity.NONE),
    (1,): Arity.ONE,
    (2,): Arity.TWO,
    (0, 1): Arity.MAYBE,
}
"""Arities by the numbers of values that builds take."""


class _Line(NamedTuple):
    """One line of a table."""

    flags: tuple[str, ...]
    negations: tuple[str, ...]
    n_values: int
    is_file: bool
    is_harmless: bool
    variable: str | None
    until: str
    """Until when it was taken; empty if it is."""
    dialect: Dialect
    """The llama-server that takes it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling."""
        return (*self.flags, *self.negations)


class ServerOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option of llama-server, whatever the dialects call it."""

    flags: tuple[str, ...]
    negations: tuple[str, ...]
    """Flags that switch it off; they take no value."""
    place: int
    """Its place in the tables, and so in llama-server's own list of options."""
    arity: Arity
    is_file: bool
    """Whether its value is a path."""
    dialects: Mapping[Dialect, frozenset[str]]
    """The spellings that each dialect takes, without dialects that take none."""
    until: Mapping[tuple[Dialect, str], str]
    """Until when a dialect took a spelling that it takes no more."""
    variables: Mapping[str, frozenset[Dialect]]
    """The variables that stand for it, and the dialects that read each."""
    counts: Mapping[Dialect, int]
    """Number of values in each dialect that takes it, or did."""
    is_harmless: bool
    """Whether servers of spectui's own get it from commands of others."""

    @property
    def long_flag(self) -> str:
        """The first long spelling; a short one where it has no other."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])

    @property
    def negation(self) -> str | None:
        """The long spelling that switches the option off; None if there is none."""
        return next((flag for flag in self.negations if flag.startswith("--")), None)

    def spelled_for(self, variable: str) -> tuple[str, str | None]:
        """The long spellings that a variable's readers take, of the option and its negation."""
        spellings = {name for one in self.read_by(variable) for name in self.dialects.get(one, ())}
        flags = [name for name in self.flags if name in spellings and name.startswith("--")]
        offs = [name for name in self.negations if name in spellings and name.startswith("--")]
        return next(iter(flags), self.long_flag), next(iter(offs), self.negation)

    def read_by(self, variable: str) -> frozenset[Dialect]:
        """The dialects that read a variable that stands for the option."""
        if variable in self.variables:
            return self.variables[variable]
        # The NO form is llama.cpp's own.
        return self.variables[variable.replace(NEGATION, PREFIX, 1)] - {Dialect.IK}

    def known_to(self, flag: str) -> frozenset[Dialect]:
        """The dialects that take a spelling, or did."""
        taking = {dialect for dialect, names in self.dialects.items() if flag in names}
        return frozenset(taking | {one for one, name in self.until if name == flag})

    def arity_of(self, flag: str) -> Arity:
        """Number of words that ``flag``, one of the option's spellings, takes."""
        return Arity.NONE if flag in self.negations else self.arity


def canonical(flag: str) -> str:
    """The spelling in the tables: llama-server takes ``_`` for ``-`` in long options."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def server_option(flag: str) -> ServerOption | None:
    """The option of that flag in any spelling; None if no table has it."""
    place = _by_flag().get(canonical(flag))
    return None if place is None else _option(place)


def option_of_variable(variable: str) -> ServerOption | None:
    """The option that a variable stands for, its ``LLAMA_ARG_NO_`` form included."""
    place = _by_variable().get(variable)
    return None if place is None else _option(place)


@cache
def drawn_from(dialect: Dialect) -> str:
    """The newest build from whose parser a dialect's tables were generated, with its date.

    Raises:
        ValueError: the table does not begin with them.
    """
    name = LATER if dialect is Dialect.LLAMA_CPP else dialect
    first, _, _ = (_TABLES / f"{name}.txt").read_text("utf-8").partition("\n")
    found = _DRAWN_FROM.match(first)
    if found is None:
        raise ValueError(f"{name}.txt does not begin with the build and date of its parser")
    return found[1]


@cache
def flags_of(dialect: Dialect) -> frozenset[str]:
    """Every flag that a dialect is known to take."""
    return frozenset(name for line in _taken_by(dialect) for name in line.names)


@cache
def variables_of(dialect: Dialect) -> frozenset[str]:
    """Every variable that a dialect is known to read in place of an option."""
    return frozenset(line.variable for line in _taken_by(dialect) if line.variable is not None)


def _taken_by(dialect: Dialect) -> list[_Line]:
    """The lines of what a dialect takes today."""
    return [line for line in _lines() if line.dialect is dialect and not line.until]


@cache
def new_names() -> frozenset[str]:
    """Flags and variables that llama.cpp takes today, and did not before spring 2026."""
    own, older = (
        flags_of(dialect) | variables_of(dialect) for dialect in (Dialect.LLAMA_CPP, Dialect.LEGACY)
    )
    return frozenset(name for name in own - older if not _UNPREFIXED.match(name))


@cache
def former_names() -> frozenset[str]:
    """Flags and variables that llama.cpp's server took, and takes no more."""
    own = (line for line in _lines() if line.dialect in {Dialect.LLAMA_CPP, Dialect.LEGACY})
    went = {name for line in own for name in (*line.names, line.variable) if name is not None}
    return frozenset(went - flags_of(Dialect.LLAMA_CPP) - variables_of(Dialect.LLAMA_CPP))


def table(name: str) -> list[str]:
    """Lines of a table of facts, without its remarks."""
    text = (_TABLES / f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


@cache
def _lines() -> tuple[_Line, ...]:
    # Of two tables the first counts: it is the one whose program spectui runs.
    tables = {
        **{str(dialect): dialect for dialect in Dialect},
        LATER: Dialect.LLAMA_CPP,
        **{f"{dialect}-gone": dialect for dialect in Dialect},
    }
    return tuple(_line(text, dialect) for name, dialect in tables.items() for text in table(name))


def _line(text: str, dialect: Dialect) -> _Line:
    own, _, when = text.partition(" % ")
    flags: list[str] = []
    negations: list[str] = []
    values: list[bool] = []
    into, variable = flags, None
    for word in own.split():
        if word[0] == "-":
            into.append(word)
        elif word == "!":
            into = negations
        elif word in _VALUES:
            values.append(_VALUES[word])
        elif word[0] == "$":
            variable = f"{PREFIX}{word[1:]}"
    return _Line(
        flags=tuple(flags),
        negations=tuple(negations),
        n_values=len(values),
        is_file=any(values),
        is_harmless=text[0] == _HARMLESS,
        variable=variable,
        until=when,
        dialect=dialect,
    )


@cache
def _options() -> tuple[list[_Line], ...]:
    """Lines by option: they share a long spelling, as short ones mean another thing elsewhere."""
    groups: list[list[_Line]] = []
    by_name: dict[str, list[_Line]] = {}
    for line in _lines():
        long = [name for name in line.names if name.startswith("--")]
        telling = long or line.names
        lines = next((by_name[name] for name in telling if name in by_name), [])
        if not lines:
            groups.append(lines)
        lines.append(line)
        for name in telling:
            by_name.setdefault(name, lines)
    return tuple(groups)


@cache
def _option(place: int) -> ServerOption:
    """The option at a place of ``_options``; few of them are asked for."""
    lines = _options()[place]
    negations = tuple(dict.fromkeys(name for line in lines for name in line.negations))
    flags = dict.fromkeys(name for line in lines for name in line.flags if name not in negations)
    # A line with negations alone says nothing of the option's values.
    whole = [line for line in lines if not flags.keys().isdisjoint(line.flags)]
    today = [(line.dialect, line) for line in lines if not line.until]
    return ServerOption(
        flags=tuple(flags),
        negations=negations,
        place=place,
        arity=_ARITIES.get(tuple(sorted({line.n_values for line in whole})), Arity.VARIES),
        is_file=any(line.is_file for line in lines),
        dialects={
            dialect: frozenset(name for one, line in today if one is dialect for name in line.names)
            for dialect in dict.fromkeys(one for one, _line in today)
        },
        until={(one.dialect, name): one.until for one in lines if one.until for name in one.names},
        variables={
            name: frozenset(one for one, line in today if line.variable == name)
            for name in dict.fromkeys(line.variable for line in lines)
            if name is not None
        },
        counts={one.dialect: one.n_values for one in reversed(whole)},
        is_harmless=lines[0].is_harmless,
    )


@cache
def _by_flag() -> dict[str, int]:
    """Places of options by their spellings."""
    found: dict[str, int] = {}
    for place, lines in enumerate(_options()):
        for line in lines:
            for name in line.names:
                found.setdefault(name, place)
    return found


@cache
def _by_variable() -> dict[str, int]:
    """Places of options by their variables."""
    found: dict[str, int] = {}
    for place, lines in enumerate(_options()):
        has_negation = any(line.negations for line in lines)
        for variable in (line.variable for line in lines if line.variable is not None):
            found.setdefault(variable, place)
            if has_negation:
                found.setdefault(variable.replace(PREFIX, NEGATION, 1), place)
    return found
