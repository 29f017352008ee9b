"""RPC servers that nobody runs, that serve somebody else, or that go away meanwhile."""

import textwrap
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from spectui.llama.rpc import connected
from tests.devices.conftest import Bench, Start, finish
from tests.support.program import said_until
from tests.support.rounds import first_alone
from tests.support.rpc import RpcServer, small_device
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.device, pytest.mark.ci]

GONE = "an RPC server went away"
NOBODY = "no RPC server answers there"
LONG = ["-c", 4096, "-n", 1200, "--temp", 0, "--ignore-eos"]
"""Longer than any test waits."""


COMMANDS: list[list[object]] = [["doctor"], ["bench", "-n", 8], ["tune", "--trials", 2]]


@pytest.mark.parametrize("command", first_alone(COMMANDS))
def test_the_server_is_run_by_nobody_or_serves_somebody_else(
    bench: Bench, start: Start, occupied: Callable[[RpcServer], object], command: list[object]
) -> None:
    server, gone = start(), start()
    gone.kill()
    ended = bench(*command, *bench.pair(server, gone))
    assert ended.code == 2, ended.err
    assert f"error: --rpc {gone.endpoint}: {NOBODY}" in ended.err
    occupied(server)
    served = ["--backend", "server", "--server-bin", bench.server_bin]
    for more in ([], served if command[0] == "bench" else []):
        ended = bench(*command, *bench.pair(server), *more)
        assert ended.code == 2, ended.err
        assert f"error: --rpc {server.endpoint}: the server does not answer; it serves one" in (
            ended.err
        )


LIES: dict[str, tuple[list[object], int, str]] = {
    "weights": (["bench"], 100_000, "MODEL does not fit in memory; choose a smaller quantisation"),
    "compute": (["tune", "--trials", 1], 1_700_000, "no context of 1024 tokens could be made"),
    "draft": (["bench"], 4_000_000, "DRAFT does not fit in memory; choose a smaller"),
    "server": (["bench"], 800_000, "llama-server without speculation ended with exit code 1"),
}
"""Commands on a device that has less than it says: bytes, and the sentence."""


@pytest.mark.long
@pytest.mark.parametrize("what", LIES)
def test_a_device_that_has_less_than_it_says_ends_in_a_sentence(
    bench: Bench, start: Start, what: str
) -> None:
    command, has_bytes, sentence = LIES[what]
    is_served = what == "server"
    server = start()
    if is_served:
        command = [*command, "--backend", "server", "--server-bin", bench.server_bin]
    with small_device(server.endpoint, 1 << 40, has_bytes=has_bytes) as endpoint:
        liar = RpcServer(endpoint=endpoint, process=server.process)
        ended = bench(*command, *bench.pair(liar), "-n", 8, "--prompts", bench.prompts)
    assert ended.code == (5 if is_served else 4), ended.err
    last = ended.err.splitlines()[-1]
    for name, path in (("MODEL", bench.target), ("DRAFT", bench.draft)):
        last = last.replace(str(path), name).replace(path.name, name)
    assert last.startswith(f"error: {sentence}")
    assert "Traceback" not in ended.err
    # Nobody has the device any more, and nothing was kept of a run that never began.
    assert [one.pid for one in psutil.process_iter() if endpoint in _words(one)] == []
    kept = {path.name for path in (bench.home / "data").rglob("*") if path.is_file()}
    assert not [name for name in kept if not name.startswith(("llama-server-", "core-"))]
    connected(server.endpoint).close()


def _words(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@pytest.mark.parametrize(
    ("words", "beginning", "which"),
    [
        pytest.param(["bench"], "code-1", 0, marks=pytest.mark.long),
        (["tune", "--trials", 50], "trial 0", 1),
    ],
)
def test_a_server_that_goes_away_while_it_decodes_ends_in_a_sentence(
    bench: Bench, start: Start, words: list[object], beginning: str, which: int
) -> None:
    """Commands that take long, and what they say once something was measured."""
    servers = [start(), start()]
    with bench.spawn(*words, *bench.pair(*servers), *LONG) as process:
        assert said_until(process, beginning)[-1], "it ended before"
        servers[which].kill()
        ended = finish(process)
    assert (ended.code, GONE in ended.err) == (1, True) or NOBODY in ended.err, ended.err
    assert ended.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in ended.err


LOADED = """
    import os, signal, sys
    from pathlib import Path
    from spectui.engine.commands import LoadTarget
    from spectui.engine.driver import Engine
    from spectui.engine.isolation import ProcessWorker
    from spectui.engine.planning import Planner
    from spectui.errors import SpectuiError
    from spectui.llama.planned import PlanRequest
    from spectui.options.setup import ContextOptions, Devices, ModelOptions

    target, draft, endpoint, pid = sys.argv[1:]
    devices = Devices(rpc=(endpoint,))
    target, draft = (ModelOptions(path=Path(one), devices=devices) for one in (target, draft))
    context = ContextOptions(ctx_size=512, threads=1)

    def said(call):
        try:
            return f"{call()}"
        except SpectuiError as error:
            return f"{type(error).__name__}: {error}"

    engine = Engine(worker=ProcessWorker())
    command = LoadTarget(options=target, context=context, max_draft=4)
    engine.load_target(command)
"""


LOST = """
    with Planner(timeout_s=20, rpc=devices.rpc) as planner:
        request = PlanRequest(target=target, draft=draft, context=context, max_draft=4)
        print(said(lambda: planner.plan(request)))
        os.kill(int(pid), signal.SIGKILL)
        print(said(lambda: planner.plan(request)))
    print(said(engine.unload_draft))
    print(said(lambda: engine.load_draft(draft)))
    print(said(lambda: engine.load_target(command)))
    engine.close()
    engine.close()
    print("closed")
"""


def test_commands_after_a_lost_server_are_refused(bench: Bench, start: Start) -> None:
    """On a server that an engine has, and after its end. The program has to end by itself."""
    server = start()
    given = (bench.target, bench.draft, server.endpoint, server.process.pid)
    with bench.python("-c", textwrap.dedent(LOADED + LOST), *given) as process:
        ended = finish(process)
    assert ended.code == 0, ended.err
    busy, gone, *lost, closed = ended.out.splitlines()
    assert busy.startswith(f"UsageError: --rpc {server.endpoint}: the server does not answer")
    assert gone.startswith(f"UsageError: --rpc {server.endpoint}: {NOBODY}")
    assert (lost[0], closed) == ("None", "closed")
    assert lost[1].startswith(f"UsageError: --rpc {server.endpoint}: {NOBODY}")
    assert lost[2].startswith(f"EngineDiedError: {GONE}")


def test_the_screen_outlives_its_server(
    bench: Bench, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    server = start()
    options = [*bench.pair(server), "-c", 4096, "-n", -1, "--ignore-eos"]
    with Terminal([str(one) for one in options], bench.home) as terminal:
        terminal.see("ready")
        terminal.press("hello there\r")
        terminal.see("tokens/round")
        server.kill()
        terminal.see(GONE)
        terminal.press("\x11")
        terminal.assert_restored(terminal.end())
        assert terminal.exit_code == 0
    (session,) = (bench.home / "data" / "sessions").iterdir()
    assert "hello there" in session.read_text()
