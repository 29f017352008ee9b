"""Real commands, what spectui makes of them, and what the export makes of that."""

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

from spectui.commands.command import ServerCommand
from spectui.commands.items import words_of
from spectui.commands.launch import ExportSetup
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import Takeover, take_over
from spectui.options.option import Dialect

_FILE = Path(__file__).parent.parent / "data" / "commands" / "commands.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCommand:
    """An entry of ``commands.toml``, which explains the fields."""

    name: str
    dialect: Dialect
    command: str
    file: str | None = None
    choose: str | None = None
    takes: dict[str, str]
    keeps: list[str] | None

    def given(self, folder: Path) -> str:
        """What ``--from`` gets; its file is written into ``folder``."""
        if self.file is None:
            return self.command
        path = folder / self.file
        path.write_text(self.command.removeprefix("\n"), "utf-8")
        return str(path) if self.choose is None else f"{path}:{self.choose}"


def real_commands() -> list[RealCommand]:
    entries = tomllib.loads(_FILE.read_text("utf-8"))
    return [
        RealCommand(
            name=name,
            dialect=Dialect(entry["dialect"]),
            command=entry["command"],
            file=entry.get("file"),
            choose=entry.get("choose"),
            takes=entry.get("takes", {}),
            keeps=shlex.split(entry["keeps"]) if "keeps" in entry else None,
        )
        for name, entry in entries.items()
    ]


def typed(command: ServerCommand) -> tuple[str, ...]:
    return words_of(item for item in command.items if item.variable is None)


def variables(command: ServerCommand) -> dict[str, tuple[str, ...]]:
    return {item.variable: item.words for item in command.items if item.variable is not None}


def setup_of(taken: Takeover) -> ExportSetup:
    """What the commands of spectui make of it, as the screen does."""
    setup = taken.to_setup()
    needs_draft = setup.speculation is not None and setup.speculation.needs_draft
    return ExportSetup(
        target=setup.target,
        draft=setup.draft,
        context=setup.context,
        speculation=None if setup.draft is None and needs_draft else setup.speculation,
        extra=setup.extra,
        name="real",
    )


def arguments_of(setup: ExportSetup, dialect: Dialect = Dialect.LLAMA_CPP) -> list[str]:
    """All words behind the program."""
    return list(setup.launch(dialect).command.arguments)


def again(setup: ExportSetup, dialect: Dialect) -> tuple[Takeover, list[str]]:
    arguments = arguments_of(setup, dialect)
    return take_over(read_command(shlex.join(["llama-server", *arguments]))), arguments
