"""The engine in a process of its own: the process may end, the engine does not."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from spectui.children import Channel, ProtocolError
from spectui.engine import child, isolation
from spectui.engine.commands import Command, Generate, LoadTarget, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import EngineFailed, Event, LoadProgress, RoundFinished, TokenEmitted
from spectui.engine.isolation import ProcessWorker, activity, is_idle
from spectui.engine.worker import LocalWorker
from spectui.errors import (
    BadInputError,
    CancelledError,
    DoesNotFitError,
    EngineDiedError,
    EngineKilledError,
    SpectuiError,
    UsageError,
)
from spectui.llama.log import native_log
from spectui.options.setup import Fit, ModelOptions
from spectui.speculative.decoder import Stop
from tests.support.engine import ENDLESS, MAX_DRAFT, small_context, speculation
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures",)
pytestmark = pytest.mark.slow

COMMAND = Generate(
    prompt=(88, 102, 126, 263), n_predict=40, sampling=ENDLESS, speculation=speculation(4)
)
ENDLESSLY = replace(COMMAND, n_predict=-1)
"""Far more than is sent before a signal arrives."""


class Isolated(Engine):
    """An engine whose models are in a process of its own."""

    def __init__(self, pair: list[ModelOptions]) -> None:
        self.worker = ProcessWorker()
        self.pair = pair
        super().__init__(worker=self.worker)

    def load(self, ctx_size: int = 512) -> None:
        target, draft = self.pair
        self.load_target(
            LoadTarget(options=target, context=small_context(ctx_size), max_draft=MAX_DRAFT)
        )
        self.load_draft(draft)

    @property
    def pid(self) -> int:
        assert self.worker.pid is not None
        return self.worker.pid

    def at(self, kind: type[Event], act: Callable[[], None]) -> None:
        """Act at the first event of a kind."""
        left = [act]

        def listen(event: Event) -> None:
            if left and isinstance(event, kind):
                left.pop()()

        self.on_event = listen

    def watch(self) -> list[Event]:
        found: list[Event] = []
        self.on_event = found.append
        return found

    def end(self) -> None:
        """Kill the process, which is gone then, and not reaped yet."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)


def loaded_in(found: list[Event]) -> set[str]:
    return {one.role.value for one in found if isinstance(one, LoadProgress)}


@pytest.fixture
def pair(tiny: TinyPath) -> list[ModelOptions]:
    return [ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT)]


@pytest.fixture
def unloaded(pair: list[ModelOptions]) -> Iterator[Isolated]:
    with Isolated(pair) as started:
        yield started


@pytest.fixture
def engine(unloaded: Isolated) -> Isolated:
    unloaded.load()
    return unloaded


def test_another_process_takes_the_place_of_one_that_ends(engine: Isolated) -> None:
    expected = engine.generate(COMMAND)
    for number, said in (
        (signal.SIGKILL, "memory ran out while generating \\(the kernel has killed"),
        (signal.SIGSEGV, r"process ended with SIGSEGV while generating \(its last words: "),
    ):
        first = engine.pid
        engine.at(TokenEmitted, partial(os.kill, first, number))
        with pytest.raises(EngineDiedError, match=said) as caught:
            engine.generate(ENDLESSLY)
        assert caught.value.log == native_log.tail(10)
        assert not psutil.pid_exists(first)
        found = engine.watch()
        again = engine.generate(COMMAND)
        assert loaded_in(found) == {"target", "draft"}
        assert again.tokens == expected.tokens
        assert again.counters.n_accepted == expected.counters.n_accepted > 0


def test_a_process_that_was_idle_is_replaced_without_a_word(
    engine: Isolated, tmp_path: Path
) -> None:
    engine.end()
    engine.at(LoadProgress, engine.stop)
    with pytest.raises(CancelledError):
        engine.generate(COMMAND)
    assert engine.generate(COMMAND).stop is Stop.LENGTH
    # Nothing is loaded again that was unloaded, or failed to load.
    engine.unload_draft()
    engine.end()
    found = engine.watch()
    engine.tokenize(Tokenize(text="in"))
    assert loaded_in(found) == {"target"}
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(BadInputError, match=r"no\.gguf"):
        engine.load_target(
            LoadTarget(options=ModelOptions(path=path), context=small_context(), max_draft=4)
        )
    engine.end()
    engine.load()
    assert engine.generate(COMMAND).stop is Stop.LENGTH


def test_one_that_hangs_is_ended(pair: list[ModelOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_CHECK_S", 0.5)
    monkeypatch.setattr(isolation, "_CANCEL_PATIENCE", 1)
    monkeypatch.setenv(isolation.PATIENCE_VARIABLE, "2")
    with Isolated(pair) as engine:
        engine.load()
        for stops in (False, True):
            first = engine.pid

            def hang(pid: int = first, *, stops: bool = stops) -> None:
                os.kill(pid, signal.SIGSTOP)
                if stops:
                    engine.stop()

            engine.at(RoundFinished, hang)
            # Once it is told to stop, it is ended sooner.
            said = f"neither computed nor read for {1 - stops} s while generating"
            with pytest.raises(EngineDiedError, match=said):
                engine.generate(ENDLESSLY)
            assert not psutil.pid_exists(first)
            assert engine.tokenize(Tokenize(text="in")) == (264,)
        os.kill(engine.pid, signal.SIGSTOP)
        # More than the pipe holds.
        with pytest.raises(EngineDiedError, match="neither computed nor read"):
            engine.tokenize(Tokenize(text="a" * (8 << 20)))
        assert engine.tokenize(Tokenize(text="in")) == (264,)
    monkeypatch.setenv(isolation.PATIENCE_VARIABLE, "soon")
    with pytest.raises(UsageError, match="SPECTUI_PATIENCE=soon is no number of seconds"):
        ProcessWorker()


def test_one_that_stops_within_a_message_is_ended() -> None:
    ours, theirs = Pipe()
    with Channel(ours, (Tokenize,)) as channel, theirs:
        channel.bound(1)
        os.write(theirs.fileno(), b"\0\0\0\x10half")
        assert channel.poll(1)
        with pytest.raises(ProtocolError, match="cannot be read"):
            channel.receive()


def test_the_process_goes_on_whatever_is_asked_of_it(engine: Isolated, tmp_path: Path) -> None:
    first = engine.pid
    for _ in range(2):
        engine.at(TokenEmitted, engine.stop)
        assert engine.generate(ENDLESSLY).stop is Stop.CANCELLED
    # Bytes that are no text.
    assert engine.tokenize(Tokenize(text="in\udce4")) == engine.tokenize(Tokenize(text="in?"))
    path = tmp_path / "no\udce4.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(BadInputError, match=r"no.\.gguf cannot be loaded"):
        engine.load_target(
            LoadTarget(options=ModelOptions(path=path), context=small_context(), max_draft=4)
        )
    engine.load()

    # A listener that fails costs the process.
    assert engine.pid == first

    def fail(_line: str) -> None:
        native_log.listen(None)
        raise OSError(errno.ENOSPC, "No space left on device")

    native_log.listen(fail)
    with pytest.raises(SpectuiError, match="No space left on device"):
        engine.load()
    engine.load()
    assert engine.generate(COMMAND).stop is Stop.LENGTH


def test_the_process_goes_first_where_memory_ends(engine: Isolated) -> None:
    pid = engine.pid
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "900"
    used = psutil.Process(pid).memory_info().data
    resource.prlimit(pid, resource.RLIMIT_DATA, (used, used))
    with pytest.raises((DoesNotFitError, EngineDiedError), match=r"memory|allocate"):
        engine.load(ctx_size=1 << 16)
    engine.close()
    assert engine.worker.pid is None
    assert not psutil.pid_exists(pid)


MEMORY_BOUND = "import resource; resource.setrlimit(resource.RLIMIT_DATA, ({} << 20,) * 2)"
NO_MEMORY = r"memory ran out while loading the target \(.*close other programs"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (MEMORY_BOUND.format(16), NO_MEMORY),
        pytest.param(MEMORY_BOUND.format(48), NO_MEMORY, marks=pytest.mark.ci),
        ("raise SystemExit(1)", "the engine's process ended with exit code 1 while"),
        (None, "no process for the models can be started"),
    ],
    ids=["16 MiB", "48 MiB", "python", "no files"],
)
def test_why_a_process_ends_before_it_has_loaded_is_said(
    unloaded: Isolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str | None, said: str
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with monkeypatch.context() as patched:
        if code is None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        else:
            (tmp_path / "sitecustomize.py").write_text(code, encoding="ascii")
            patched.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        try:
            with pytest.raises(SpectuiError, match=said) as ended:
                unloaded.load()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert isinstance(ended.value, EngineKilledError) == (said == NO_MEMORY)
    assert isinstance(ended.value, EngineDiedError) == (code is not None)
    unloaded.load()


class Failing(LocalWorker):
    """Meets an error of Python's with every command."""

    error: Exception = MemoryError()

    def execute(self, _command: Command, _sink: Callable[[Event], None]) -> Event:
        raise self.error


def test_a_process_ends_where_python_finds_no_memory() -> None:
    worker, told = Failing(), list[Event]()
    with pytest.raises(MemoryError):
        child.answer(worker, COMMAND, told.append)
    worker.error = ZeroDivisionError()
    answer = child.answer(worker, COMMAND, told.append)
    assert isinstance(answer, EngineFailed)
    assert answer.trace is not None


READER = """
import subprocess, sys
for line in sys.stdin:
    # From memory: no disk sees it, as none sees what comes over FUSE.
    open("/proc/self/stat").read()
    spinning = [sys.executable, "-c", "while True: pass"]
    print(subprocess.Popen(spinning).pid if "spin" in line else 0, flush=True)
"""


def test_a_process_is_not_idle_while_it_reads_or_its_own_child_computes() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        before = activity(process.pid)

        def told(line: str) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        told("read")
        now = activity(process.pid)
        assert not is_idle(before, now)
        assert is_idle(now, activity(process.pid))
        busy = psutil.Process(told("spin"))
        before = activity(process.pid)
        began_s = busy.cpu_times().user
        while busy.cpu_times().user < began_s + 0.1:
            pass
        assert not is_idle(before, activity(process.pid))
        busy.kill()


PROGRAM = """
import json, sys, threading
from pathlib import Path
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.isolation import ProcessWorker
from spectui.options.setup import ContextOptions, ModelOptions
worker = ProcessWorker()
engine = Engine(worker=worker)
context = ContextOptions(ctx_size=512, threads=1)
options = ModelOptions(path=Path(sys.argv[1]))
engine.load_target(LoadTarget(options=options, context=context, max_draft=4))
print(json.dumps(worker.pid), flush=True)
threading.Event().wait()
"""


@pytest.mark.ci
def test_the_process_ends_with_the_program_that_started_it(tiny: TinyPath) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tiny(TARGET))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        child = psutil.Process(json.loads(program.stdout.readline()))
        program.kill()
        with suppress(psutil.NoSuchProcess):
            child.wait(30)
    assert not child.is_running()


def test_a_placement_that_was_chosen_is_kept_by_the_next_process(
    unloaded: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[ModelOptions] = []
    send = Channel.send

    def note(channel: Channel, message: object) -> None:
        if isinstance(message, LoadTarget):
            loads.append(message.options)
        send(channel, message)

    monkeypatch.setattr(Channel, "send", note)
    options = replace(unloaded.pair[0], fit=Fit(is_open=True))
    loaded = unloaded.load_target(
        LoadTarget(options=options, context=small_context(), max_draft=MAX_DRAFT)
    )
    assert loaded.placed is not None
    assert loaded.placed.fit is None
    unloaded.end()
    unloaded.tokenize(Tokenize(text="in"))
    assert loads == [options, loaded.placed]
