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
from spectui.commands.sources.processes import running_servers
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError
from spectui.options.catalogue import OPTIONS
from spectui.options.dialect import Dialect
from spectui.server.kept import KeptProcess
from tests.commands.test_export import hostile
from tests.support.commands import typed, variables

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


def test_variables_of_the_script(tmp_path: Path) -> None:
    text = "A='x y'\nF='/m m'\nB=${NOBODY_SETS_THIS:-9}\nllama-server -m \"$F/$A\" -n $B -v $A"
    path = in_file(tmp_path, "run.sh", text)
    assert words_of(path) == ("-m", "/m m/x y", "-n", "9", "-v", "x", "y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama-server -m a > 'my log' 2>&1 &\nsleep 5", "-m a"),
        ("llama-server -m a &>> log -c 5 </dev/null", "-m a -c 5"),
        ("cd /m && exec llama-server -m a; echo done", "-m /m/a"),
        ("A=(-m a # b\n  -c 5\n)\nA+=('x y')\nllama-server \"${A[@]}\" -v", "-m a -c 5 'x y' -v"),
        ("llama-server -m a -c ${C_:-5} -ngl ${N_-9}", "-m a -c 5 -ngl 9"),
        (
            "llama-server --api-key '~/k' --alias \"~/a\" --path \\~/b",
            "--api-key '***' --alias '~/a' --path './~/b'",
        ),
    ],
)
def test_what_a_shell_does_beside_starting_it(text: str, words: str) -> None:
    assert shlex.join(words_of(text)) == words


def test_home_is_where_no_quotes_are() -> None:
    assert words_of("M=~/m\nllama-server -m $M") == ("-m", "~/m")
    assert words_of("HOME=/h\nM=~/m\nllama-server -m $M") == ("-m", "/h/m")
    assert words_of("llama-server -m ~/m --path ~ -a a~/b") == (
        *("-m", "~/m", "--path", "~", "-a", "a~/b"),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("llama-server -c 5 -cd", "-cd lacks its value; write it"),
        ("llama-server --control-vector-layer-range 5", "lacks its values; write both"),
        ("LLAMA_ARG_CONT_BATCHING=perhaps llama-server", "CONT_BATCHING is 'perhaps'"),
        ("serve.sh", "serve.sh does not exist"),
        ("/nowhere/compose.yaml:llama", "does not exist"),
        ("pid:99999999999", "there is no process"),
        ("pid:one", "pid:one names no process"),
        ("/", "/ is a folder"),
        ("llama-server -m a\0", "holds a NUL character"),
        ("/dev/null", "/dev/null is no regular file"),
        ("-", "- is no command"),
        ("llama-server -hfd user/draft -m m", "-md FILE"),
        ("llama-server --models-preset x.ini", "starts a router .--models-preset x.ini"),
        ("llama-server --fim-qwen-7b-spec", "stands for a model of the hub"),
    ],
)
def test_what_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        take_over(read_command(text))
    assert "\n" not in str(caught.value)


# Files


LONG_MACROS = (
    f"macros: {{x: '{'${y}' * 999}', y: '{'z' * 9999}'}}\n"
    "models: {a: {cmd: 'llama-server -m ${x}'}}"
)


@pytest.mark.parametrize(
    ("name", "content", "choose", "reason"),
    [
        ("a.service", "[Service]\nType=simple\n", "", "has no ExecStart"),
        ("a.service", "[Service]\nExecStart=a -m x\nExecStart=b\n", "", "2 ExecStarts .*with 1, 2"),
        ("a.service", "[Service]\nExecStart=llama-server -m %i\n", "", "uses %i, which only"),
        ("a.service", '[Service]\nExecStart=llama-server -m "x\n', "", "no closing quotation"),
        (
            "a.service",
            "[Service]\nExecStart=llama-server -m x\n",
            ":b",
            "no ExecStart b .*it has 1",
        ),
        (
            "a.yaml",
            "services:\n  web:\n    image: nginx\n",
            "",
            "is known to run llama-server; .* with web",
        ),
        ("a.yaml", "services: {a: {image: llama.cpp}, b: {image: llama.cpp}}", "", "2 services"),
        ("a.yaml", "services: {a: {image: llama.cpp}}", ":c", "no service c .*it has a"),
        ("a.yaml", "services:\n  a: [}", "", "is no valid YAML .line 2"),
        ("a.yaml", "services:\n  a:\n    command: b: c", "", "YAML .line 3: mapping values"),
        ("a.yaml", "services: {a: {image: 'x/nginx:1'}}", ":a", "a runs x/nginx:1, which is no"),
        ("a.yaml", "services: {a: {image: vllm/vllm-openai}}", ":a", "which is no llama-server"),
        ("a.yaml", "services:\n  a: &a\n    image: llama.cpp\n    b: *a\n", "", "holds itself"),
        ("a.yaml", "services: {a: {image: llama.cpp, volumes: 5}}", "", "names no model"),
        ("a.yaml", "services: {a: {image: llama.cpp, env_file: [5]}}", "", "5 cannot be read"),
        ("a.yaml", "models: {a: {cmd: llama-server, env: 5}}", "", "names no model file"),
        (
            "a.yaml",
            "services: {a: {image: llama.cpp, command: -m $NO_}}",
            "",
            "NO_, which no .env",
        ),
        ("a.yaml", "models: {a: {cmd: 'llama-server -m ${x}'}}", "", "which it does not define"),
        (
            "a.yaml",
            "macros: {x: '${y}', y: '${x}'}\nmodels: {a: {cmd: 'llama-server -m ${x}'}}",
            "",
            "refer to each other without an end",
        ),
        (
            "a.yaml",
            LONG_MACROS,
            "",
            "stand for too much text",
        ),
        ("a.service", "[Service]\nExecStart=a -m b ; c\n", "", "several commands"),
        ("a.service", "[Service]\nExecStart=python3 -m x\n", "", "python3, which is no llama-"),
        ("a.yaml", "models: {a: {cmd: vllm serve x}}", ":a", "vllm, which is no llama-server"),
        ("a.yaml", "services: {a: {image: llama.cpp, extends: b}}", "", "docker compose config"),
        ("a.ini", "[a]\nmodel=a\n[b]\nmodel=b\n", "", "has 2 sections"),
        ("a.ini", "[a]\nmodel=a\n", ":c", "has no section c"),
        ("a.txt", "\0", "", "is no text"),
        ("a.txt", "\ud800", "", "is no text"),
        ("a.txt", "# nothing", "", "has no arguments"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, name: str, content: str, choose: str, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadInputError, match=reason) as caught:
        take_over(read_command(f"{path}{choose}"))
    assert "\n" not in str(caught.value)


MANY = "a0: &a0 [x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"{MANY}services: {{a: {{image: llama.cpp, command: *a11}}}}", "more than 100000 values"),
        (f"{MANY}models: {{a: {{cmd: llama-server, env: *a11}}}}", "more than 100000 values"),
        (f"services: {{a: {{image: llama.cpp, command: {'[' * 5000}", "nested too deeply"),
        ("services: {a: {image: llama.cpp, environment: &x [*x]}}", "holds itself"),
    ],
    ids=["many", "many_in_models", "deep", "itself"],
)
def test_a_file_of_more_than_it_looks_like(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        take_over(read_command(in_file(tmp_path, "a.yaml", content)))
    assert "\n" not in str(caught.value)


MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 13)
)
TEXTS = f"t: &t {'x' * 10_000}\nservices: {{a: {{image: llama.cpp, command: [{'*t, ' * 20_000}]}}}}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"{MERGED}services: {{a: {{<<: *a12, image: llama.cpp}}}}", "more than 100000 values"),
        (TEXTS, "more than 100000 values"),
        (
            "services: {a: {image: llama.cpp, x: !!set {a}}}",
            "line 1: tag:yaml.org,2002:set is a type",
        ),
        (
            "services:\n  a: {image: llama.cpp, x: !reset 5}",
            "line 2: !reset is a type that spectui",
        ),
        ("services: {a: {image: llama.cpp, x: !!int abc}}", "not of its tag; correct it"),
        (
            f"models: {{a: {{cmd: llama-server}}}}\nx: {'y' * (1 << 18)}",
            "has more than 262144 char",
        ),
    ],
    ids=["merges", "texts", "set", "tag", "number", "large"],
)
def test_yaml_is_bounded_before_it_is_built(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        read_command(in_file(tmp_path, "a.yaml", content))
    assert "\n" not in str(caught.value)


def test_dates_and_long_numbers_of_yaml_are_text(tmp_path: Path) -> None:
    digits = "9" * 6000
    text = (
        "services: {a: {image: llama.cpp, command: [-m, a, --alias, 2026-01-02, -c, 010, "
        f"--port, 22:22, --temp, 1_0, --seed, {digits}], environment: {{CUDA_A: 2026-01-02}}}}}}"
    )
    source = read_command(in_file(tmp_path, "a.yaml", text))
    assert typed(source)[3::2] == ("2026-01-02", "010", "22:22", "1_0", digits)
    assert source.environment == (("CUDA_A", "2026-01-02"),)


UNIT_ALONE = "[Service]\nExecStart=llama-server -m a\n"
WITH_FILES = {
    "unit": ("a.service", f"{UNIT_ALONE}EnvironmentFile=FOLDER/env\n", "env"),
    "drop-in": ("a.service", UNIT_ALONE, "a.service.d/a.conf"),
    "env_file": ("a.yaml", "services: {a: {image: llama.cpp, env_file: env}}", "env"),
    "dotenv": ("a.yaml", "services: {a: {image: llama.cpp, command: -m a}}", ".env"),
    "docker": ("a.sh", "cd FOLDER; docker run --env-file env llama.cpp:server -m a", "env"),
}


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "large", "binary"])
@pytest.mark.parametrize("source", WITH_FILES)
def test_environment_files_are_read_if_they_are_files(
    tmp_path: Path, kind: str, source: str
) -> None:
    name, text, other = WITH_FILES[source]
    (tmp_path / "a.service.d").mkdir()
    path = tmp_path / other
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"A=" + (b"x" * (1 << 20) if kind == "large" else b"\0"))
    with pytest.raises(BadInputError, match=rf"{other}.* (cannot be read|is too large|is no text)"):
        read_command(in_file(tmp_path, name, text.replace("FOLDER", str(tmp_path))))


def test_a_file_of_commands_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="no regular file"):
        read_command(str(tmp_path / "pipe"))


def test_a_shell_that_runs_another_file_is_no_server() -> None:
    with pytest.raises(BadInputError, match="starts bash, which is no llama-server"):
        read_command("bash serve-other.bash")


def test_a_file_too_large_to_be_a_command(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.truncate(1 << 21)
    with pytest.raises(BadInputError, match="too large"):
        take_over(read_command(str(path)))


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
    source = read_command(in_file(tmp_path, "x", text))
    assert source.prelude == ("/usr/bin/llama-server",)
    assert variables(source) == {"LLAMA_ARG_CTX_SIZE": ("--ctx-size", "4096")}
    assert typed(source) == (*("-m", "a b.c", "--alias", "a b$é", "-v", "--jinja", "it's", "50%"),)


def test_without_substitution_and_with_another_name(tmp_path: Path) -> None:
    text = "[Service]\nExecStart=:@/usr/bin/llama-server other -m ${X}\n"
    assert words_of(in_file(tmp_path, "x", text)) == ("-m", "${X}")


def test_a_unit_that_files_beside_it_change(tmp_path: Path) -> None:
    unit = in_file(
        tmp_path,
        "a-b@c.service",
        "[Service]\nEnvironment=A=1 LLAMA_ARG_CTX_SIZE=1 B=2\nExecStart=llama-server -m a\n",
    )
    environment = in_file(tmp_path, "env", "A=3\nB=2\n")
    for folder, name, text in (
        ("a-b@c.service.d", "20.conf", "ExecStart=\nExecStart=/opt/llama-server -m b.gguf"),
        ("a-b@.service.d", "10.conf", f"ExecStart=wrong\nEnvironmentFile={environment}"),
        ("a-.service.d", "20.conf", "ExecStart=the name is that of another that counts more"),
        ("service.d", "30.conf", "Environment=A=4\nUnsetEnvironment=B=2 LLAMA_ARG_CTX_SIZE"),
    ):
        (tmp_path / folder).mkdir()
        in_file(tmp_path / folder, name, f"[Service]\n{text}\n")
    source = read_command(unit)
    assert source.ahead == ("A=3", "/opt/llama-server")
    assert variables(source) == {}
    assert typed(source) == ("-m", "b.gguf")


def test_one_of_several_commands_of_a_unit(tmp_path: Path) -> None:
    unit = in_file(
        tmp_path,
        "a.service",
        "[Service]\nExecStart=/bin/true\nExecStart=llama-server -m a\nExecStart=llama-server -m b",
    )
    assert words_of(f"{unit}:3") == ("-m", "b")
    with pytest.raises(BadInputError, match=r"has 2 ExecStarts .*:NAME, with 2, 3"):
        read_command(unit)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.service", "[Unit]\nA=b\n[Service]\nExecStart=llama-server -m a \\\n# c\n  -c 5\n"),
        ("a.sh", "M=a\nllama-server -m $M \\\n    -c 5\n"),
        ("a.ini", "[x]\nm = a\nc = 5\n"),
        ("a.yaml", "models:\n  x:\n    cmd: |\n      llama-server\n      -m a -c 5\n"),
        ("a.args", "-m\na\n-c\n5\n"),
    ],
)
def test_lines_may_end_as_those_of_windows(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.replace("\n", "\r\n").encode())
    assert words_of(str(path)) == ("-m", "a", "-c", "5")


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
    source = read_command(in_file(tmp_path, "c", text))
    assert variables(source) == {
        "LLAMA_ARG_THREADS": ("--threads", "5"),
        "LLAMA_ARG_MODEL": ("--model", f"{tmp_path}/models/qwen.gguf"),
    }
    assert typed(source) == ("--lora", f"{tmp_path}/models/l.gguf", "-c", "8")


@pytest.mark.parametrize(
    ("name", "content", "choose", "words"),
    [
        ("a.service", "[Service]\nExecStart=/usr/bin/env bash -c 'llama-server -m a'", "", "-m a"),
        ("a.service", "[Service]\nExecStart=nice sh -lc 'exec llama-server -m a'", "", "-m a"),
        (
            "a.service",
            "[Service]\nEnvironment=M=a\nExecStart=sh -c 'llama-server -m $$M'",
            "",
            "-m a",
        ),
        ("a.yaml", "models:\n  a:\n    cmd: sh -c 'llama-server -m a --port ${PORT}'", "", "-m a"),
        ("a.yaml", "models: {a: {cmd: docker run llama.cpp:server -m a}, b: {cmd: x}}", "", "-m a"),
        (
            "a.yaml",
            "services: {a: {image: llama.cpp, command: [-m, a, --alias, true]}}",
            "",
            "-m a --alias true",
        ),
    ],
)
def test_a_server_that_something_else_starts(
    tmp_path: Path, name: str, content: str, choose: str, words: str
) -> None:
    assert shlex.join(words_of(in_file(tmp_path, name, content) + choose)) == words


def test_models_are_listed_whatever_their_macros(tmp_path: Path) -> None:
    text = """
macros: {server: "llama-server --port ${PORT}", deep: "${server} --jinja"}
models:
  a:
    cmd: |
      # of the first
      ${deep}
      -m "${env.SPECTUI_TEST_FOLDER}/a.gguf"
  b:
    macros: {own: "${deep} -v"}
    cmd: "# of the second\\n${own} -m ${unknown}"
  c: {cmd: "vllm serve x"}
"""
    path = in_file(tmp_path, "a.yaml", text)
    with pytest.raises(BadInputError, match=r"has 2 models .*, with a, b$"):
        read_command(path)
    with pytest.raises(BadInputError, match=r"env.SPECTUI_TEST_FOLDER}, which llama-swap takes"):
        read_command(f"{path}:a")
    plain = in_file(tmp_path, "b.yaml", text.replace("${env.SPECTUI_TEST_FOLDER}", "/m m"))
    assert words_of(f"{plain}:a") == ("--jinja", "-m", "/m m/a.gguf")


def test_words_that_only_old_yaml_takes_for_switches(tmp_path: Path) -> None:
    text = (
        "services: {a: {image: llama.cpp, command: [-m, a, --flash-attn, on, --ui, true], "
        "environment: {LLAMA_ARG_FIT: off, LLAMA_ARG_CONT_BATCHING: False}}}"
    )
    source = read_command(in_file(tmp_path, "a.yaml", text))
    assert typed(source) == ("-m", "a", "--flash-attn", "on", "--ui", "true")
    assert variables(source) == {
        "LLAMA_ARG_FIT": ("--fit", "off"),
        "LLAMA_ARG_CONT_BATCHING": ("--no-cont-batching",),
    }


def test_what_stands_before_a_shell_stays() -> None:
    source = read_command("numactl -N 0 bash -c 'A=1 llama-server -m a'")
    assert source.prelude == ("numactl", "-N", "0", "A=1", "llama-server")


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


def test_the_only_process_or_what_there_is(running: subprocess.Popen[str]) -> None:
    told = ""
    try:
        told = shlex.join(words_of("pid:"))
    except BadInputError as error:
        # Somebody else's run here, too.
        told = str(error)
    assert shlex.quote(HOSTILE) in told or f"pid:{running.pid}" in told


def test_those_that_run_without_those_that_spectui_measures(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    found = {server.pid: server for server in running_servers()}
    command = found[running.pid].command
    assert command is not None
    assert command.value("model") == f"{tmp_path}/models/m.gguf"
    assert read_command(found[running.pid].text) == command
    read, written = os.pipe()
    with os.fdopen(read), os.fdopen(written, "w") as output:
        program = [str(tmp_path / "llama-server"), "-m", "m.gguf"]
        with KeptProcess(program, output=output.fileno(), grace_s=0) as measured:
            assert measured.pid not in {server.pid for server in running_servers()}


def test_another_process() -> None:
    with pytest.raises(BadInputError, match=f"process {os.getpid()} is no llama-server but"):
        read_command(f"pid:{os.getpid()}")


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


UNIT = (
    "[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=1 LLAMA_ARG_CTX_SIZE=5\n"
    "ExecStart=llama-server -m m"
)
SWAP = (
    "models:\n  a:\n    cmd: llama-server --port ${PORT} -m m\n"
    "    env:\n      - CUDA_VISIBLE_DEVICES=1"
)
COMPOSE = (
    "services:\n  a:\n    image: llama.cpp:server\n    command: -m m\n"
    "    environment:\n      CUDA_VISIBLE_DEVICES: 1"
)
ENV = "CUDA_VISIBLE_DEVICES=1\nLLAMA_ARG_MODEL=m"


@pytest.mark.parametrize("text", [UNIT, SWAP, COMPOSE, ENV], ids=["unit", "swap", "compose", "env"])
def test_variables_of_a_file_reach_the_program(text: str, tmp_path: Path) -> None:
    source = read_command(in_file(tmp_path, "x", text))
    assert source.environment == (("CUDA_VISIBLE_DEVICES", "1"),)
    assert source.ahead == ("CUDA_VISIBLE_DEVICES=1", "llama-server")


def test_an_own_document_is_read(tmp_path: Path) -> None:
    document = (
        '{"schema": "spectui.export/1", "program": ["numactl", "llama-server"], '
        '"environment": {"A": "1"}, "arguments": ["-m", "a b"]}'
    )
    source = read_command(in_file(tmp_path, "x", document))
    assert (typed(source), source.ahead) == (("-m", "a b"), ("A=1", "numactl", "llama-server"))
    with pytest.raises(BadInputError, match="is JSON without a list of arguments"):
        read_command(in_file(tmp_path, "y", '{"schema": "spectui.lint/1"}'))


def test_lines_are_arguments_where_options_stand_alone(tmp_path: Path) -> None:
    source = read_command(in_file(tmp_path, "x", "-m\n/m/it's $5.gguf\n--jinja\n"))
    assert typed(source) == ("-m", "/m/it's $5.gguf", "--jinja")
    source = read_command(in_file(tmp_path, "y", "-m '/m/a b.gguf'\n--jinja\n"))
    assert typed(source) == ("-m", "/m/a b.gguf", "--jinja")
