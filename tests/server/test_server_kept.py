"""Nothing that spectui starts outlives it, whatever ends it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spectui.server.kept import KeptProcess, manner_of
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.ci

_SOON_S = 20.0

# Starts a program as spectui does, says which processes there are, and waits to be killed.
OWNER = """
import json, os, signal, sys
from spectui.server.kept import KeptProcess
kept = KeptProcess(sys.argv[2:], grace_s=float(sys.argv[1]))
print(json.dumps([kept.pid, kept._keeper.pid]), flush=True)
while "ready" not in kept.output.text and kept.wait(0.01) is None:
    pass
print("it is ready", file=sys.stderr, flush=True)
signal.pause()
"""
SERVED = """
import json, sys
from pathlib import Path
from spectui.server.process import LlamaServer
binary, model, log = map(Path, sys.argv[1:])
arguments = ["-m", str(model), "-c", "128", "-t", "1", "-np", "1"]
server = LlamaServer(binary, arguments, log_path=log)
print(json.dumps([server.pid, server._process._keeper.pid]), flush=True)
sys.stdin.read()
"""
# Ends for nobody, and has a child.
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("ready", flush=True)
signal.pause()
"""
# Has a child in a session of its own, which has another one in yet another.
LEAVING = """
import signal, subprocess, sys
code = (
    "import os, signal, subprocess, sys; print(os.getpid(), flush=True);"
    "again = [sys.executable, '-c', *sys.argv[1:]];"
    "len(again) > 2 and subprocess.Popen(again, start_new_session=True);"
    "signal.pause()"
)
child = subprocess.Popen(
    [sys.executable, "-c", code, code], stdout=subprocess.PIPE, start_new_session=True
)
for _ in range(2):
    sys.stdout.buffer.write(child.stdout.readline())
print("all there", flush=True)
"""


def owner(script: str, *arguments: object) -> "tuple[subprocess.Popen[str], list[psutil.Process]]":
    """A program that owns processes, and these."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    return process, [psutil.Process(pid) for pid in json.loads(line)]


def all_end(processes: list[psutil.Process]) -> None:
    assert psutil.wait_procs(processes, timeout=_SOON_S)[1] == []


def end(process: "subprocess.Popen[str]", number: int) -> None:
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_program_ends_with_its_owner(number: signal.Signals) -> None:
    process, kept = owner(OWNER, 5, "sleep", "600")
    # Signals of the terminal go to the owner alone.
    groups = {os.getpgid(one.pid) for one in kept}
    assert os.getpgid(process.pid) not in groups
    assert len(groups) == len(kept)
    end(process, number)
    all_end(kept)


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_real_server_ends_with_its_owner(
    number: signal.Signals, llama_server_binary: Path, tiny: TinyPath, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    process, kept = owner(SERVED, llama_server_binary, tiny(TARGET), log)
    assert kept[0].cmdline()[0] == str(llama_server_binary)
    end(process, number)
    all_end(kept)


def test_who_does_not_go_is_killed_with_all_that_it_started() -> None:
    process, kept = owner(OWNER, 0.1, sys.executable, "-c", STUBBORN)
    assert process.stderr is not None
    assert process.stderr.readline() == "it is ready\n"
    started = kept[0].children()
    assert len(started) == 1
    end(process, signal.SIGKILL)
    all_end([*kept, *started])


@pytest.mark.parametrize("then", ["signal.pause()", ""], ids=["beside it", "a daemon"])
def test_who_has_left_for_a_session_of_its_own_ends_as_well(then: str) -> None:
    command = [sys.executable, "-c", LEAVING + then]
    with KeptProcess(command, grace_s=5) as kept:
        while "all there" not in kept.output.text and kept.wait(0.01) is None:
            pass
        if not then:
            kept.wait(_SOON_S)
    left = [int(line) for line in kept.output.text.splitlines()[:2]]
    assert kept.returncode == (-signal.SIGTERM if then else 0)
    assert not any(map(psutil.pid_exists, left))


def test_a_program_ends_with_its_keeper() -> None:
    kept = KeptProcess(["sleep", "600"], grace_s=5)
    program = psutil.Process(kept.pid)
    kept._keeper.kill()
    all_end([program])
    kept.close()
    assert kept.returncode == -signal.SIGKILL


def test_a_program_starts_in_an_empty_folder_of_its_own() -> None:
    script = "import os; print(os.getcwd(), os.listdir(), oct(os.stat('.').st_mode)[-3:])"
    with KeptProcess([sys.executable, "-c", script], grace_s=5) as kept:
        kept.wait(_SOON_S)
    folder, *found = kept.output.text.split()
    assert not Path(folder).exists()
    assert found == ["[]", "700"]
    assert folder != str(Path.cwd())


@pytest.mark.parametrize(
    ("script", "code", "manner"),
    [
        ("", 0, "exit code 0"),
        ("import sys; sys.exit(7)", 7, "exit code 7"),
        ("import os; os.kill(os.getpid(), 11)", -11, "signal SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", -9, "signal SIGKILL"),
    ],
)
def test_its_end_is_told_as_it_was(script: str, code: int, manner: str) -> None:
    with KeptProcess([sys.executable, "-c", script], grace_s=5) as kept:
        assert kept.wait(_SOON_S) == code
    assert manner_of(code) == manner
