"""The llama-server that will read a command, and the options that it takes."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectui.commands.items import FLASH_ATTENTION, Item, divide, words_of
from spectui.commands.renames import IK_KINDS, RENAMES
from spectui.commands.server_options import (
    NEGATION,
    PREFIX,
    canonical,
    flags_of,
    option_of_variable,
    server_option,
    variables_of,
)
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import MODEL_KIND, DraftSimple, numbers_of
from spectui.options.option import Option
from spectui.options.placement import LOAD_MODE, LOAD_MODES
from spectui.options.setup import FlashAttention

if TYPE_CHECKING:
    from spectui.commands.command import ServerCommand
    from spectui.commands.finding import Finding

_IK_ONLY = frozenset({"--run-time-repack", "--smart-expert-reduction", "--mla-use"})
_CURRENT = "--spec-draft-n-max"
_IK_FLAGS = {one.ik[-1]: one.flags[0] for one in numbers_of(DraftSimple)}
"""Options of ik_llama.cpp before its ``--spec-type`` took settings."""
_NAMES = {
    Dialect.LLAMA_CPP: "llama-server",
    Dialect.LEGACY: "llama-server before spring 2026",
    Dialect.IK: "ik_llama.cpp's llama-server",
}


_BUILDS = {
    Dialect.LLAMA_CPP: "today's llama.cpp",
    Dialect.LEGACY: "llama.cpp before spring 2026",
    Dialect.IK: "ik_llama.cpp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The options of one llama-server binary."""

    program: str
    """Name of the program in messages."""
    flags: frozenset[str]
    """Every spelling that the server takes."""
    bare: frozenset[str] = frozenset()
    """Flags that take no value."""
    variables: frozenset[str] = frozenset()
    """Environment variables that the server reads."""
    drafters: frozenset[str] = frozenset()
    """Kinds that ``--spec-type`` may name; empty if the server does not list them."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that it is closest to."""
        if self.flags & _IK_ONLY:
            return Dialect.IK
        return Dialect.LLAMA_CPP if _CURRENT in self.flags else Dialect.LEGACY

    def variable_of(self, option: Option) -> str | None:
        """The variable that the server reads an option from; None if there is none."""
        names = (option.variable, option.legacy_variable)
        return next((name for name in names if name in self.variables), None)

    def long_flag_of(self, option: Option) -> str:
        """The long spelling that the server takes; an option's first if it takes none."""
        long = [flag for flag in option.flags if flag.startswith("--")]
        return next((flag for flag in long if flag in self.flags), long[0])

    def spelled(self, items: Iterable[Item]) -> tuple[Item, ...]:
        """The options under names that the server takes.

        Raises:
            BadInputError: the server has no name for one of them.
        """
        return tuple(own for item in items for own in divide(self._spelled(item)))

    def _spelled(self, item: Item) -> tuple[str, ...]:
        flag, option = item.spelling, item.option
        match option and option.name, item.values:
            case "flash-attn", _ if flag in self.bare:
                return self._switched(item)
            case "spec-type", (value,):
                return self._drafting(flag, value)
        if flag in self.flags:
            return (item.flag, *item.values)
        equal = self._loading(item)
        if equal:
            return equal
        known = () if option is None else option.flags
        spelling = next((one for one in known if one in self.flags), None)
        if spelling is None:
            raise self._unknown(item.flag)
        return (spelling, *item.values)

    def _loading(self, item: Item) -> tuple[str, ...]:
        """The mode of loading as switches, or a switch as that; nothing where it has no words."""
        if item.name == LOAD_MODE.name:
            words = tuple(f"--{name}" for name in LOAD_MODES.get(item.value, ()))
            return words if self.flags.issuperset(words) else ()
        words = RENAMES[item.name].words if item.name in RENAMES else ()
        return words if words and words[0] == LOAD_MODE.long_flag in self.flags else ()

    def _unknown(self, what: str) -> BadInputError:
        return BadInputError(
            f"{self.program} does not take {what}; leave it out, or give another --server-bin"
        )

    def _drafting(self, flag: str, value: str) -> tuple[str, ...]:
        """The drafter kinds; nothing where the draft model alone selects them."""
        drafter, _, settings = value.partition(":")
        if flag not in self.flags and settings and drafter == "draft":
            pairs = (setting.partition("=") for setting in settings.split(","))
            words = [w for key, _, text in pairs for w in (_IK_FLAGS[key], text)]
            return words_of(self.spelled(divide(words)))
        if flag not in self.flags and value != MODEL_KIND:
            raise self._unknown(f"{flag} {value}")
        if flag in self.flags and (settings or not self.drafters):
            return (flag, value)
        # Builds whose list lacks it draft with a draft model wherever one is given.
        named = [one for one in value.split(",") if one in self.drafters or one != MODEL_KIND]
        return (flag, ",".join(map(self._drafter, named))) if named else ()

    def _drafter(self, name: str) -> str:
        for known in (name, IK_KINDS.get(name, name)):
            if known in self.drafters:
                return known
        raise self._unknown(f"--spec-type {name}")

    def _switched(self, item: Item) -> tuple[str, ...]:
        """``-fa`` for builds before autumn 2025, which have it as a switch that is off."""
        wanted = FLASH_ATTENTION.get(item.values[0]) if item.values else "on"
        if wanted == FlashAttention.AUTO:
            raise BadInputError(
                f"{item.flag} takes no value in {self.program}, which cannot choose by itself; "
                "measure with -fa on or -fa off"
            )
        return (item.flag,) if wanted == FlashAttention.ON else ()


def drafters_of(placeholder: str) -> frozenset[str]:
    """The drafters listed in the help of ``--spec-type``; empty if its value is no list."""
    found = frozenset(re.findall(r"[a-z][\w-]*", placeholder))
    return found if "none" in found else frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A llama-server, described by its dialect or by its own help."""

    dialect: Dialect = Dialect.LLAMA_CPP
    accepted: Accepted | None = None
    """The options of its binary; None if only the dialect is known."""
    judge: "Callable[[ServerCommand, Collection[int]], Iterable[Finding]] | None" = None
    """Asks the binary itself about a command but for items that it is known to refuse; None
    without one."""

    @property
    def name(self) -> str:
        """Name for use in sentences."""
        return _NAMES[self.dialect] if self.accepted is None else "this llama-server"

    @property
    def build(self) -> str:
        """The build whose options it takes."""
        return _BUILDS[self.dialect] if self.accepted is None else self.accepted.program

    @property
    def bare(self) -> frozenset[str]:
        """Flags that it takes without a value, though other builds require one."""
        return frozenset() if self.accepted is None else self.accepted.bare

    @property
    def is_current(self) -> bool:
        """Whether each drafter has its own options."""
        return self.dialect is Dialect.LLAMA_CPP

    @property
    def flags(self) -> frozenset[str]:
        """Every flag that it takes."""
        return flags_of(self.dialect) if self.accepted is None else self.accepted.flags

    @property
    def variables(self) -> frozenset[str]:
        """Every variable that it reads in place of an option."""
        own = frozenset() if self.accepted is None else self.accepted.variables
        return own or variables_of(self.dialect)

    def takes(self, flag: str) -> bool | None:
        """Whether the server takes a flag; None if unknown."""
        spelled = canonical(flag)
        if self.accepted is not None:
            return spelled in self.accepted.flags
        return None if server_option(spelled) is None else spelled in flags_of(self.dialect)

    def reads(self, variable: str) -> bool | None:
        """Whether the server reads a variable that stands for an option; None if unknown."""
        if self.accepted is not None and self.accepted.variables:
            return variable.replace(NEGATION, PREFIX, 1) in self.accepted.variables
        option = option_of_variable(variable)
        if option is None:
            return None
        # The NO form is llama.cpp's own.
        plain = variable if variable in option.variables else variable.replace(NEGATION, PREFIX, 1)
        is_told = self.dialect is not Dialect.IK or plain == variable
        return is_told and self.dialect in option.variables.get(plain, ())
