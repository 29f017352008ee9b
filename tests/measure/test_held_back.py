"""What of the user's command a server of spectui's own does not get."""

import os
import re
import shlex
from pathlib import Path

import pytest

from spectui.commands.measured import own_arguments, own_environment
from spectui.commands.server_options import flags_of, server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.options.option import Dialect


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


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"LLAMA_ARG_LOG_FILE": "a", "LLAMA_LOG_FILE": "b", "LLAMA_ARG_HOST": "h"}, {}),
        ({"LLAMA_ARG_MODEL_URL": "http://h/m", "LLAMA_ARG_OF_NEXT_YEAR": "1", "HF_TOKEN": "s"}, {}),
        ({"LLAMA_ARG_THREADS": "3", "XDG_CONFIG_HOME": "/c"}, {"LLAMA_ARG_THREADS": "3"}),
        ({"GGML_BACKEND_PATH": "/own/rpc.so"}, {"GGML_BACKEND_PATH": "/own/rpc.so"}),
        # Paths lead where they led.
        ({"PATH": "p"}, {"PATH": "{}/p"}),
        ({"LD_LIBRARY_PATH": "lib::/opt"}, {"LD_LIBRARY_PATH": "{}/lib::/opt"}),
        (
            {"LLAMA_ARG_CHAT_TEMPLATE_FILE": "t.jinja"},
            {"LLAMA_ARG_CHAT_TEMPLATE_FILE": "{}/t.jinja"},
        ),
    ],
)
def test_variables_as_little_as_options(given: dict[str, str], kept: dict[str, str]) -> None:
    found = own_environment(given)
    # Of the user's llama.cpp/config.ini it has nothing.
    assert found.pop("XDG_CONFIG_HOME") == os.devnull
    assert found == {name: text.format(Path.cwd()) for name, text in kept.items()}


def test_what_is_taken_over_of_a_command_does_not_log() -> None:
    taken = take_over(
        read_command("LLAMA_ARG_LOG_FILE=a.log llama-server -m t.gguf --log-file b.log --jinja")
    )
    assert own_arguments(taken.extra) == ("--jinja",)


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
