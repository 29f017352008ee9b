"""Help: every option has a subject, every example is a command that is understood."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from spectui.cli.app import app
from spectui.cli.help import Command, Group, subjects
from tests.support.tables import table

HELP_NAMES = ["-h", "--help"]
SHORT = 80
"""Most lines of the short help."""
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]+")
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
def test_every_option_has_a_subject_and_the_short_help_is_a_part_of_the_long_one(path: str) -> None:
    command, runner = COMMANDS[path], CliRunner()
    found = subjects(command, click.Context(command, help_option_names=HELP_NAMES))
    assert "Options" not in found or len(found) == 1
    short, long = (
        runner.invoke(command, [word], help_option_names=HELP_NAMES).output
        for word in ("-h", "--help")
    )
    if "-h " not in long.replace("-h, --help", ""):
        assert short == long
        return
    assert short.count("\n") < min(SHORT, long.count("\n"))
    assert set(OPTION.findall(short)) <= set(OPTION.findall(long))
    assert "--help" in short


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
