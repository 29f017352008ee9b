"""Exports an existing command in other words, with every option in its place."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.cli.taken_drafting import Drafting, drafting_of
from spectui.export.accepted import Accepted
from spectui.export.launch import Launch, printable
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.rewriting.rewrite import rewritten
from spectui.export.setup import told
from spectui.export.sources import Source
from spectui.lint import lint
from spectui.options.dialect import Dialect
from spectui.severity import Severity

_NAMES = ("model", "hf-repo", "model-url", "docker-repo", "models-preset", "models-dir")
"""Options that name the served model, the most specific first."""
_NO_FILE = "the command names no file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCommand:
    """A command, and the llama-server that will read it."""

    source: Source
    command: Command
    accepted: Accepted | None = None
    """Options that the program takes; None for all of its dialect."""
    program: str | None = None
    """Program to start instead of the command's own."""
    has_gpu: bool = True

    @property
    def contained(self) -> "TakenCommand":
        """The command with the paths of its container, if it was taken out of one."""
        inside = self.source.inside
        if inside is None:
            return self
        source = replace(inside, entries=self.source.entries)
        return replace(self, source=source, command=Command.of(source))

    @property
    def name(self) -> str:
        """Name of the served model, for formats that hold several."""
        named = next((entry.name for entry in self.source.entries if entry.name), None)
        if named is not None:
            return named
        value = next((v for name in _NAMES if (v := self.command.value(name))), "model")
        path = Path(value.partition(":")[0])
        return path.stem if path.suffix in {".gguf", ".ini"} else path.name

    def files(self) -> tuple[Path, ...]:
        """Files that the command reads."""
        values = (self.command.value(name) for name in ("model", "model-draft"))
        return tuple(Path(value) for value in values if value)

    def drafting(self, dialect: Dialect) -> Drafting:
        """The command with its drafting settled for the dialect.

        Raises:
            BadInputError: the dialect has no words for who drafts.
        """
        return drafting_of(self.command, self._reader(dialect))

    def dropped(self, dialect: Dialect) -> tuple[Item, ...]:
        """Options that this dialect does not have, which are left out.

        Raises:
            BadInputError: the dialect has no words for who drafts.
        """
        return rewritten(self.drafting(dialect).command, self._reader(dialect)).dropped

    def launch(self, dialect: Dialect) -> Launch:
        """The launch of a llama-server of that dialect with this command.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        drafting = self.drafting(dialect)
        arguments = rewritten(drafting.command, self._reader(dialect)).command.arguments
        if self.accepted is not None:
            arguments = tuple(self.accepted.spelled(arguments))
        start = self.source.started.running(self.program)
        return Launch(
            name=self.name,
            program=start.program,
            environment=start.environment,
            arguments=arguments,
            dialect=dialect,
            accepted=self.accepted,
            has_gpu=self.has_gpu,
            entries=self.source.entries,
            document=self._document(drafting),
        )

    def told_of(self, dialect: Dialect) -> Iterator[str]:
        """Sentences about differences between the export and the command.

        Raises:
            BadInputError: the dialect has no words for who drafts.
        """
        yield from self.drafting(dialect).notes
        yield from self._refused(dialect)
        dropped = self.dropped(dialect)
        if dropped:
            words = shlex.join(word for item in dropped for word in item.given.words)
            yield f"left out, since {self._reader(dialect).name} has no such option: " + printable(
                words
            )

    def _refused(self, dialect: Dialect) -> Iterator[str]:
        """Warnings about options that the reader would refuse or ignore."""
        reader = self._reader(dialect)
        command = rewritten(self.drafting(dialect).command, reader).command
        # Variables are written as arguments.
        written = replace(
            command, items=tuple(replace(item, variable=None) for item in command.items)
        )
        for finding in lint(written, reader):
            if finding.severity is Severity.ERROR:
                instead = f" (write: {finding.replacement})" if finding.replacement else ""
                yield printable(f"mind that {finding.what}: {finding.why}{instead}")

    def _reader(self, dialect: Dialect) -> Reader:
        flags = None if self.accepted is None else self.accepted.flags
        return Reader(dialect=dialect, accepted=flags)

    def _document(self, drafting: Drafting) -> dict[str, object]:
        document: dict[str, object] = {}
        for key, name in (("target", "model"), ("draft", "model-draft")):
            value = self.command.value(name)
            document[key] = value
            if value is None:
                document[f"{key}_reason"] = f"{_NO_FILE} with {'-m' if key == 'target' else '-md'}"
        if drafting.speculation is None:
            return document | {"speculation": None, "speculation_reason": drafting.reason}
        return document | {"speculation": told(drafting.speculation)}
