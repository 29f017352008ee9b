"""What of the user's command a server of spectui's own does not get."""

import re
import shlex
from pathlib import Path

import pytest

from spectui.commands.measured import own_arguments, own_environment
from spectui.commands.server_options import flags_of, server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.measure.servers import measuring_arguments
from spectui.options.dialect import Dialect
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
        ("--model-url http://h/m -mmu http://h/p --hf-token t -hf a/b -c 5", "-c 5"),
        ("--sqlite-zstd-ext-file x.so --video-ffmpeg-dir d --of-next-year 5 -t 2", "-t 2"),
    ],
)
def test_no_file_of_the_users_is_written(text: str, kept: str) -> None:
    assert shlex.join(own_arguments(shlex.split(text))) == kept


def test_variables_as_little_as_options() -> None:
    given = {"LLAMA_ARG_LOG_FILE": "a", "LLAMA_LOG_FILE": "b", "LLAMA_ARG_HOST": "h", "PATH": "p"}
    assert own_environment(given) == {"PATH": str(Path.cwd() / "p")}


def test_paths_of_the_user_lead_where_they_led(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"LD_LIBRARY_PATH": "lib::/opt", "LLAMA_ARG_CHAT_TEMPLATE_FILE": "t.jinja"}
    assert own_environment(given) == {
        "LD_LIBRARY_PATH": f"{tmp_path}/lib::/opt",
        "LLAMA_ARG_CHAT_TEMPLATE_FILE": f"{tmp_path}/t.jinja",
    }


def test_a_variable_that_fetches_or_is_secret_is_not_inherited() -> None:
    given = {
        "LLAMA_ARG_MODEL_URL": "http://h/m",
        "LLAMA_ARG_OF_NEXT_YEAR": "1",
        "HF_TOKEN": "secret",
        "LLAMA_ARG_THREADS": "3",
        "GGML_BACKEND_PATH": "/own/libggml-rpc.so",
    }
    kept = {"LLAMA_ARG_THREADS": "3", "GGML_BACKEND_PATH": "/own/libggml-rpc.so"}
    assert own_environment(given) == kept


def test_harmless_options_neither_fetch_nor_run_nor_write_nor_listen() -> None:
    text = {flag for flags in (flags_of(dialect) for dialect in Dialect) for flag in flags}
    harmless = [flag for flag in text if (one := server_option(flag)) and one.is_harmless]
    suspect = re.compile(
        r"url|hf|repo|token$|-key|host|port|tools|mcp|agent|-dir$|log-file|save|dynamic|ext-file|path"
        r"|sql|ssl|cors|prompt-cache|webui|--ui|-default$|-spec$"
    )
    allowed = {
        *("--spec-default", "--no-host"),
        *("--allowlist-keyword", "--allowlist-keyword-delay"),
    }
    assert {flag for flag in harmless if suspect.search(flag)} == allowed


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
