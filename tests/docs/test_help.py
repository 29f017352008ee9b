"""Help: every option has a subject, every example is a command that is understood."""

import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from spectui.cli import app
from spectui.cli.help import Command, Group, subjects
from tests.support.tables import table

HELP_NAMES = ["-h", "--help"]
FEW = 10
"""Options that need no subjects."""
LINE = "llama-server -m target.gguf -md draft.gguf --draft-max 8 -c 4096\n"


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _commands(child, f"{path} {name}")


COMMANDS = dict(_commands(app, "spectui"))
EXAMPLES = [
    line
    for command in COMMANDS.values()
    if isinstance(command, Command | Group)
    for _what, line in command.examples
]


@table("path", COMMANDS)
def test_a_command_of_many_options_has_them_by_subject(path: str) -> None:
    command = COMMANDS[path]
    found = subjects(command, click.Context(command, help_option_names=HELP_NAMES))
    n_options = sum(map(len, found.values()))
    assert ("Output" in found) == (n_options > FEW)
    shown = CliRunner().invoke(command, ["--help"], help_option_names=HELP_NAMES).output
    assert all(f"\n{subject}:\n" in shown for subject in found)


def test_every_command_of_the_program_has_examples() -> None:
    listed = {f"spectui {name}" for name in app.list_commands(click.Context(app))}
    shown = {" ".join(line.split()[:2]) for line in EXAMPLES}
    assert listed - shown <= {"spectui cockpit", "spectui presets"}


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_is_understood(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.sh").write_text(LINE)
    name, *words = takewhile(lambda word: not word.startswith(">"), shlex.split(line))
    command: click.Command = app
    while isinstance(command, click.Group):
        at = words.pop(0) if words and not words[0].startswith("-") else "cockpit"
        found = command.get_command(click.Context(command), at)
        assert found is not None
        name, command = f"{name} {at}", found
    with command.make_context(name, words) as ctx:
        assert ctx.params
