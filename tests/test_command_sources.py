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

from spectui.errors import BadInputError
from spectui.export.dialects import Dialect
from spectui.export.names import OPTIONS
from spectui.export.server_options import PREFIX, flags_of, server_option
from spectui.export.sources import read_source
from spectui.export.takeover import read_command
from tests.test_export import hostile

pytest_plugins = ["tests.support.fixtures"]


def words_of(text: str) -> tuple[str, ...]:
    return read_source(text).arguments


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


@given(word=printable.filter(lambda text: "%" not in text and "$" not in text))
def test_a_unit_with_quoted_values(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    quoted = '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = f"[Service]\nExecStart=/usr/bin/llama-server --alias {quoted} -v\n"
    path = in_file(tmp_path_factory.getbasetemp(), "hostile.service", text)
    assert words_of(path) == ("--alias", word, "-v")


@given(word=printable)
def test_a_compose_file_with_a_list(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    service = {
        "image": "ghcr.io/ggml-org/llama.cpp:server",
        "command": ["--alias", word.replace("$", "$$"), "-v"],
    }
    text = yaml.safe_dump({"services": {"a": service}}, allow_unicode=True)
    path = in_file(tmp_path_factory.getbasetemp(), "hostile.yaml", text)
    assert words_of(path) == ("--alias", word, "-v")


@given(word=printable.filter(lambda text: "${" not in text))
def test_a_llama_swap_file_with_quotes(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    command = shlex.join(["llama-server", "--alias", word, "-v"])
    text = yaml.safe_dump({"models": {"a": {"cmd": command}}}, allow_unicode=True)
    path = in_file(tmp_path_factory.getbasetemp(), "swap.yaml", text)
    assert words_of(path) == ("--alias", word, "-v")


def test_a_hostile_path_in_a_file_of_every_kind(tmp_path: Path) -> None:
    script = in_file(tmp_path, "a.sh", f"llama-server -m {shlex.quote(HOSTILE)} -c 5\n")
    unit = in_file(tmp_path, "a.service", f'[Service]\nExecStart=llama-server -m "{HOSTILE}" -c 5')
    swap = in_file(
        tmp_path, "a.yaml", f'models:\n  a:\n    cmd: |\n      llama-server -m "{HOSTILE}" -c 5\n'
    )
    for path in (script, unit, swap):
        assert words_of(path) == ("-m", HOSTILE, "-c", "5")


# Shell


def test_variables_of_the_script_and_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECTUI_TEST_FOLDER", "/m m")
    text = (
        "A='x y'\nB=${NOBODY_SETS_THIS:-9}\nllama-server -m \"$SPECTUI_TEST_FOLDER/$A\" -n $B -v $A"
    )
    path = in_file(tmp_path, "run.sh", text)
    assert words_of(path) == ("-m", "/m m/x y", "-n", "9", "-v", "x", "y")


def test_a_script_with_arguments_of_its_caller(tmp_path: Path) -> None:
    path = in_file(tmp_path, "run.sh", 'llama-server -m m "$@" -v "${@}" $* \'$x\'\n')
    assert words_of(path) == ("-m", "m", "-v", "$x")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("llama-server -m $(ls *.gguf)", r"'\$\(', which the shell would replace"),
        ("llama-server -m `ls`", "'`', which the shell would replace"),
        ("llama-server -m $SPECTUI_NOBODY_SETS_THIS", "which is not set"),
        ("llama-server -m m; rm -rf x", "'m?;', which is for the shell"),
        ("A=(-m m)\nllama-server", r"'A=\(', which is for the shell|A=\(\.\.\.\)"),
        ("llama-server -m a\nllama-server -m b", "there are 2 commands"),
        ("llama-server -c 5 -cd", "-cd lacks its value; write it"),
        ("llama-server --control-vector-layer-range 5", "lacks its values; write both"),
        ("LLAMA_ARG_CONT_BATCHING=perhaps llama-server", "CONT_BATCHING is 'perhaps'"),
        ("serve.sh", "serve.sh does not exist"),
        ("/nowhere/compose.yaml:llama", "does not exist"),
        ("pid:99999999999", "there is no process"),
        ("pid:one", "pid:one names no process"),
        ("/", "/ is a folder"),
        ("llama-server -hfd user/draft -m m", "-md FILE"),
        ("llama-server --models-preset x.ini", "starts a router .--models-preset x.ini"),
        ("llama-server --fim-qwen-7b-spec", "stands for a model of the hub"),
    ],
)
def test_what_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        read_command(text)
    assert "\n" not in str(caught.value)


# Files


@pytest.mark.parametrize(
    ("name", "content", "choose", "reason"),
    [
        ("a.service", "[Service]\nType=simple\n", "", "has no ExecStart"),
        ("a.service", "[Service]\nExecStart=a -m x\nExecStart=b\n", "", "has 2 ExecStart"),
        ("a.service", "[Service]\nExecStart=llama-server -m %i\n", "", "uses %i, which only"),
        ("a.service", '[Service]\nExecStart=llama-server -m "x\n', "", "no closing quotation"),
        ("a.service", "[Service]\nExecStart=llama-server -m x\n", ":b", "holds one command"),
        ("a.yaml", "services:\n  web:\n    image: nginx\n", "", "has no service that runs"),
        ("a.yaml", "services: {a: {image: llama.cpp}, b: {image: llama.cpp}}", "", "2 services"),
        ("a.yaml", "services: {a: {image: llama.cpp}}", ":c", "no service c .*it has a"),
        ("a.yaml", "services: {a: [}", "", "is no valid YAML"),
        ("a.yaml", "services:\n  a: &a\n    image: llama.cpp\n    b: *a\n", "", "holds itself"),
        ("a.yaml", "services: {a: {image: llama.cpp, volumes: 5}}", "", "names no model"),
        ("a.yaml", "services: {a: {image: llama.cpp, env_file: [5]}}", "", "5 cannot be read"),
        ("a.yaml", "models: {a: {cmd: llama-server, env: 5}}", "", "names no model"),
        ("a.yaml", "services: {a: {image: llama.cpp, command: -m $NO_}}", "", "NO_, which is not"),
        ("a.yaml", "models: {a: {cmd: 'llama-server -m ${x}'}}", "", "which it does not define"),
        ("a.ini", "[a]\nmodel=a\n[b]\nmodel=b\n", "", "has 2 sections"),
        ("a.ini", "[a]\nmodel=a\n", ":c", "has no section c"),
        ("a.txt", "\0", "", "is no text"),
        ("a.txt", "\ud800", "", "is no text"),
        ("a.txt", "# nothing", "", "names no model"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, name: str, content: str, choose: str, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadInputError, match=reason) as caught:
        read_command(f"{path}{choose}")
    assert "\n" not in str(caught.value)


def test_a_file_too_large_to_be_a_command(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.truncate(1 << 21)
    with pytest.raises(BadInputError, match="too large"):
        read_command(str(path))


def test_a_unit_as_systemd_reads_it(tmp_path: Path) -> None:
    environment = in_file(tmp_path, "env", "# c\nLLAMA_ARG_CTX_SIZE='4096'\nNAME=\"a b\"\n")
    text = rf"""[Service]
EnvironmentFile=-/nowhere/at/all
EnvironmentFile={environment}
Environment="FLAGS=-v --jinja" EMPTY=
ExecStart=
ExecStart=!-/usr/bin/llama-server -m 'a b\x2ec' \
; a remark
  --alias "${{NAME}}$$\u00e9" $FLAGS $EMPTY 'it\'s' 50%%
"""
    source = read_source(in_file(tmp_path, "x", text))
    assert source.prelude == ("/usr/bin/llama-server",)
    assert source.variables == (("LLAMA_ARG_CTX_SIZE", "4096"),)
    assert source.words == (*("-m", "a b.c", "--alias", "a b$é", "-v", "--jinja", "it's", "50%"),)


def test_without_substitution_and_with_another_name(tmp_path: Path) -> None:
    text = "[Service]\nExecStart=:@/usr/bin/llama-server other -m ${X}\n"
    assert words_of(in_file(tmp_path, "x", text)) == ("-m", "${X}")


def test_a_compose_file_beside_its_variables(tmp_path: Path) -> None:
    in_file(tmp_path, ".env", "MODEL=qwen\n")
    in_file(tmp_path, "more.env", "LLAMA_ARG_THREADS=5\n")
    text = """
services:
  a:
    image: ghcr.io/ggml-org/llama.cpp:full
    env_file: more.env
    volumes: ["./models:/models", "cache:/root/.cache"]
    environment: [LLAMA_ARG_MODEL=/models/$MODEL.gguf, OTHER]
    command: --server --lora /models/l.gguf -c ${SIZE_NOBODY_SETS:-8}
"""
    source = read_source(in_file(tmp_path, "c", text))
    assert dict(source.variables) == {
        "LLAMA_ARG_THREADS": "5",
        "LLAMA_ARG_MODEL": f"{tmp_path}/models/qwen.gguf",
    }
    assert source.words == ("--lora", f"{tmp_path}/models/l.gguf", "-c", "8")


def test_a_name_with_colons_chooses(tmp_path: Path) -> None:
    path = in_file(tmp_path, "a:b.ini", "[*]\nc=1\n[x:Q4]\nm=a\nngl=5\n[y]\nm=b\nc=2\n")
    assert words_of(f"{path}:x:Q4") == ("-c", "1", "-m", "a", "-ngl", "5")
    assert words_of(f"{path}:y") == ("-c", "2", "-m", "b")


FRAGMENTS = st.sampled_from(
    [
        *(
            "llama-server",
            "-m",
            "m.gguf",
            "-fa",
            "--x=y",
            "'",
            '"',
            "\\",
            "$A",
            "${A:-b}",
            "$(",
            "`",
        ),
        *("\n", " ", "#", ";", "=", "[Service]", "ExecStart=", "Environment=", "%h", "%%", "$$"),
        *("services:", "models:", "  a:", "    image: llama.cpp", "    command:", "    cmd:", "- "),
        *("[a]", "model", "{", "}", "\x00", "é", "docker run -v", "sh -c", "LLAMA_ARG_MODEL="),
    ]
)


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
        read_command(text)


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
    source = read_source(f"pid:{running.pid}")
    assert source.variables == (("LLAMA_ARG_CTX_SIZE", "4096"),)
    assert source.words == ("-m", f"{tmp_path}/models/m.gguf", "--alias", HOSTILE)


def test_the_only_process_or_what_there_is(running: subprocess.Popen[str]) -> None:
    told = ""
    try:
        told = shlex.join(words_of("pid:"))
    except BadInputError as error:
        # Somebody else's run here, too.
        told = str(error)
    assert shlex.quote(HOSTILE) in told or f"pid:{running.pid}" in told


def test_another_process() -> None:
    with pytest.raises(BadInputError, match=f"process {os.getpid()} is no llama-server but"):
        read_source(f"pid:{os.getpid()}")


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
    assert flags_of(Dialect.LLAMA_CPP) <= flags
