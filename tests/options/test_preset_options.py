"""What a preset may set: what a run is made of, and nothing that writes, prints or asks."""

from importlib import import_module
from pathlib import Path

import click

from spectui.cli.defaults import presettable
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

OWN = {
    "bench": {
        *("backend", "baseline-url", "from", "json", "keep-both", "parallel", "preset"),
        *("prompt-length", "prompts", "quiet", "repeats", "request", "server-bin", "server-url"),
        *("isolate", "timeout", "verbose", "yes"),
    },
    "cockpit": {"ascii", "from", "isolate", "preset", "theme", "yes"},
    "doctor": {"from", "json", "libraries", "preset", "prompts", "quiet", "verbose"},
    "trace": {
        *("costs", "from", "json", "keep-text", "out", "preset", "prompts", "quiet", "verbose"),
        "isolate",
        "yes",
    },
    "tune": {
        *("backend", "depth", "dialect", "from", "json", "keep-both", "min-gain", "parallel"),
        *("preset", "prompts", "quiet", "repeats", "request", "resume", "server-bin"),
        *("storage", "study", "time-budget", "timeout", "trials", "tune", "verbose"),
        *("isolate", "pin", "yes"),
    },
}
"""Of the command line alone."""


@table("module", sorted(OWN))
def test_a_preset_says_what_is_run_and_not_how_a_command_goes_about_it(module: str) -> None:
    command: click.Command = import_module(f"spectui.cli.{module}").command
    names = {
        name.removeprefix("--")
        for param in command.params
        for name in param.opts
        if name.startswith("--")
    }
    assert names - presettable() == OWN[module]


@table(
    ("command", "option"),
    [(command, option) for command, options in OWN.items() for option in sorted(options)],
)
def test_an_option_of_the_command_line_alone_is_refused_by_name(
    spectui: Spectui, tmp_path: Path, command: str, option: str
) -> None:
    path, written = tmp_path / "mine.toml", tmp_path / "written"
    path.write_text(f"[options]\n{option} = '{written}'\n")
    arguments = () if command == "cockpit" else (command,)
    assert spectui(*arguments, "--preset", path) == 3
    assert spectui.err == (
        f"error: {path}: a preset may not set {option}, which is for the command line alone; take "
        "it out\n"
    )
    assert not written.exists()


@table(
    ("line", "message"),
    [
        ("model-draft = ['/a', 3]", "option model-draft cannot be ['/a', 3]; correct it"),
        ("ctx-size = -1", "option ctx-size: -1 is not in the range 1<=x<=2147483647; correct it"),
    ],
)
def test_a_wrong_value_is_said_in_one_sentence(
    spectui: Spectui, tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"[options]\n{line}\n")
    assert spectui("bench", "--preset", path) == 3
    assert spectui.err == f"error: {path}: {message}\n"
