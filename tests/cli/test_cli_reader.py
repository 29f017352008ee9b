"""Whoever reads stdout may leave before the end, as ``head`` does."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from spectui.cli import main

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

_UNREAD = 141
_LINE = "llama-server -m /m/t.gguf --draft-max 3"


@pytest.fixture
def environment(home: Path) -> Mapping[str, str]:
    return {**os.environ, "SPECTUI_HOME": str(home)}


def into_nobody(
    arguments: list[str], environment: Mapping[str, str], *, stderr_too: bool
) -> tuple[int, str]:
    """Run it with a stdout, and stderr if wanted, that nobody reads any more."""
    end, writer = os.pipe()
    os.close(end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "spectui", *arguments],
            stdout=writer,
            stderr=writer if stderr_too else subprocess.PIPE,
            env=environment,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writer)
    return done.returncode, "" if stderr_too else done.stderr.decode()


@pytest.mark.parametrize(
    ("line", "stderr_too", "expected", "n_lines"),
    [
        ("presets list", False, _UNREAD, 0),
        ("studies list --json -", False, _UNREAD, 0),
        ("presets list", True, _UNREAD, 0),
        # Lint has found something, which its code says.
        (f"lint --no-models '{_LINE} --port 8080'", True, 3, 0),
        ("export nothing", False, 3, 1),
        ("bogus", True, 2, 0),
    ],
)
def test_a_command_that_nobody_reads_ends_with_its_code_and_its_error(
    environment: Mapping[str, str], *, line: str, stderr_too: bool, expected: int, n_lines: int
) -> None:
    code, told = into_nobody(shlex.split(line), environment, stderr_too=stderr_too)
    assert (code, told.count("\n")) == (expected, n_lines)


def test_another_pipe_that_breaks_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    def break_() -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "argv", ["spectui", "presets", "list"])
    monkeypatch.setattr("spectui.cli.presets.list_presets", lambda _on_malformed: break_())
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert home.parent.is_dir()
    assert "a pipe broke that is not stdout" in capfd.readouterr().err
