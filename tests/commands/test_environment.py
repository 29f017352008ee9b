"""What no output may hold: spectui's own environment, its home folder, and secrets of commands."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.cli.from_command import with_home_of_here
from spectui.commands.formats import Format, render
from spectui.commands.launch import Launch, translated
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError
from spectui.paths import STORAGE_VARIABLE
from spectui.secret import without_passwords
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

MARK = "marked-by-the-environment"
NAMES = (
    *("X", "MODEL", "MODELS", "USER", "LOGNAME", "HOSTNAME", "PWD", "OLDPWD", "TMPDIR", "SHELL"),
    *("LLAMA_ARG_MODEL", "LLAMA_ARG_CTX_SIZE", "LLAMA_CACHE", "HF_HOME", "HF_TOKEN", "CUDA_HOME"),
    *("CUDA_VISIBLE_DEVICES", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME", "PORT", "A", "DRAFT"),
)
COMMANDS = {
    "typed": "llama-server -m ~/m/a.gguf --mmproj $HOME/p.gguf -c ${CTX:-4096} --lora ~/l",
    "typed-cd": 'cd ~/llama.cpp && LLAMA_CACHE=~/c ./llama-server -m "$HOME/a b.gguf"',
    "undefined": "llama-server -m $MODEL",
    "braces": 'llama-server -m "${MODELS}/a.gguf"',
    "default": "llama-server -m ${MODEL:-a.gguf} --alias ${USER-me}",
    "adding": "X+=y\nexport LLAMA_ARG_CTX_SIZE\nLLAMA_CACHE=/c llama-server -m a$X",
    "export": "export A CUDA_VISIBLE_DEVICES\nllama-server -m a.gguf",
    "set": "CUDA_VISIBLE_DEVICES=0\nLLAMA_CACHE=/c\nllama-server -m a.gguf",
    "docker": "docker run -e HF_TOKEN -e LLAMA_ARG_CTX_SIZE -v ~/m:/m -v $PWD/n:/n "
    "--env CUDA_VISIBLE_DEVICES llama.cpp:server -m /m/a.gguf",
    "shell": "bash -c 'exec llama-server -m $MODEL'",
    "quoted": "llama-server -m '$MODEL' --alias '~' --mmproj '~/x'",
}
FILES = {
    "compose.yaml": "services:\n  a:\n    image: llama.cpp\n    command: -m /m/a.gguf -c 5\n"
    "    volumes: ['~/m:/m']\n    environment: [HF_TOKEN, LLAMA_ARG_CTX_SIZE]\n",
    "undefined.yaml": "services:\n  a:\n    image: llama.cpp\n    command: -m $MODEL\n",
    "swap.yaml": "models:\n  a:\n    cmd: llama-server -m ~/a.gguf\n    env: ['HF_HOME=/h']\n",
    "env.yaml": "models:\n  a:\n    cmd: llama-server -m ${env.MODEL} --port ${PORT}\n",
    "models.ini": "[a]\nmodel = ~/a.gguf\nctx-size = 5\n",
}


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment whose values are all known by a mark, but for what finds programs."""
    for name in NAMES:
        monkeypatch.setenv(name, f"/{MARK}/{name}")
    monkeypatch.setenv("HOME", f"/{MARK}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outputs(spectui: Spectui, source: str) -> list[tuple[int, str]]:
    asked = [
        ("lint", "--json", "-", source),
        *(("export", "--from", source, "--format", one) for one in Format),
    ]
    return [(spectui(*one), spectui.out + spectui.err) for one in asked]


@table("name", [*COMMANDS, *FILES])
def test_no_value_of_the_environment_is_in_any_output(
    name: str, spectui: Spectui, marked: Path
) -> None:
    path = marked / (name if name in FILES else "start.sh")
    path.write_text(FILES.get(name) or COMMANDS[name], "utf-8")
    for source in (str(path), *([COMMANDS[name]] if name in COMMANDS else [])):
        said = outputs(spectui, source)
        assert [text for _code, text in said if MARK in text] == []
        assert all(text for _code, text in said)


def written(text: str, format_: Format = Format.LLAMA_SERVER) -> str:
    launch: Launch = translated(read_command(text), Reader())
    return render(launch, format_)


AT_HOME = (
    "llama-server -m ~/a.gguf",
    "llama-server -m ~/'a b.gguf' --alias '~/x'",
    'llama-server -m "$HOME/it\'s.gguf" --mmproj "$HOME/p" --lora ~/l,~/k',
    "LLAMA_CACHE=~/c ~/'my bin'/llama-server -m ~",
    "cd ~/llama.cpp && ./llama-server -m models/a.gguf --slot-save-path ../s",
    "M=~/m\nllama-server -m $M/a.gguf --alias '~'",
)


@table("text", AT_HOME)
@table("verb", ["lint", "export"])
def test_a_shell_still_finds_the_home_folder(text: str, verb: str, tmp_path: Path) -> None:
    """What is written means the same to a shell, wherever the home folder is."""
    record = '#!/bin/sh\nprintf "%s\\0" "$PWD" "$LLAMA_CACHE" "$0" "$@" >"$RECORD"\n'
    for folder in ("my bin", "llama.cpp", "bin"):
        (tmp_path / folder).mkdir(exist_ok=True)
        program = tmp_path / folder / "llama-server"
        program.write_text(record)
        program.chmod(0o755)

    def ran(script: str) -> list[str]:
        environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.defpath}"}
        environment["RECORD"] = str(tmp_path / "record")
        subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
        return (tmp_path / "record").read_text().split("\0")

    _at, cache, started, *words = ran(text)
    again = read_command(text).text if verb == "lint" else written(text)
    _at, cache_again, started_again, *words_again = ran(again)

    def placed(word: str) -> str:
        """A path as the program would open it."""
        folder = tmp_path / ("llama.cpp" if text.startswith("cd") else "")
        return os.path.normpath(folder / word) if word.endswith(("gguf", "/s")) else word

    assert list(map(placed, words_again)) == list(map(placed, words))
    assert cache_again == cache
    assert Path(started_again).name == Path(started).name


def test_the_home_folder_is_put_in_place_where_files_are_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/h")
    command = read_command("LLAMA_CACHE=~/c ~/llama-server -m ~/a.gguf --alias '~/x'")
    opened = with_home_of_here(command)
    assert opened.arguments == ("-m", "/h/a.gguf", "--alias", "~/x")
    assert opened.ahead == ("LLAMA_CACHE=/h/c", "/h/llama-server")
    assert capsys.readouterr().err == "~ is taken for /h, the home folder here\n"
    assert command.value("model") == "~/a.gguf"
    plain = read_command("llama-server -m a")
    assert with_home_of_here(plain) is plain


def test_a_home_folder_that_cannot_be_kept_is_refused() -> None:
    for text in (
        "llama-server --alias ~/a -m b",
        "llama-server -m x$HOME/a",
        "export A='~'\nllama-server -m a",
        "cd ~/..\nllama-server -m a",
    ):
        with pytest.raises(BadInputError, match="home folder"):
            read_command(text)


def test_what_no_shell_replaces_is_refused() -> None:
    for text in ("llama-server -m '~/a'", 'llama-server -m "~/a"', "llama-server -m \\~/a"):
        with pytest.raises(BadInputError, match="~/a is not in the home folder: only a shell"):
            read_command(text)


KEPT = "s3cr3t"
SECRETIVE = (
    f"HF_TOKEN={KEPT} LLAMA_API_KEY={KEPT} llama-server -m t --api-key {KEPT} -hft {KEPT}",
    f"llama-server -m t --api-key={KEPT} --password-of-mine {KEPT}",
    f"llama-server -m t --api-keyy {KEPT}",
    f"llama-server -m t --mmproj-url https://u:{KEPT}@h/p --rpc h:1",
    f"llama-server -m t --mmproj-url https://h/p?X-Amz-Signature={KEPT} --rpc h:1",
    f"""llama-server -m t --webui-config '{{"apiKey": "{KEPT}", "theme": "dark"}}' --rpc h:1""",
    f"docker run -e HF_TOKEN={KEPT} -e PGPASSWORD={KEPT} llama.cpp -m /t --api-key {KEPT}",
)


@table("text", SECRETIVE)
def test_no_secret_of_a_command_is_known_behind_its_reader(text: str) -> None:
    command = read_command(text)
    assert KEPT not in repr(command)
    assert KEPT not in repr(take_over(command))
    assert command.secrets


def test_a_composed_service_keeps_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services: {a: {image: llama.cpp, command: -m /a, secrets: [hf], environment: "
        f"{{HF_TOKEN: {KEPT}, CUDA_X: 1}}, labels: ['DB_PASSWORD={KEPT}']}}}}"
    )
    command = read_command(str(path))
    assert KEPT not in repr(command)
    assert "CUDA_X" in repr(command)


@table("text", SECRETIVE)
def test_what_is_printed_has_no_secret(spectui: Spectui, text: str) -> None:
    spectui("lint", "--no-models", text)
    assert KEPT not in spectui.out + spectui.err
    assert "secret" in spectui.err
    for format_ in Format:
        spectui("export", "--from", text, "--format", format_)
        assert KEPT not in spectui.out + spectui.err


@given(
    st.from_regex(r"[a-z]{1,5}://[a-z]{0,4}:", fullmatch=True),
    st.from_regex(r"[^/\s]{1,9}|[^@\s]{1,9}", fullmatch=True),
)
def test_no_password_of_an_address_is_left(start: str, password: str) -> None:
    assert without_passwords(f"{start}{password}@h/x") == f"{start}***@h/x"


STORAGES = (f"postgresql+psycopg2://u@h/db?password={KEPT}", f"://u:{KEPT}/{KEPT}@x")


@table("storage", STORAGES)
def test_the_password_of_a_storage_is_not_told(
    spectui: Spectui, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    for command in (["export", "x"], ["studies", "list"]):
        monkeypatch.delenv(STORAGE_VARIABLE, raising=False)
        assert spectui(*command, "--storage", storage) == 2
        assert KEPT not in spectui.err
        monkeypatch.setenv(STORAGE_VARIABLE, storage)
        assert spectui(*command) == 3
        assert "cannot be used" in spectui.err
        assert KEPT not in spectui.err
