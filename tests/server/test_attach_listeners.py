"""Which processes count as a llama-server: by what they are, are given and have loaded."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from spectui.server.listeners import runs_llama


@contextmanager
def running(*command: str) -> Iterator[psutil.Process]:
    """A process that has said a word, and waits."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


WAIT = "print('ready', flush=True); input()"
LOADED = "import spectui.llama.library as l; l.native(); "


@pytest.mark.parametrize(
    ("code", "arguments", "is_one"),
    [
        (WAIT, [], False),
        (WAIT, ["/home/me/llama/forward"], False),
        (WAIT, ["-m", "model.gguf"], True),
        (LOADED + WAIT, [], True),
    ],
    ids=["any", "mentions llama", "is given weights", "has loaded llama.cpp"],
)
def test_a_python_program(code: str, arguments: list[str], *, is_one: bool) -> None:
    with running(sys.executable, "-c", code, *arguments) as process:
        assert runs_llama(process) is is_one
    assert not runs_llama(process)


@pytest.mark.parametrize(("name", "is_one"), [("llama-server", True), ("llama-swap", False)])
def test_a_program_by_its_name(tmp_path: Path, name: str, *, is_one: bool) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    program = tmp_path / name
    shutil.copy(shell, program)
    with running(str(program), "-c", "echo ready; read line") as process:
        assert runs_llama(process) is is_one
