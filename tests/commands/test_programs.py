"""llama.cpp's programs in commands: the server under two names, and others."""

import pytest

from spectui.commands.lint.checking import fixed, lint
from spectui.commands.programs import program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import translated
from spectui.errors import BadInputError
from spectui.severity import Severity
from tests.support.cli import Spectui
from tests.support.tables import rules, table

pytest_plugins = ["tests.support.cli_fixtures"]


@table(("word", "program"), rules()["programs"])
def test_the_program_of_a_word(word: str, program: str) -> None:
    assert program_of(word) == (None if program == "?" else program)


@table(("text", "program", "right"), rules()["others"])
def test_another_program_is_told_and_its_own_options_are_left_out(
    text: str, program: str, right: str
) -> None:
    command = read_command(text)
    assert started_by(command) == program
    [told] = [one for one in lint(command, Reader()) if one.flag == program]
    assert (told.severity, told.replacement) == (
        Severity.NOTE,
        right.split(" -m ", maxsplit=1)[0].rpartition(" ")[2],
    )
    assert fixed(command, Reader()).text == right
    launch = translated(command, Reader())
    assert launch.text == right
    assert any(program in note for note in launch.notes)


def test_an_option_of_another_program_is_told_as_its() -> None:
    for text, program in (("llama-server -m a -st", "llama-cli"), ("./main -m a -i", "llama-cli")):
        [error] = [
            one for one in lint(read_command(text), Reader()) if one.severity is Severity.ERROR
        ]
        assert error.why == f"it is an option of {program}, and stops the server"
        assert error.replacement == ""


def test_a_program_with_other_options_is_refused() -> None:
    for text in ("numactl -N 0 ./bin/llama-bench -m a", "llama-run a.gguf hi", "./quantize a b Q8"):
        with pytest.raises(BadInputError, match="whose options are not llama-server's"):
            read_command(text)


# A server without a model, and variables that nobody reads


@table("text", ["llama-server", "llama-server -c 5"])
def test_a_server_without_a_model_is_a_router(spectui: Spectui, text: str) -> None:
    assert spectui("lint", text) == 0
    assert "note: no model is named, so that llama-server starts as a router" in spectui.out
    assert spectui("lint", "--dialect", "ik", text) == 0
    assert "warning: no model is named" in spectui.out
