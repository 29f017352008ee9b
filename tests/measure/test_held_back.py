"""What of the user's command a server of spectui's own does not get."""

import shlex
from pathlib import Path

import pytest

from spectui.commands.measured import own_arguments, own_environment
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.measure.servers import measuring_arguments
from spectui.options.setup import ContextOptions, ModelOptions, Setup
from spectui.server.binary import examine
from tests.support.scripted_server import write_server


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("--log-file prod.log --jinja", "--jinja"),
        ("--log-file=prod.log --jinja", "--jinja"),
        ("--log-prompts-dir p --slot-save-path s -v", "-v"),
        ("-lcd a --lookup_cache-dynamic b -lcs c", "-lcs c"),
        ("--tools all -ag --mcp-servers-config x --lora l", "--lora l"),
        ("--sql-save-file x.db --host h --port 1 --api-key k", ""),
    ],
)
def test_no_file_of_the_users_is_written(text: str, kept: str) -> None:
    assert shlex.join(own_arguments(shlex.split(text))) == kept


def test_variables_as_little_as_options() -> None:
    given = {"LLAMA_ARG_LOG_FILE": "a", "LLAMA_LOG_FILE": "b", "LLAMA_ARG_HOST": "h", "PATH": "p"}
    assert own_environment(given) == {"PATH": "p"}


def test_a_command_that_logs_is_measured_without(tmp_path: Path) -> None:
    binary = examine(str(write_server(tmp_path / "llama-server")))
    command = "LLAMA_ARG_LOG_FILE=a.log llama-server -m t.gguf --log-file b.log"
    setup = Setup(
        target=ModelOptions(path=Path("t.gguf")),
        draft=None,
        context=ContextOptions(),
        speculation=None,
        extra=take_over(read_command(command)).extra,
    )
    arguments = measuring_arguments(setup, binary)
    assert not {"--log-file", "a.log", "b.log"} & set(arguments)
