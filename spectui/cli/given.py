"""Options of one command line, who gave each, and the command that was taken over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from spectui.commands.takeover import Takeover

TAKEN = "spectui.taken"
"""Key under which click's context keeps the command that ``--from`` has read."""
WORDS = "spectui.words"
"""Key under which it keeps the options as they were typed, for commands that another repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Mapping[str, Any]):
    """Values of a command's options by parameter, and who gave them."""

    parsed: Mapping[str, Any]
    typed: frozenset[str] = frozenset()
    """Parameters that the user has typed."""
    inherited: frozenset[str] = frozenset()
    """Parameters whose value is a preset's, the demo's, or that of the command of ``--from``."""
    takeover: "Takeover | None" = None
    """The command of ``--from``, with what was typed beside it; None without one."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Options as they were typed, by parameter, for another command to repeat."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """First flag of each parameter."""

    @classmethod
    def of(cls, context: click.Context) -> "Given":
        """Read the options of a command that was parsed."""
        flags = {one.name or "": one.opts[0] for one in context.command.params if one.opts}
        sources = {name: context.get_parameter_source(name) for name in flags}
        typed = frozenset(n for n, who in sources.items() if who is ParameterSource.COMMANDLINE)
        takeover: Takeover | None = context.meta.get(TAKEN)
        if takeover is not None:
            names = frozenset(name.replace("_", "-") for name in typed)
            takeover = replace(takeover, typed=names)
        return cls(
            parsed=context.params,
            typed=typed,
            inherited=frozenset(
                n for n, who in sources.items() if who is ParameterSource.DEFAULT_MAP
            ),
            takeover=takeover,
            words=context.meta.get(WORDS, {}),
            flags=flags,
        )

    def __getitem__(self, name: str) -> Any:
        """The value of a parameter."""
        return self.parsed[name]

    def __iter__(self) -> Iterator[str]:
        """The parameters."""
        return iter(self.parsed)

    def __len__(self) -> int:
        """Number of parameters."""
        return len(self.parsed)

    @property
    def chosen(self) -> frozenset[str]:
        """Parameters that are not left to their defaults."""
        return self.typed | self.inherited

    def changed(self, **values: object) -> "Given":
        """The same with other values."""
        return replace(self, parsed={**self.parsed, **values})

    @property
    def extra(self) -> tuple[str, ...]:
        """Arguments of the command of ``--from`` that an export does not write itself."""
        return () if self.takeover is None else self.takeover.extra

    @property
    def served_extra(self) -> tuple[str, ...]:
        """Arguments of that command for a server that is started in its place."""
        return () if self.takeover is None else self.takeover.served

    def is_of_command(self, name: str) -> bool:
        """Whether an option's value, by its long name, is that of the command of ``--from``."""
        found = self.takeover
        return found is not None and name not in found.typed and name in found.options
