"""What a shell completes, asked of a real bash."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import optuna
import pexpect
import pytest

from spectui.cli import completion
from spectui.cli.cockpit import command
from spectui.tune.studies.storage import address_of, open_storage

PROMPT = "ready> "
_CLEAR = "\x15"
"""The key that takes back what was typed."""


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which spectui is a program of the PATH, with a home of its own."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "spectui"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spectui "$@"\n')
    program.chmod(0o755)
    return os.environ | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "SPECTUI_HOME": str(folder / "home"),
        # A terminal that knows no sequences.
        "TERM": "dumb",
    }


@pytest.fixture(scope="module")
def bash(
    surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[pexpect.spawn[str]]":
    """A bash in a folder with a model, which has read spectui's script; there is a study."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "target.gguf").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", surroundings["SPECTUI_HOME"])
        optuna.create_study(storage=open_storage(address_of(None)), study_name="winter")
    arguments = ["--norc", "--noprofile", "-i"]
    shell = pexpect.spawn("bash", arguments, cwd=folder, env=surroundings, encoding="utf-8")
    shell.delaybeforesend = None
    for line in (f"PS1={PROMPT!r}", "source <(spectui completion bash)"):
        shell.sendline(line)
        shell.expect_exact(f"\n{PROMPT}")
    yield shell
    shell.close(force=True)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("spectui tu", "spectui tune "),
        ("spectui models sc", "spectui models scan "),
        ("spectui tune --time-b", "spectui tune --time-budget "),
        ("spectui --theme=x --asc", "spectui --theme=x --ascii "),
        ("spectui tune -m tar", "spectui tune -m target.gguf "),
        ("spectui presets show qwen3-next", "spectui presets show qwen3-next-80b-a3b "),
        ("spectui bench --spec-type draft-simple,ngram-mo", "draft-simple,ngram-mod "),
        ("spectui export wint", "spectui export winter "),
    ],
)
def test_bash_completes(bash: "pexpect.spawn[str]", typed: str, completed: str) -> None:
    bash.send(f"{_CLEAR}{typed}\t")
    bash.expect_exact(completed)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_it_reads(surroundings: dict[str, str], shell: str) -> None:
    command = [sys.executable, "-m", "spectui", "completion", shell]
    said = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert "_SPECTUI_COMPLETE" in said.stdout
    assert said.stderr == ""
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=said.stdout, text=True, check=True)


def test_a_storage_that_cannot_be_read_completes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "studies.sqlite3").write_text("no database")
    assert completion.studies(command.context_class(command), command.params[0], "") == []
