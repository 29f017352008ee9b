"""Where a command can be found: what is read, and what is said of what cannot be."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spectui.commands.server_options import PREFIX, flags_of, server_option
from spectui.commands.server_options import table as server_table
from spectui.commands.sources.processes import running_servers
from spectui.commands.sources.reading import read_command, read_paste
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError
from spectui.options.catalogue import OPTIONS
from spectui.options.option import Dialect
from spectui.server.kept import KeptProcess
from tests.commands.test_export import hostile
from tests.commands.test_shell_scripts import parts
from tests.support.commands import typed, variables
from tests.support.tables import rules, table

pytest_plugins = ["tests.support.fixtures"]


def words_of(text: str) -> tuple[str, ...]:
    return read_command(text).arguments


def in_file(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content, "utf-8")
    return str(path)


# A hostile value, wherever it stands, is one argument.

HOSTILE = "a'; rm -rf ~ #.gguf"
printable = hostile.filter(lambda text: text.isprintable())


@given(word=hostile)
def test_a_shell_quotes_what_is_split_again(word: str) -> None:
    assert words_of(shlex.join(["llama-server", "--alias", word])) == ("--alias", word)


@given(word=printable)
def test_a_compose_file_with_a_list(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    service = {
        "image": "ghcr.io/ggml-org/llama.cpp:server",
        "command": ["--alias", word.replace("$", "$$"), "-v"],
    }
    text = yaml.safe_dump({"services": {"a": service}}, allow_unicode=True)
    path = in_file(tmp_path_factory.getbasetemp(), "hostile.yaml", text)
    assert words_of(path) == ("--alias", word, "-v")


# Shell


@table(("text", "reason"), rules()["unreadable"])
def test_what_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        take_over(read_command(text))
    assert "\n" not in str(caught.value)


# Files


IMAGE = "services: {a: {image: llama.cpp, "
UNREADABLE = [
    ("a.service", "# x\n[Unit]\nA=b\n", "a systemd unit, which .* pid:NUMBER"),
    ("a.yaml", "apiVersion: v1\nkind: Pod\n", "a Kubernetes file, which .* pid:NUMBER"),
    ("Dockerfile", "# x\nFROM x\nCMD llama-server\n", "a Dockerfile, which .* pid:NUMBER"),
    ("a.bat", "@echo off\nllama-server ^\n -m a\n", "a shell of Windows, which .* pid:NUMB"),
    ("a.ps1", "$m = 'a'\nllama-server -m $m\n", "a shell of Windows, which .* pid:NUMBER"),
    ("a.json", '{"command": "llama-server", "args": ["-m", "a"]}', "is JSON, .* pid:NUMBER"),
    ("a.yaml", f"{IMAGE}volumes: 5}}}}", "names no model"),
    ("a.yaml", f"{IMAGE}extends: b}}}}", "has extends, .* docker compose config"),
    ("a.yaml", f"{IMAGE}env_file: b}}}}", "has env_file, .* docker compose config"),
    ("a.yaml", f"{IMAGE}command: -m $A}}}}", r"a has \$A, .* docker compose config prints"),
    ("a.yaml", f"{IMAGE}command: [$$, '${{A:-b}}']}}}}", r"has \$\{A:-b\}, .* config prints"),
    ("a.sh", "docker run --env-file b llama.cpp -m a", "give its variables with -e"),
    ("a.txt", "\0", "is no text"),
    ("a.txt", "\ud800", "is no text"),
    ("a.yaml", f"x: &x 1\n{IMAGE}command: *x}}}}", "line 2 refers to another part of the file"),
    ("a.yaml", f"{IMAGE}command: {'[' * 5000}", "no YAML that can be read"),
    ("a.yaml", f"{IMAGE}x: !!python/name:os.system ''}}}}", "no valid YAML .line 1: could not"),
    ("a.yaml", f"{IMAGE}}}}}\nx: {'y' * (1 << 18)}", "has more than 262144 char"),
    ("a.gguf", "\0" * (1 << 21), "larger than"),
]


@table(("name", "content", "reason"), UNREADABLE)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: str, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadInputError, match=reason) as caught:
        take_over(read_command(str(path)))
    assert "\n" not in str(caught.value)


def test_dates_and_long_numbers_of_yaml_are_text(tmp_path: Path) -> None:
    digits = "9" * 6000
    text = (
        "services: {a: {image: llama.cpp, command: [-m, a, --alias, 2026-01-02, -c, 010, "
        f"--port, 22:22, --temp, 1_0, --seed, {digits}], environment: {{CUDA_A: 2026-01-02}}}}}}"
    )
    source = read_command(in_file(tmp_path, "a.yaml", text))
    assert typed(source)[3::2] == ("2026-01-02", "010", "22:22", "1_0", digits)
    assert source.start.environment == (("CUDA_A", "2026-01-02"),)


@table(
    ("name", "content"),
    [
        ("a.sh", "M=a\nllama-server -m $M \\\n    -c 5\n"),
        ("a.ini", "[x]\nm = a\nc = 5\n"),
        ("a.yaml", "models:\n  x:\n    cmd: |\n      llama-server\n      -m a -c 5\n"),
    ],
)
def test_lines_may_end_as_those_of_windows(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.replace("\n", "\r\n").encode())
    assert sorted(words_of(str(path))) == ["-c", "-m", "5", "a"]


def test_a_name_with_colons_chooses(tmp_path: Path) -> None:
    path = in_file(tmp_path, "a:b.ini", "[*]\nc=1\n[x:Q4]\nm=a\nngl=5\n[y]\nm=b\nc=2\n")
    assert words_of(f"{path}:x:Q4") == ("-c", "1", "-m", "a", "-ngl", "5")
    assert words_of(f"{path}:y") == ("-c", "2", "-m", "b")


PIECES = r"""
llama-server @ -m @ m.gguf @ -fa @ --x=y @ ' @ " @ \ @ $A @ ${A:-b} @ $( @ ` @ # @ ; @ = @ [Service]
kind: Pod @ ^ @ C:\x @ %% @ $$ @ services: @ models: @   a: @     image: llama.cpp
    command: @     cmd: @ - @ [a] @ model @ { @ } @ é @ docker run -v @ sh -c @ LLAMA_ARG_MODEL=
"""
FRAGMENTS = st.sampled_from(["\n", " ", "\x00", *parts(PIECES)])


@given(parts=st.lists(st.one_of(FRAGMENTS, st.text(max_size=3)), max_size=20), typed=st.booleans())
def test_whatever_it_is_it_is_read_or_refused(
    *, parts: list[str], typed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "".join(parts)
    if not typed:
        path = tmp_path_factory.getbasetemp() / "anything"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        text = str(path)
    with suppress(BadInputError):
        take_over(read_command(text))


# Processes


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho ready\nread line\n", "utf-8")
    program.chmod(0o755)
    with subprocess.Popen(
        [program, "-m", "models/m.gguf", "--alias", HOSTILE],
        cwd=tmp_path,
        env={**os.environ, f"{PREFIX}CTX_SIZE": "4096", "SECRET": "x"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("\n")


def test_a_process_that_runs(running: subprocess.Popen[str], tmp_path: Path) -> None:
    source = read_command(f"pid:{running.pid}")
    assert variables(source) == {"LLAMA_ARG_CTX_SIZE": ("--ctx-size", "4096")}
    assert typed(source) == ("-m", f"{tmp_path}/models/m.gguf", "--alias", HOSTILE)


def test_those_that_run_without_those_that_spectui_measures(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    found = {server.pid: server for server in running_servers()}
    command = found[running.pid].command
    assert command is not None
    assert command.value("model") == f"{tmp_path}/models/m.gguf"
    assert read_command(found[running.pid].text) == command
    program = [str(tmp_path / "llama-server"), "-m", "m.gguf"]
    with KeptProcess(program, grace_s=0) as measured:
        assert measured.pid not in {server.pid for server in running_servers()}


# The tables

REMOVED = {
    *("--draft", "--draft-n", "--draft-max", "--draft-min", "--draft-n-min"),
    *("--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits"),
}
"""What the real server still lists, to say that it is gone."""


def test_what_spectui_knows_is_what_llama_server_knows() -> None:
    for option in OPTIONS:
        for flag in option.flags:
            server = server_option(flag)
            assert server is not None, flag
            assert (server.arity_of(flag).value == 0) == option.is_switch, flag


@pytest.mark.server
def test_the_table_is_that_of_the_real_server(llama_server_binary: Path) -> None:
    said = subprocess.run(
        [llama_server_binary, "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    lines = [line.replace(",", " ").split() for line in said.splitlines() if line[:1] == "-"]
    flags = {
        flag
        for line in lines
        for flag in takewhile(lambda word: word.startswith("-"), line)
        if flag.strip("-")
    }
    assert flags - flags_of(Dialect.LLAMA_CPP) == REMOVED
    later = {word for line in server_table("llama.cpp-later") for word in line.split()}
    assert flags_of(Dialect.LLAMA_CPP) - later <= flags


CONFIG = """name: stack
services:
  llm:
    command: [-m, /models/a, --alias, $$5, -c, "5"]
    entrypoint: null
    environment: {HF_TOKEN: null, CUDA_X: "1"}
    image: ghcr.io/ggml-org/llama.cpp:server
    networks: {default: null}
    ports: [{mode: ingress, target: 8080, published: "8080", protocol: tcp}]
    volumes: [{type: bind, source: /srv/models, target: /models, bind: {}}]
networks: {default: {name: stack_default}}
"""
"""As ``docker compose config`` prints it."""
SWAP = r"""macros:
  server: "llama-server \\\n  --port ${PORT}"
  common: "\n# of all\n-ngl 99 \\\n-fa on"
  4090-args: -dev CUDA0
  size: 5
models:
  a:
    env: ["LLAMA_ARG_CTX_SIZE=${size}"]
    cmd: |
      # not ${this}
      ${server} ${common}
      ${4090-args} -m m/a
"""
"""With comments and line ends in macros."""
FULL = "docker run -v /srv:/models ghcr.io/ggml-org/llama.cpp:full-cuda{}"


@table(
    ("text", "words"),
    [
        (".\\llama-server.exe -m D:\\x --alias 'D:\\y'", "-m 'D:\\x' --alias 'D:\\y'"),
        ("llama-server -m a `\r\n  -c 5", "-m a -c 5"),
        ("llama-server -m a ^\n  -c 5", "-m a -c 5"),
        (CONFIG, "-m /srv/models/a --alias '$5' -c 5"),
        # Variables are read in the order of llama-server's table, and a negation before its option.
        (
            "LLAMA_ARG_CPU_MOE=1 LLAMA_ARG_OVERRIDE_TENSOR=exps=CUDA0 llama-server -m a",
            "--override-tensor exps=CUDA0 --cpu-moe -m a",
        ),
        (
            "LLAMA_ARG_NO_KV_OFFLOAD=0 LLAMA_ARG_KV_OFFLOAD=1 llama-server -m a",
            "--no-kv-offload -m a",
        ),
        (
            (
                "LLAMA_ARG_REASONING=off LLAMA_ARG_DEVICE=RPC0 LLAMA_ARG_RPC=h:1 "
                "LLAMA_ARG_CHAT_TEMPLATE_KWARGS={} llama-server -m a"
            ),
            "--rpc h:1 --device RPC0 --chat-template-kwargs '{}' --reasoning off -m a",
        ),
        # LLAMA_ARG_NO_HOST is no negation, but an option's own.
        ("LLAMA_ARG_NO_HOST=0 LLAMA_ARG_HOST=h llama-server -m a", "--host h -m a"),
        ("LLAMA_ARG_NO_HOST=1 LLAMA_ARG_HOST=h llama-server -m a", "--no-host --host h -m a"),
        (FULL.format(" --server -m /models/a -c 5"), "-m /srv/a -c 5"),
        (FULL.format(" -s -m /models/a"), "-m /srv/a"),
        (SWAP, "--ctx-size 5 -ngl 99 -fa on -dev CUDA0 -m m/a"),
    ],
)
def test_other_forms_of_commands(text: str, words: str) -> None:
    [command] = read_paste(text).values()
    assert shlex.join(command.arguments) == words


@table("text", [FULL.format(" --run -m a"), FULL.replace("full", "light").format(" -m a -p hello")])
def test_images_that_start_another_program(text: str) -> None:
    with pytest.raises(BadInputError, match="behind the word --server, or none at all"):
        read_command(text)
