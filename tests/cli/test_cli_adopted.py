"""What an existing command sets around its program, and leaves to it."""

import os

import click
import pytest

from spectui.cli.bench import command as bench
from spectui.cli.click_options import HELP_NAMES
from spectui.cli.from_command import set_tuning_variables
from spectui.cli.given import Given

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


def test_what_llama_cpp_reads_is_set_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "LLAMA_API_KEY", "SOMETHING"):
        # Set, so that it is as it was afterwards.
        monkeypatch.setenv(name, "before")
    set_tuning_variables(
        [("CUDA_VISIBLE_DEVICES", "5"), ("LLAMA_API_KEY", "secret"), ("SOMETHING", "else")]
    )
    found = [os.environ[n] for n in ("CUDA_VISIBLE_DEVICES", "LLAMA_API_KEY", "SOMETHING")]
    assert found == ["5", "before", "before"]


LOADS_CODE = (
    "GGML_BACKEND_PATH",
    "CUDA_INJECTION64_PATH",
    "OMP_TOOL_LIBRARIES",
    "VK_ICD_FILENAMES",
)


@pytest.mark.parametrize("name", LOADS_CODE)
def test_what_loads_code_is_not_set(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(name, raising=False)
    assert set_tuning_variables([(name, "evil.so")]) == ()
    assert name not in os.environ
    assert f"measured without {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said", "left"),
    [
        ([], "", "-ngl auto -ngld auto"),
        ([], "-ngl -1 -ngld 5", "-ngl auto"),
        ([], "-ngl -2 -ngld all", ""),
        (["-ngl", "7"], "-ngl auto", "-ngld auto"),
        # No server of a measurement makes acceptance up.
        ([], "-ngl 9 -ngld 9 --spec-synth-rates 1,1 --spec-synth-len 2 -kvu", "-kvu"),
    ],
)
def test_what_a_command_leaves_to_its_server_and_adds_to_it(
    typed: list[str], said: str, left: str
) -> None:
    line = f"llama-server -m t.gguf -md d.gguf {said}"
    arguments = ["--server-bin", "x", "--from", line, *typed]
    context: click.Context = bench.make_context("bench", arguments, help_option_names=HELP_NAMES)
    assert " ".join(Given.of(context).served_extra) == left
