"""What is documented is what the program has, and what is gone names what is left."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import spectui
from spectui.errors import SpectuiError
from tests.support.cli import Spectui
from tools.contract import EXIT_CODES, VARIABLES

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

_VARIABLE = re.compile(r"\bSPECTUI_[A-Z_]+\b")


def _errors(base: type[SpectuiError]) -> Iterator[type[SpectuiError]]:
    yield base
    for one in base.__subclasses__():
        yield from _errors(one)


def test_the_code_of_every_error_is_documented() -> None:
    assert {error.exit_code for error in _errors(SpectuiError)} <= EXIT_CODES.keys()


def test_every_variable_of_the_program_is_documented() -> None:
    sources = Path(spectui.__file__).parent.rglob("*.py")
    named = {name for path in sources for name in _VARIABLE.findall(path.read_text("utf-8"))}
    assert named == {name for name in VARIABLES if name.startswith("SPECTUI_")}


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (
            ["verify", "--no-counts"],
            "--no-counts is gone, and nothing takes its place; leave it out",
        ),
        (["replay", "a.gz", "--costs"], "leave it out"),
        (
            ["replay", "a.gz", "--draft-max", "1,2"],
            "--draft-max is gone, and nothing takes its place; leave it out",
        ),
        (["tune", "--depth", "0,4096"], "--request PROMPT+ANSWER measures behind longer prompts"),
        (["attach", "localhost:1", "--once"], "--json - writes what the server tells now"),
        (["tune", "--group", "a"], "run the same tune with --study and --storage"),
        (["probe", "experts"], "spectui tune measures what experts cost on your prompts"),
        (["--monitor-replay", "a.jsonl"], "leave it out"),
    ],
)
def test_what_is_gone_names_what_is_left(spectui: Spectui, arguments: list[str], left: str) -> None:
    assert spectui(*arguments) == 2
    assert left in " ".join(spectui.err.split())


LOOKS = (
    ("lint", "--no-models", "llama-server -m a.gguf"),
    ("models", "scan", "presets"),
    ("doctor",),
)
RUNS = (
    ("bench",),
    ("trace",),
    ("sweep", "--draft-max", "2"),
    ("tune", "--trials", "1"),
)


@pytest.mark.parametrize("command", [*LOOKS, *RUNS], ids=lambda command: command[0])
def test_a_quiet_run_says_nothing_of_the_files_that_it_wrote(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    models = [*pair, "-n", 4, "--prompts", prompts] if command in RUNS else []
    written = tmp_path / "result.json"
    for quiet in ([], ["--quiet"]):
        spectui(*command, *models, "--json", written, *quiet)
        assert written.stat().st_size, spectui.err
        assert ("written to" in spectui.err) is not bool(quiet), spectui.err
        written.unlink()
