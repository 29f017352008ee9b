"""The real program in a real terminal: typed into, read, resized, killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.fixtures"]


@pytest.fixture
def arguments(tiny: TinyPath) -> list[str]:
    target, draft = str(tiny(TARGET)), str(tiny(CLOSE_DRAFT))
    return ["-m", target, "-md", draft, "-c", "512", "-t", "1", "--ignore-eos", "-n", "12"]


def test_a_chat_in_a_terminal(arguments: list[str], tmp_path: Path) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        terminal.see("ready")
        terminal.press("hello there\r")
        terminal.see("12 tokens")
        terminal.resize(24, 80)
        terminal.see("12 tokens")
        terminal.press("\x11")
        rest = terminal.end()
        assert terminal.exit_code == 0
        terminal.assert_restored(rest)
    sessions = list((tmp_path / "data" / "sessions").iterdir())
    assert len(sessions) == 1
    assert "hello there" in sessions[0].read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_restores_the_terminal(
    arguments: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        terminal.see("ready")
        os.kill(terminal.program.pid, number)
        terminal.assert_restored(terminal.end())


def test_ctrl_c_quits_when_nothing_runs(arguments: list[str], tmp_path: Path) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        terminal.see("ready")
        terminal.press("\x03")
        rest = terminal.end()
        assert terminal.exit_code == 0
        terminal.assert_restored(rest)


def test_a_native_crash_leaves_a_usable_terminal_and_a_sentence(
    arguments: list[str], tmp_path: Path
) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        terminal.see("ready")
        # What a failed assertion of ggml does.
        os.kill(terminal.program.pid, signal.SIGABRT)
        rest = terminal.end()
        terminal.assert_restored(rest)
        assert "error: spectui was ended by SIGABRT" in rest
        assert terminal.exit_code == 1


def test_nothing_native_is_ever_drawn(arguments: list[str], tmp_path: Path) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        terminal.see("ready")
        terminal.press("\x11")
        assert "llama_" not in terminal.end()
    log = (tmp_path / "data" / "logs" / "spectui.log").read_text()
    assert "llama_" in log


@pytest.mark.parametrize("moment", ["answer", "trial"])
def test_quitting_in_the_middle_leaves_nothing_behind(
    arguments: list[str], tmp_path: Path, moment: str
) -> None:
    endless = [*arguments, "-n", "-1", "-c", "4096"]
    with Terminal(endless, tmp_path) as terminal:
        terminal.see("ready")
        if moment == "answer":
            terminal.press("hello there\r")
            terminal.see("answering")
        else:
            terminal.press("\x1b[15~")
            terminal.see("Start")
            terminal.press("s")
            terminal.press("s")
            terminal.see("earching")
        terminal.press("\x11")
        terminal.assert_restored(terminal.end())
        assert terminal.exit_code == 0


def test_without_a_terminal_it_says_so(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spectui", *arguments]
    env = {**os.environ, "SPECTUI_HOME": str(tmp_path)}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "needs a terminal" in result.stderr
