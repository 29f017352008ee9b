"""Which processes count as a llama-server: by their names."""

import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from spectui.server.listeners import runs_llama


@pytest.mark.parametrize(
    ("name", "is_one"), [("llama-server", True), ("llama-swap", False), ("forward", False)]
)
def test_a_program_by_its_name(tmp_path: Path, name: str, *, is_one: bool) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    program = tmp_path / name
    shutil.copy(shell, program)
    with subprocess.Popen([program, "-c", "read line"], stdin=subprocess.PIPE) as started:
        process = psutil.Process(started.pid)
        assert runs_llama(process) is is_one
        started.kill()
    assert not runs_llama(process)
