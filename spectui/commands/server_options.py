"""All options of llama-server, whether or not spectui has them: flags, values, variables.

``tables/`` has a table for each dialect, and one of what it took earlier; ``tools/draw_options.py``
draws them from the parsers. A line holds an option's flags; then "=" for a value, "@" for one that
is a path, "= =" for two values, nothing for a switch; after "!" the flags that switch it off; after
"$" the variable, without its LLAMA_ARG_; after "&" the other programs of llama.cpp that take it
where llama-server does not; after "%" until when it was taken, and since when in the table of what
is newer. A "+" in front is made by hand: servers of spectui's own get it from commands of others,
since it neither runs, fetches nor writes anything, nor says who may reach the server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

from spectui.options.dialect import Dialect

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
_PROGRAMS = "programs"
"""Table of options that only other programs take."""
_VALUES = {"=": False, "@": True}
"""Marks of a value, and whether it is a path."""


class Arity(Enum):
    """Number of words that an option takes as values."""

    NONE = 0
    ONE = 1
    TWO = 2
    MAYBE = "a word such as on, where the build takes one"
    UNTOLD = "builds disagree"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line of a table."""

    flags: tuple[str, ...]
    negations: tuple[str, ...]
    n_values: int
    is_file: bool
    is_harmless: bool
    variable: str | None
    until: str
    """Until when it was taken; empty if it is."""
    since: str
    """The first build that is known to take it; empty where its table's build does."""
    programs: tuple[str, ...]
    dialect: Dialect | None
    """The llama-server that takes it; None where only other programs do."""

    @property
    def names(self) -> frozenset[str]:
        """Every spelling."""
        return frozenset((*self.flags, *self.negations))

    @property
    def telling(self) -> frozenset[str]:
        """The spellings that tell which option it is: short ones mean another thing elsewhere."""
        long = frozenset(name for name in self.names if name.startswith("--"))
        return long or self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOption:
    """One option of llama-server, whatever the dialects call it."""

    flags: tuple[str, ...]
    negations: tuple[str, ...]
    """Flags that switch it off; they take no value."""
    arity: Arity
    is_file: bool
    """Whether its value is a path."""
    variable: str | None
    taken: Mapping[Dialect, frozenset[str]]
    """The spellings that each dialect takes, without dialects that take none."""
    until: Mapping[tuple[Dialect, str], str]
    """Until when a dialect took a spelling that it takes no more."""
    since: Mapping[str, str]
    """The first builds that are known to take newer spellings, and to read newer variables."""
    variables: Mapping[str, frozenset[Dialect]]
    """The variables that stand for it, and who reads them."""
    counts: Mapping[Dialect, int]
    """Number of values in each dialect that takes it, or did."""
    is_harmless: bool
    """Whether servers of spectui's own get it from commands of others."""
    programs: tuple[str, ...] = ()
    """Other programs of llama.cpp that take it where llama-server does not."""
    ambiguous: frozenset[str] = field(default=frozenset())
    """Spellings that are another option in another dialect."""

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
        plain = variable if variable in self.variables else variable.replace(NEGATION, PREFIX, 1)
        taken = {name for one in self.variables.get(plain, ()) for name in self.taken.get(one, ())}
        flags = [name for name in self.flags if name in taken and name.startswith("--")]
        offs = [name for name in self.negations if name in taken and name.startswith("--")]
        return next(iter(flags), self.long_flag), next(iter(offs), self.negation)

    def known_to(self, flag: str) -> frozenset[Dialect]:
        """The dialects that take a spelling, or did."""
        taking = {dialect for dialect, names in self.taken.items() if flag in names}
        return frozenset(taking | {dialect for dialect, name in self.until if name == flag})

    def negation_of(self, flag: str) -> str | None:
        """The spelling that switches the option off, similar to ``flag`` if possible."""
        alike = f"--no-{canonical(flag).lstrip('-')}"
        return alike if alike in self.negations else self.negation

    def arity_of(self, flag: str) -> Arity:
        """Number of words that ``flag``, one of the option's spellings, takes."""
        if flag in self.ambiguous:
            return Arity.UNTOLD
        return Arity.NONE if flag in self.negations else self.arity


def canonical(flag: str) -> str:
    """The spelling in the tables: llama-server takes ``_`` for ``-`` in long options."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def server_option(flag: str) -> ServerOption | None:
    """The option of that flag in any spelling; None if no table has it."""
    return _by_flag().get(canonical(flag))


def unambiguous(flag: str, n_values: int) -> str:
    """The long spelling of the option that an ambiguous spelling means with so many values.

    ``-dr`` is ``--docker-repo REPO`` in llama.cpp and the switch ``--dry-run`` in ik_llama.cpp.
    """
    spelled = canonical(flag)
    arity = Arity.ONE if n_values else Arity.NONE
    known = (one for one in _options() if spelled in one.ambiguous and one.arity is arity)
    return next((one.long_flag for one in known), flag)


def option_of_variable(variable: str) -> ServerOption | None:
    """The option that a variable stands for, its ``LLAMA_ARG_NO_`` form included."""
    return _by_variable().get(variable)


@cache
def every_flag() -> frozenset[str]:
    """Every flag that some build takes, or did."""
    return frozenset(_by_flag())


@cache
def drawn_from(dialect: Dialect) -> str:
    """The newest build whose parser a dialect's tables were drawn from, with its date.

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
    return frozenset(flag for line in _lines() if _is_taken(line, dialect) for flag in line.names)


@cache
def variables_of(dialect: Dialect) -> frozenset[str]:
    """Every variable that a dialect is known to read in place of an option."""
    return frozenset(
        line.variable for line in _lines() if line.variable is not None and _is_taken(line, dialect)
    )


@cache
def new_names() -> frozenset[str]:
    """Flags and variables that llama.cpp takes today, and did not before spring 2026."""
    own, older = (
        flags_of(dialect) | variables_of(dialect) for dialect in (Dialect.LLAMA_CPP, Dialect.LEGACY)
    )
    return frozenset(name for name in own - older if not _UNPREFIXED.match(name))


@cache
def former_names() -> frozenset[str]:
    """Flags and variables that llama.cpp's server took, and that no program of it takes today."""
    went = {
        name
        for line in _lines()
        if line.dialect in {Dialect.LLAMA_CPP, Dialect.LEGACY}
        for name in (*line.names, *filter(None, [line.variable]))
    }
    others = {name for line in _lines() if line.dialect is None for name in line.names}
    return frozenset(went - others - flags_of(Dialect.LLAMA_CPP) - variables_of(Dialect.LLAMA_CPP))


def table(name: str) -> list[str]:
    """Lines of a table of facts, without its remarks."""
    text = (_TABLES / f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def _is_taken(line: _Line, dialect: Dialect) -> bool:
    return line.dialect is dialect and not line.until


@cache
def _lines() -> tuple[_Line, ...]:
    # Of two tables the first counts: it is the one whose program spectui runs.
    names = [*Dialect, LATER, *(f"{dialect}-gone" for dialect in Dialect), _PROGRAMS]
    return tuple(_line(text, name) for name in names for text in table(name))


def _line(text: str, name: str) -> _Line:
    taken, _, when = text.partition(" % ")
    own, _, programs = taken.partition(" & ")
    words = own.split()
    plain = [word for word in words if word.startswith("-") or word == "!"]
    at = plain.index("!") if "!" in plain else len(plain)
    values = [_VALUES[word] for word in words if word in _VALUES]
    return _Line(
        flags=tuple(plain[:at]),
        negations=tuple(plain[at + 1 :]),
        n_values=len(values),
        is_file=any(values),
        is_harmless=words[0] == _HARMLESS,
        variable=next((f"{PREFIX}{word[1:]}" for word in words if word.startswith("$")), None),
        until="" if name == LATER else when,
        since=when if name == LATER else "",
        programs=tuple(programs.split()),
        dialect=None if name == _PROGRAMS else Dialect(re.sub("-(gone|later)$", "", name)),
    )


@cache
def _options() -> tuple[ServerOption, ...]:
    """The options, of lines that share a telling spelling."""
    groups: list[list[_Line]] = []
    by_name: dict[str, int] = {}
    for line in _lines():
        place = next((by_name[name] for name in line.telling if name in by_name), len(groups))
        groups += [[]] if place == len(groups) else []
        groups[place].append(line)
        by_name |= {name: by_name.get(name, place) for name in line.telling}
    homes: dict[str, set[int]] = {}
    for place, lines in enumerate(groups):
        for name in (name for line in lines for name in line.names):
            homes.setdefault(name, set()).add(place)
    shared = frozenset(name for name, places in homes.items() if len(places) > 1)
    return tuple(_option(lines, shared) for lines in groups)


def _option(lines: list[_Line], shared: frozenset[str]) -> ServerOption:
    negations = tuple(dict.fromkeys(name for line in lines for name in line.negations))
    flags = dict.fromkeys(name for line in lines for name in line.flags if name not in negations)
    taken = {dialect: _names(lines, dialect) for dialect in Dialect}
    variables = dict.fromkeys(line.variable for line in lines if line.variable is not None)
    return ServerOption(
        flags=tuple(flags),
        negations=negations,
        arity=_arity({line.n_values for line in lines if not flags.keys().isdisjoint(line.flags)}),
        is_file=any(line.is_file for line in lines),
        variable=next(iter(variables), None),
        taken={dialect: names for dialect, names in taken.items() if names},
        until={
            (one.dialect, name): one.until
            for one in lines
            if one.until and one.dialect is not None
            for name in one.names
        },
        since=_since(lines),
        variables={
            name: frozenset(
                one.dialect
                for one in lines
                if one.variable == name and not one.until and one.dialect is not None
            )
            for name in variables
        },
        # A line of what switches it off alone says nothing of the others.
        counts={
            line.dialect: line.n_values
            for line in reversed(lines)
            if line.dialect is not None and not flags.keys().isdisjoint(line.flags)
        },
        is_harmless=lines[0].is_harmless,
        programs=tuple(dict.fromkeys(name for line in lines for name in line.programs)),
        ambiguous=shared.intersection(name for line in lines for name in line.names),
    )


def _since(lines: list[_Line]) -> dict[str, str]:
    """The first builds of what no older build of the same dialect takes or reads."""
    older = {
        name
        for one in lines
        if not one.since and _is_taken(one, Dialect.LLAMA_CPP)
        for name in (*one.names, one.variable)
    }
    newer = [one for one in lines if one.since]
    return {
        name: one.since
        for one in newer
        for name in (*one.names, one.variable)
        if name is not None and name not in older
    }


def _names(lines: list[_Line], dialect: Dialect) -> frozenset[str]:
    return frozenset(name for one in lines if _is_taken(one, dialect) for name in one.names)


def _arity(counts: set[int]) -> Arity:
    """Number of values by those that the dialects take."""
    match sorted(counts):
        case [0] | []:
            return Arity.NONE
        case [1]:
            return Arity.ONE
        case [2]:
            return Arity.TWO
        case [0, 1]:
            return Arity.MAYBE
    return Arity.UNTOLD


@cache
def _by_flag() -> dict[str, ServerOption]:
    return {
        flag: option
        for option in reversed(_options())
        for flag in (*option.flags, *option.negations)
    }


@cache
def _by_variable() -> dict[str, ServerOption]:
    found: dict[str, ServerOption] = {}
    for option in reversed(_options()):
        for variable in option.variables:
            found[variable] = option
            if option.negations:
                found[variable.replace(PREFIX, NEGATION, 1)] = option
    return found
