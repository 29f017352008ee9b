"""The llama-server that will read a command: its dialect, and the options that it takes."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spectui.commands.renames import KINDS
from spectui.commands.server_options import (
    NEGATION,
    PREFIX,
    canonical,
    flags_of,
    option_of_variable,
    server_option,
)
from spectui.options.option import Dialect

if TYPE_CHECKING:
    from spectui.commands.command import ServerCommand
    from spectui.commands.finding import Finding

_IK_ONLY = frozenset({"--run-time-repack", "--smart-expert-reduction", "--mla-use"})
_CURRENT = "--spec-draft-n-max"
_NAMES = {
    Dialect.LLAMA_CPP: ("llama-server", "today's llama.cpp"),
    Dialect.LEGACY: ("llama-server before spring 2026", "llama.cpp before spring 2026"),
    Dialect.IK: ("ik_llama.cpp's llama-server", "ik_llama.cpp"),
}
"""Names of a dialect's llama-server, and of its build."""


def dialect_of(flags: Collection[str]) -> Dialect:
    """The dialect that a binary with these flags is closest to."""
    if not _IK_ONLY.isdisjoint(flags):
        return Dialect.IK
    return Dialect.LLAMA_CPP if _CURRENT in flags else Dialect.LEGACY


def drafters_of(placeholder: str) -> frozenset[str]:
    """The drafters listed in the help of ``--spec-type``; empty if its value is no list."""
    found = frozenset(re.findall(r"[a-z][\w-]*", placeholder))
    return found if "none" in found else frozenset()


class Judging(Protocol):
    """A llama-server program that checks commands with its own parser."""

    silence: str | None
    """Why the last command was not judged, or not to its end, in a clause; None if it was."""

    def __call__(self, command: "ServerCommand", refused: Collection[int]) -> "Iterable[Finding]":
        """Findings on items that the program refuses, besides those at the ``refused`` indices."""

    def withheld(self, command: "ServerCommand") -> tuple[str, ...]:
        """The options that the program is not given, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A llama-server, described by its dialect or by its own help."""

    dialect: Dialect = Dialect.LLAMA_CPP
    program: str | None = None
    """Its binary, whose help the rest is of; None if only the dialect is known."""
    flags: frozenset[str] = frozenset()
    """Every spelling that the binary takes."""
    bare: frozenset[str] = frozenset()
    """Flags that it takes without a value, though other builds require one."""
    variables: frozenset[str] = frozenset()
    """Environment variables that it reads."""
    drafters: frozenset[str] = frozenset()
    """Kinds that its ``--spec-type`` may name; empty if it does not list them."""
    judge: Judging | None = None
    """The binary itself as the judge of commands; None without one."""

    @property
    def name(self) -> str:
        """Name for use in sentences."""
        return _NAMES[self.dialect][0] if self.program is None else "this llama-server"

    @property
    def build(self) -> str:
        """The build whose options it takes."""
        return self.program or _NAMES[self.dialect][1]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that its ``--spec-type`` may name."""
        return tuple(sorted(self.drafters)) or KINDS

    @property
    def is_current(self) -> bool:
        """Whether each drafter has its own options."""
        return self.dialect is Dialect.LLAMA_CPP

    def takes(self, flag: str) -> bool | None:
        """Whether the server takes a flag; None if unknown."""
        spelled = canonical(flag)
        if self.program is not None:
            return spelled in self.flags
        return None if server_option(spelled) is None else spelled in flags_of(self.dialect)

    def reads(self, variable: str) -> bool | None:
        """Whether the server reads a variable that stands for an option; None if unknown."""
        option = option_of_variable(variable)
        if self.variables:
            # The NO form is one of options that can be switched off.
            is_plain = option is None or variable in option.variables
            plain = variable if is_plain else variable.replace(NEGATION, PREFIX, 1)
            return plain in self.variables
        return None if option is None else self.dialect in option.read_by(variable)
