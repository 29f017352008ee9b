"""The real program in a real terminal: typed into, read, resized, killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spectui.live.sessions import AnswerPart, SettingsChange, UserTurn, recent_sessions
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.terminal import TIMEOUT_S, Terminal

pytest_plugins = ["tests.support.fixtures"]

CTRL_Q = "\x11"
F8 = "\x1b[19~"

ENDLESS = ["-n", "-1", "-c", "4096"]

DEFECTIVE = """
from spectui.cli import main
from spectui.tui.app import SpectuiApp

def broken(self):
    raise ZeroDivisionError("on purpose")

SpectuiApp.action_log = broken
main()
"""
"""spectui with a defect in what F8 does."""

HELD_AT_ITS_START = """
import sys
from signal import pause
from spectui.cli import main

class Hold:
    def find_spec(self, name, path, target=None):
        if name == "spectui.tui.app":
            pause()

sys.meta_path.insert(0, Hold())
main()
"""
"""spectui that never gets further than to import its screen."""


@pytest.fixture
def arguments(tiny: TinyPath) -> list[str]:
    target, draft = str(tiny(TARGET)), str(tiny(CLOSE_DRAFT))
    return ["-m", target, "-md", draft, "-c", "512", "-t", "1", "--ignore-eos", "-n", "12"]


def answer(terminal: Terminal, said: str = "hello there") -> None:
    """Bring the program into the middle of an answer that has no end."""
    terminal.see("ready")
    terminal.press(f"{said}\r")
    # Of the acceptance: the answer has begun.
    terminal.see("tokens/round")


def models_of(terminal: Terminal) -> psutil.Process:
    """The process that has the models."""
    (found,) = (
        one for one in terminal.program.children() if "spectui.engine.child" in one.cmdline()
    )
    return found


def assert_quits(terminal: Terminal) -> None:
    """Two seconds are the aim, and ``benchmarks/tui_latency.py`` measures them."""
    program = terminal.program
    terminal.press(CTRL_Q)
    rest = terminal.end()
    terminal.assert_restored(rest)
    assert terminal.exit_code == 0, rest[-2000:]
    assert not program.is_running()


def asked(home: Path) -> list[str]:
    """What was asked in the session that is stored."""
    (session,) = recent_sessions(2, home / "data" / "sessions")
    return [one.text for one in session.entries if isinstance(one, UserTurn)]


def test_a_chat_in_a_terminal(arguments: list[str], tmp_path: Path) -> None:
    with Terminal(arguments, tmp_path) as terminal:
        # Typed before the screen is there: no key is lost, and Enter sends.
        terminal.see("spectui is starting")
        terminal.press("hello there\r")
        terminal.see("12 tokens")
        terminal.resize(24, 80)
        terminal.see("12 tokens")
        # Whether its end has arrived or not.
        terminal.press(CTRL_Q)
        rest = terminal.end()
        assert terminal.exit_code == 0
        terminal.assert_restored(rest)
        assert "llama_" not in rest
    assert asked(tmp_path) == ["hello there"]
    assert "llama_" in (tmp_path / "data" / "logs" / "spectui.log").read_text()


ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


@pytest.mark.ci
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_everybody_and_everything_is_stored(
    arguments: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    with Terminal([*arguments, *ENDLESS], tmp_path) as terminal:
        answer(terminal)
        everybody = [terminal.program, *terminal.program.children(recursive=True)]
        # The guard passes on what it gets; a terminal's own program may signal spectui itself.
        os.kill(everybody[0].pid if number is signal.SIGTERM else terminal.child.pid, number)
        terminal.assert_restored(terminal.end())
        assert terminal.exit_code == 128 + number
    assert psutil.wait_procs(everybody, TIMEOUT_S)[1] == []
    (session,) = recent_sessions(2, tmp_path / "data" / "sessions")
    said, *parts = (entry for entry in session.entries if not isinstance(entry, SettingsChange))
    assert said == UserTurn(text="hello there")
    assert parts
    assert all(isinstance(entry, AnswerPart) for entry in parts)


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_crash_leaves_a_usable_terminal_and_no_process_with_models(
    arguments: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    with Terminal([*arguments, *ENDLESS], tmp_path) as terminal:
        answer(terminal)
        models = models_of(terminal)
        # SIGABRT is what a failed assertion of ggml sends.
        terminal.program.send_signal(number)
        rest = terminal.end()
        terminal.assert_restored(rest)
        assert f"error: spectui was ended by {number.name}" in rest
        assert terminal.exit_code == 1
    assert psutil.wait_procs([models], TIMEOUT_S)[1] == []


@pytest.mark.ci
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_before_the_screen_is_there_ends_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Terminal([], tmp_path, program=["-c", HELD_AT_ITS_START]) as terminal:
        terminal.see("starting")
        os.kill(terminal.child.pid, number)
        rest = terminal.end()
        assert terminal.exit_code == 128 + number
        terminal.assert_restored(rest)
        assert "error" not in rest


@pytest.mark.ci
def test_a_terminal_that_is_closed_ends_everything(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Terminal([*arguments, *ENDLESS], tmp_path) as terminal:
        answer(terminal)
        everybody = psutil.Process(terminal.child.pid).children(recursive=True)
        # As the window's own program does; the kernel sends SIGHUP.
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), terminal.child.child_fd)
        assert psutil.wait_procs(everybody, TIMEOUT_S)[1] == []
        terminal.child.wait()
    assert not list(temporary.iterdir())
    assert asked(tmp_path) == ["hello there"]


@pytest.mark.ci
def test_a_defect_leaves_a_usable_terminal_and_a_traceback_in_the_log(
    arguments: list[str], tmp_path: Path
) -> None:
    with Terminal([*arguments, *ENDLESS], tmp_path, program=["-c", DEFECTIVE]) as terminal:
        answer(terminal)
        terminal.press(F8)
        rest = terminal.end()
        assert terminal.exit_code == 1
        terminal.assert_restored(rest)
    log = tmp_path / "data" / "logs" / "spectui.log"
    # What comes after the alternate screen stays on the terminal.
    left = rest[rest.rindex("error: ") :]
    assert left.startswith("error: ZeroDivisionError: on purpose; ")
    assert left.endswith(f"{log}\r\n")
    assert rest.count("on purpose") == 1
    assert "ZeroDivisionError: on purpose" in log.read_text()


@pytest.mark.ci
def test_quitting_at_the_start_leaves_nothing_behind(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('theme = "nope"\n')
    with Terminal(arguments, tmp_path) as terminal:
        # The default is taken.
        terminal.see("There is no look nope")
        assert_quits(terminal)


def test_what_cannot_be_used_is_said_before_the_screen_is_touched(tmp_path: Path) -> None:
    for options, told in (
        (["--nonsense"], "error: no such option --nonsense"),
        (["--preset", "none"], "error: there is no preset 'none'"),
        (["-m", "missing.gguf"], "error: missing.gguf: no such file"),
        (["-md", "draft.gguf"], "error: -md names a draft"),
    ):
        with Terminal(options, tmp_path) as terminal:
            rest = terminal.end()
            assert terminal.exit_code in {2, 3}
        assert "\x1b" not in rest
        assert rest.startswith(told)
    # Without a terminal it says so.
    env = {**os.environ, "SPECTUI_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "spectui"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "needs a terminal" in result.stderr
