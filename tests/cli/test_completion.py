"""What a shell completes, asked of a real bash."""

import os
import shlex
import sys
from collections.abc import Iterator

import pexpect
import pytest

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
    """A bash in a folder with a model, which has read click's script."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "target.gguf").touch()
    arguments = ["--norc", "--noprofile", "-i"]
    shell = pexpect.spawn("bash", arguments, cwd=folder, env=surroundings, encoding="utf-8")
    shell.delaybeforesend = None
    for line in (f"PS1={PROMPT!r}", 'eval "$(_SPECTUI_COMPLETE=bash_source spectui)"'):
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
        ("spectui --target=moe --dem", "spectui --target=moe --demo "),
        ("spectui tune -m tar", "spectui tune -m target.gguf "),
        ("spectui tune --from tar", "spectui tune --from target.gguf "),
    ],
)
def test_bash_completes(bash: "pexpect.spawn[str]", typed: str, completed: str) -> None:
    bash.send(f"{_CLEAR}{typed}\t")
    bash.expect_exact(completed)
