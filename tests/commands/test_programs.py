"""llama.cpp's programs in commands: the server under two names, and others."""

from pathlib import Path

import pytest

from spectui.commands.lint.checking import fixed, lint
from spectui.commands.programs import names_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.server_options import server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import translated
from spectui.errors import BadInputError
from spectui.severity import Severity
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.cli_fixtures"]


@pytest.mark.parametrize(
    ("word", "program"),
    [
        ("llama-server", "llama-server"),
        (r"C:\llama\llama-server.exe", "llama-server"),
        ("./server", "llama-server"),
        ("server.exe", "llama-server"),
        ("/opt/llama.cpp/build/bin/main", "llama-cli"),
        ("build/bin/perplexity", "llama-perplexity"),
        ("llama-bench", "llama-bench"),
        ("server", None),
        ("main", None),
        ("/opt/other", None),
    ],
)
def test_the_program_of_a_word(word: str, program: str | None) -> None:
    assert program_of(word) == program


def test_which_commands_start_the_server() -> None:
    for words in ("./server -m a", "A=1 sudo nice -n 5 ./server -m a", "my-wrapper llama-server"):
        assert names_server(words.split())
    for words in ("make -C ./server -j", "cp a ./server", "llama-cli -m a", "server -m a"):
        assert not names_server(words.split())


@pytest.mark.parametrize(
    ("text", "program", "right"),
    [
        ("./server -m a -c 5", "./server", "./llama-server -m a -c 5"),
        (
            "numactl -N 0 ./main -m a -p hi -i -n 9",
            "./main",
            "numactl -N 0 ./llama-server -m a -n 9",
        ),
        (
            "X=1 b/llama-cli -m a -st -sys 'Be kind.' --color on",
            "b/llama-cli",
            "X=1 b/llama-server -m a",
        ),
        (
            "llama-perplexity -m a -f b.raw --chunks 9 -c 512",
            "llama-perplexity",
            "llama-server -m a -c 512",
        ),
    ],
)
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


def test_options_of_other_programs_are_no_servers() -> None:
    option = server_option("--single-turn")
    assert option is not None
    assert option.programs == ("llama-cli", "llama-completion")
    assert not option.taken
    # A prompt says nothing of the age of a command.
    assert not read_command("llama-server -m a -md b -p hello").is_old


@pytest.mark.parametrize(
    "text",
    [
        "llama-bench -m a -p 512",
        "llama-bench",
        "numactl -N 0 ./build/bin/llama-bench -m a",
        "llama-run a.gguf hi",
        "./quantize a.gguf b.gguf Q4_K_M",
    ],
)
def test_a_program_with_other_options_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="whose options are not llama-server's"):
        read_command(text)


def test_scripts_of_old_programs(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("#!/bin/sh\nllama-bench -m a\nexport X=1\n./server -m a -c 5\n", "utf-8")
    assert read_command(str(path)).value("ctx-size") == "5"
    path.write_text("#!/bin/sh\n./main -m a -c 6\n", "utf-8")
    assert read_command(str(path)).value("ctx-size") == "6"


# A server without a model, and variables that nobody reads


@pytest.mark.parametrize("text", ["llama-server", "llama-server -c 5"])
def test_a_server_without_a_model_is_a_router(spectui: Spectui, text: str) -> None:
    assert spectui("lint", text) == 0
    assert "note: no model is named, so that llama-server starts as a router" in spectui.out
    assert spectui("lint", "--dialect", "ik", text) == 0
    assert "warning: no model is named" in spectui.out


def test_a_model_anywhere_makes_no_router(spectui: Spectui) -> None:
    for words in ("-hf a/b", "--models-dir d", "-mu https://h/a.gguf", "--fim-qwen-7b-spec"):
        assert spectui("lint", f"llama-server {words}") == 0
        assert "router" not in spectui.out
