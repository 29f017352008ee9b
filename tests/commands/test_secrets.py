"""Secrets of commands: neither stored nor printed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.commands.formats import Format
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.paths import STORAGE_VARIABLE
from spectui.secret import without_passwords
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

KEPT = "s3cr3t"
COMMANDS = (
    f"HF_TOKEN={KEPT} LLAMA_API_KEY={KEPT} llama-server -m t --api-key {KEPT} -hft {KEPT}",
    f"llama-server -m t --api-key={KEPT} --password-of-mine {KEPT}",
    f"llama-server -m t --mmproj-url https://u:{KEPT}@h/p --rpc h:1",
    f"""llama-server -m t --webui-config '{{"apiKey": "{KEPT}", "theme": "dark"}}' --rpc h:1""",
    f"docker run -e HF_TOKEN={KEPT} -e PGPASSWORD={KEPT} llama.cpp -m /t --api-key {KEPT}",
)


@table("text", COMMANDS)
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


@table("text", COMMANDS)
def test_what_is_printed_has_no_secret(spectui: Spectui, text: str) -> None:
    for more in ((), ("--fix",)):
        spectui("lint", "--no-models", *more, text)
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
