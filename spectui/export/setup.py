"""What is exported: a pair, how it drafts, and what the user wants besides."""

import dataclasses
from dataclasses import dataclass

from spectui.config import ContextOptions, ModelOptions, SpeculationConfig
from spectui.errors import BadInputError
from spectui.export.accepted import Accepted
from spectui.export.command import server_arguments
from spectui.export.dialects import Dialect
from spectui.export.words import Given, divide

_ALWAYS = frozenset(
    {
        *("model", "model-draft", "spec-type", "draft-max", "draft-min", "draft-p-min"),
        # Written only where the dialect would take the target's instead.
        *("cache-type-k-draft", "cache-type-v-draft"),
    }
)
"""What has to stand in a command whoever wrote it: defaults changed between versions."""
_STANDS_FOR = {"load-mode": "no-mmap", "override-tensor": "n-cpu-moe"}
"""What a dialect may write for an option that it lacks."""

OFF = "speculation off: no speculative flag is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSetup:
    """Everything that one llama-server shall be started with."""

    target: ModelOptions
    draft: ModelOptions | None
    context: ContextOptions
    speculation: SpeculationConfig | None
    """None for off: nothing speculative is written, whatever ``draft`` and ``extra`` are."""
    extra: tuple[str, ...] = ()
    """The user's own arguments that spectui does not know; they come last, as they stand."""
    name: str
    """What formats that hold several models call this one."""
    has_gpu: bool = True
    """llama.cpp has a GPU to use on this machine."""
    program: str = "llama-server"
    """What is started, as a shell shall read it."""
    accepted: Accepted | None = None
    """What that program takes; None for all that its dialect has."""
    given: frozenset[str] | None = None
    """Names of the options that a command gave, whose defaults stay unwritten; None writes all."""

    def arguments(self, dialect: Dialect) -> list[str]:
        """All arguments, without the program's name.

        Raises:
            BadInputError: the dialect or the program has no words for it, or a path is not valid
                UTF-8.
        """
        arguments = self.words(dialect)
        for argument in (self.program, *arguments):
            if not _is_text(argument):
                raise BadInputError(
                    f"{argument!r} is not valid UTF-8, which export files are; rename the file"
                )
        return arguments

    def words(self, dialect: Dialect) -> list[str]:
        """The same, whatever bytes are in the names of files.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        own = server_arguments(
            self.target, self.draft, self.context, self.speculation, dialect=dialect
        )
        if self.given is not None:
            own = [w for given in divide(own) if _is_wanted(given, self.given) for w in given.words]
        arguments = [*own, *self.kept_extra()]
        return arguments if self.accepted is None else self.accepted.spelled(arguments)

    def kept_extra(self) -> tuple[str, ...]:
        """The user's own arguments; when speculation is off, less those that say how to draft."""
        dropped = self._dropped()
        return tuple(w for g in divide(self.extra) if g not in dropped for w in g.words)

    def comments(self) -> tuple[str, ...]:
        """What a reader of the export has to know, one printable line each."""
        if self.speculation is not None:
            return ()
        left_out = " ".join(given.flag for given in self._dropped())
        lines = [OFF, f"left out of your own arguments: {left_out}"] if left_out else [OFF]
        return tuple("".join(c if c.isprintable() else "?" for c in line) for line in lines)

    def pair(self) -> tuple[ModelOptions, ModelOptions | None]:
        """Target, and the draft if it is used."""
        uses_draft = self.speculation is not None and self.speculation.has_model
        return self.target, self.draft if uses_draft else None

    def with_extra(self, extra: tuple[str, ...]) -> "ExportSetup":
        """The same with other arguments of the user's."""
        return dataclasses.replace(self, extra=extra)

    def _dropped(self) -> tuple[Given, ...]:
        if self.speculation is not None:
            return ()
        return tuple(given for given in divide(self.extra) if given.is_speculative)


def commented(lines: tuple[str, ...], mark: str = "#") -> str:
    """Lines as comments, each ended; an empty text for none."""
    # A line can hold what some reader takes for a line's end.
    return "".join(f"{mark} {part}\n" for line in lines for part in line.splitlines())


def _is_wanted(written: Given, given: frozenset[str]) -> bool:
    name = "" if written.option is None else written.option.name
    return not given.isdisjoint({name, _STANDS_FOR.get(name, name)}) or name in _ALWAYS


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True
