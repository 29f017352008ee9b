"""All options of llama-server, whether or not spectui has them: flags, values, variables."""

from dataclasses import dataclass
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
_NOT_IN_IK = "^"
_HARMLESS = "+"


class Arity(Enum):
    """Number of words that an option takes as values."""

    NONE = 0
    ONE = 1
    TWO = 2
    MAYBE = "a word such as on, where the build takes one"
    UNTOLD = "builds disagree"


_MARKS = {"=": Arity.ONE, "@": Arity.ONE, "?": Arity.MAYBE, "~": Arity.UNTOLD}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOption:
    """One option of llama-server."""

    flags: tuple[str, ...]
    negations: tuple[str, ...]
    """Flags that switch it off; they take no value."""
    arity: Arity
    is_file: bool
    """Whether its value is a path."""
    variable: str | None
    dialects: frozenset[Dialect]
    """Dialects whose tables have it. Only the table of ``Dialect.LLAMA_CPP`` is complete."""
    absent_in_ik: frozenset[str]
    """Its flags that ik_llama.cpp lacks."""
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

    def negation_of(self, flag: str) -> str | None:
        """The spelling that switches the option off, similar to ``flag`` if possible."""
        alike = f"--no-{canonical(flag).lstrip('-')}"
        return alike if alike in self.negations else self.negation

    def arity_of(self, flag: str) -> Arity:
        """Number of words that ``flag``, one of the option's spellings, takes."""
        return Arity.NONE if flag in self.negations else self.arity


def canonical(flag: str) -> str:
    """The spelling in the tables: llama-server takes ``_`` for ``-`` in long options."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def server_option(flag: str) -> ServerOption | None:
    """The option of that flag in any spelling; None if no table has it."""
    return _by_flag().get(canonical(flag))


def option_of_variable(variable: str) -> ServerOption | None:
    """The option that a variable stands for, its ``LLAMA_ARG_NO_`` form included."""
    return _by_variable().get(variable)


@cache
def flags_of(dialect: Dialect) -> frozenset[str]:
    """Every flag that a dialect is known to take."""
    return frozenset(
        flag
        for option in _options()
        if dialect in option.dialects
        for flag in (*option.flags, *option.negations)
    )


def table(name: str) -> list[str]:
    """Lines of a table of facts, without its remarks."""
    text = (_TABLES / f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


@cache
def _options() -> tuple[ServerOption, ...]:
    current, both = frozenset({Dialect.LLAMA_CPP}), frozenset({Dialect.LEGACY, Dialect.IK})
    return (
        *(_option(line, current) for line in table("llama.cpp")),
        *(_option(line, both) for line in table("older")),
        *(_option(line, frozenset({Dialect.IK})) for line in table("ik")),
    )


def _option(line: str, dialects: frozenset[Dialect]) -> ServerOption:
    flags: list[str] = []
    negations: list[str] = []
    marks: list[str] = []
    variable = None
    words = flags
    for word in line.split():
        if word == "!":
            words = negations
        elif word == _HARMLESS:
            continue
        elif word.startswith("$"):
            variable = f"{PREFIX}{word[1:]}"
        elif word in _MARKS:
            marks.append(word)
        else:
            words.append(word.removeprefix(_NOT_IN_IK))
    arity = Arity.TWO if len(marks) > 1 else _MARKS[marks[0]] if marks else Arity.NONE
    return ServerOption(
        flags=tuple(flags),
        negations=tuple(negations),
        arity=arity,
        is_file="@" in marks,
        variable=variable,
        dialects=dialects,
        absent_in_ik=frozenset(w[1:] for w in line.split() if w.startswith(_NOT_IN_IK)),
        is_harmless=line.startswith(_HARMLESS),
    )


@cache
def _by_flag() -> dict[str, ServerOption]:
    # Of two tables the first counts: it is the one whose program spectui runs.
    return {
        flag: option
        for option in reversed(_options())
        for flag in (*option.flags, *option.negations)
    }


@cache
def _by_variable() -> dict[str, ServerOption]:
    found: dict[str, ServerOption] = {}
    for option in reversed(_options()):
        if option.variable is not None:
            found[option.variable] = option
            if option.negations:
                found[option.variable.replace(PREFIX, NEGATION, 1)] = option
    return found
