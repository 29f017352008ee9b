"""What a preset may set: what a run is made of, and nothing that writes, prints or asks."""

from importlib import import_module
from pathlib import Path

import click

from spectui.cli.given import presettable
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

COMMANDS = ("bench", "cockpit", "doctor", "trace", "tune")
ALONE = {
    *("backend", "chats", "costs", "from", "json", "keep-text", "min-gain"),
    *("out", "parallel", "preset", "prompt-length", "prompts", "quiet", "repeats", "request"),
    *("server-bin", "storage", "study", "time-budget", "timeout", "trials", "tune"),
    *("until", "verbose", "yes"),
}
"""Of the command line alone."""


def test_an_option_of_the_command_line_alone_is_refused_by_name(
    spectui: Spectui, tmp_path: Path
) -> None:
    path, written, found = tmp_path / "mine.toml", tmp_path / "written", set[str]()
    for name in COMMANDS:
        command: click.Command = import_module(f"spectui.cli.{name}").command
        options = {one.removeprefix("--") for param in command.params for one in param.opts}
        alone = {one for one in options - presettable() if not one.startswith("-")}
        found |= alone
        for option in alone:
            path.write_text(f"[options]\n{option} = '{written}'\n")
            assert spectui(*(name,) * (name != "cockpit"), "--preset", path) == 3
            assert spectui.err == (f"error: {path}: a preset cannot set {option}; take it out\n")
            assert not written.exists()
    assert found == ALONE


def test_a_wrong_value_is_said_in_one_sentence(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for line, message in (
        ("model-draft = ['/a', 3]", "option model-draft cannot be ['/a', 3]; correct it"),
        ("ctx-size = -1", "option ctx-size: -1 is out of range; write a number from 1 to 16777216"),
    ):
        path.write_text(f"[options]\n{line}\n")
        assert spectui("bench", "--preset", path) == 3
        assert spectui.err == f"error: {path}: {message}\n"
