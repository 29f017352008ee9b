"""The engine in a process of its own: the process may end, the engine does not."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import get_args

import psutil
import pytest

from spectui.children import Channel, ProtocolError
from spectui.engine import child, isolation
from spectui.engine.commands import (
    Command,
    ComparePair,
    Generate,
    LoadTarget,
    Shutdown,
    Tokenize,
)
from spectui.engine.driver import Engine
from spectui.engine.events import (
    EngineFailed,
    Event,
    LoadProgress,
    ModelLoaded,
    RoundFinished,
    TokenEmitted,
)
from spectui.engine.isolation import ProcessWorker, Pulse
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

COMMAND = Generate(
    prompt=(88, 102, 126, 263), n_predict=40, sampling=ENDLESS, speculation=speculation(4)
)


def load(engine: Engine, tiny: TinyPath, ctx_size: int = 512) -> ModelLoaded:
    engine.load_target(
        ModelOptions(path=tiny(TARGET)), small_context(ctx_size), max_draft=MAX_DRAFT
    )
    return engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))


@pytest.fixture
def worker() -> ProcessWorker:
    return ProcessWorker()


@pytest.fixture
def engine(worker: ProcessWorker, tiny: TinyPath) -> Iterator[Engine]:
    with Engine(worker=worker) as started:
        load(started, tiny)
        yield started


def once(act: Callable[[], None], kind: type[Event]) -> Callable[[Event], None]:
    """A listener that acts at the first event of a kind."""
    done = threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, kind) and not done.is_set():
            done.set()
            act()

    return listen


def pid_of(worker: ProcessWorker) -> int:
    assert worker.pid is not None
    return worker.pid


def end(worker: ProcessWorker) -> None:
    """Kill the process, which is gone then, and not reaped yet."""
    pid = pid_of(worker)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


ENDLESSLY = Generate(prompt=(88,), sampling=ENDLESS, speculation=speculation(4))
"""Far more than is sent before a signal arrives."""


def test_another_process_takes_the_place_of_one_that_ends(
    engine: Engine, worker: ProcessWorker
) -> None:
    expected = engine.generate(COMMAND)
    for number, said in (
        (signal.SIGKILL, "was killed while generating, as the kernel does where memory ends"),
        (signal.SIGSEGV, r"ended its process with SIGSEGV while generating \(its last words: "),
    ):
        first = pid_of(worker)
        engine.on_event = once(partial(os.kill, first, number), TokenEmitted)
        with pytest.raises(EngineDiedError, match=said) as caught:
            engine.generate(ENDLESSLY)
        assert caught.value.log == native_log.tail(10)
        assert not psutil.pid_exists(first)

        found: list[Event] = []
        engine.on_event = found.append
        again = engine.generate(COMMAND)
        assert again.tokens == expected.tokens
        assert again.counters.n_accepted == expected.counters.n_accepted > 0
        assert pid_of(worker) != first
        roles = {one.role.value for one in found if isinstance(one, LoadProgress)}
        assert roles == {"target", "draft"}
    # What cannot be understood comes with llama.cpp's last lines.
    first = pid_of(worker)
    assert worker._child is not None
    worker._child.channel._decoders.clear()
    with pytest.raises(EngineDiedError, match="what cannot be understood while") as caught:
        engine.generate(COMMAND)
    assert caught.value.log
    assert not psutil.pid_exists(first)


def test_a_process_that_was_idle_is_replaced_without_a_word(
    engine: Engine, worker: ProcessWorker
) -> None:
    end(worker)
    engine.on_event = once(engine.stop, LoadProgress)
    with pytest.raises(CancelledError):
        engine.generate(COMMAND)
    engine.on_event = lambda _event: None
    assert engine.generate(COMMAND).stop is Stop.LENGTH
    # Nothing is loaded again that was unloaded.
    engine.unload_draft()
    end(worker)
    found: list[Event] = []
    engine.on_event = found.append
    assert engine.tokenize(Tokenize(text="in")) == (264,)
    assert {one.role.value for one in found if isinstance(one, LoadProgress)} == {"target"}


def test_one_that_hangs_is_ended(tiny: TinyPath) -> None:
    worker = ProcessWorker(patience=2)
    with Engine(worker=worker) as engine:
        load(engine, tiny)
        first = pid_of(worker)
        engine.on_event = once(lambda: os.kill(first, signal.SIGSTOP), RoundFinished)
        with pytest.raises(EngineDiedError, match="neither computed nor read for 2 s while genera"):
            engine.generate(ENDLESSLY)
        assert not psutil.pid_exists(first)
        assert engine.generate(COMMAND).stop is Stop.LENGTH
        second = pid_of(worker)
        os.kill(second, signal.SIGSTOP)
        # More than the pipe holds.
        with pytest.raises(EngineDiedError, match="neither computed nor read"):
            engine.tokenize(Tokenize(text="a" * (8 << 20)))
        assert not psutil.pid_exists(second)
        assert engine.tokenize(Tokenize(text="in")) == (264,)


@pytest.mark.ci
def test_one_that_hangs_is_soon_ended_once_it_is_told_to_stop(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_CLOSING_LOOKS", 2)
    worker = ProcessWorker()
    with Engine(worker=worker) as engine:
        load(engine, tiny)
        first = pid_of(worker)

        def hang() -> None:
            os.kill(first, signal.SIGSTOP)
            engine.stop()

        engine.on_event = once(hang, RoundFinished)
        with pytest.raises(EngineDiedError, match="neither computed nor read for 2 s while genera"):
            engine.generate(Generate(prompt=(88,), sampling=ENDLESS, speculation=speculation(4)))
        assert not psutil.pid_exists(first)


def test_the_process_goes_on_whatever_is_asked_of_it(
    engine: Engine, worker: ProcessWorker, tiny: TinyPath, tmp_path: Path
) -> None:
    first = pid_of(worker)
    engine.on_event = once(engine.stop, TokenEmitted)
    assert engine.generate(Generate(prompt=(88,), sampling=ENDLESS)).stop is Stop.CANCELLED
    engine.on_event = lambda _event: None
    # What is not sent has no number.
    with pytest.raises(UsageError, match="the engine cannot run this"):
        engine.generate(replace(COMMAND, n_predict=1 << 80))
    engine.on_event = once(engine.stop, TokenEmitted)
    assert engine.generate(replace(COMMAND, n_predict=-1)).stop is Stop.CANCELLED
    engine.on_event = lambda _event: None
    # Bytes that are no text.
    assert engine.tokenize(Tokenize(text="in\udce4")) == engine.tokenize(Tokenize(text="in?"))
    path = tmp_path / "no\udce4.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    told = engine.compare(ComparePair(target=path, draft=path))
    assert told.path == path
    assert "no?.gguf has a broken header" in str(told.reason)

    # A listener that fails.
    def fail(_line: str) -> None:
        native_log.listen(None)
        raise OSError(errno.ENOSPC, "No space left on device")

    native_log.listen(fail)
    with pytest.raises(SpectuiError, match="No space left on device"):
        load(engine, tiny)
    load(engine, tiny)
    assert engine.generate(COMMAND).stop is Stop.LENGTH
    assert pid_of(worker) == first


def test_the_process_has_no_more_memory_than_there_is_and_goes_first(
    engine: Engine, worker: ProcessWorker, tiny: TinyPath
) -> None:
    engine.tokenize(Tokenize(text="in"))
    pid = pid_of(worker)
    bound, most = resource.prlimit(pid, resource.RLIMIT_DATA)
    machine = psutil.virtual_memory().total + psutil.swap_memory().total
    assert 0 < bound < 2 * machine
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "900"
    # One that is too tight grows with what is free.
    resource.prlimit(pid, resource.RLIMIT_DATA, (bound // 2, most))
    engine.tokenize(Tokenize(text="in"))
    assert resource.prlimit(pid, resource.RLIMIT_DATA)[0] > bound // 2
    used = psutil.Process(pid).memory_info().data
    resource.prlimit(pid, resource.RLIMIT_DATA, (used, used))
    with pytest.raises((DoesNotFitError, EngineDiedError), match=r"memory|allocate"):
        load(engine, tiny, ctx_size=1 << 16)
    engine.close()
    assert worker.pid is None
    assert not psutil.pid_exists(pid)


def test_a_load_that_fails_is_told_and_not_repeated(
    worker: ProcessWorker, tiny: TinyPath, tmp_path: Path
) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with Engine(worker=worker) as engine:
        with pytest.raises(BadInputError, match=r"no\.gguf"):
            engine.load_target(ModelOptions(path=path), small_context(), max_draft=4)
        end(worker)
        load(engine, tiny)
        assert engine.generate(COMMAND).stop is Stop.LENGTH


@pytest.mark.parametrize("mib", [16, pytest.param(48, marks=pytest.mark.ci)])
def test_where_it_has_too_little_memory_to_begin_with_that_is_said(
    worker: ProcessWorker,
    tiny: TinyPath,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mib: int,
) -> None:
    bound = f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({mib << 20},) * 2)"
    (tmp_path / "sitecustomize.py").write_text(bound, encoding="ascii")
    with Engine(worker=worker) as engine:
        with monkeypatch.context() as patched:
            patched.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
            said = r"memory ended while loading the target \(its last words: .*close other programs"
            with pytest.raises(EngineKilledError, match=said):
                load(engine, tiny)
        load(engine, tiny)
        assert engine.generate(COMMAND).stop is Stop.LENGTH


class Failing(LocalWorker):
    """Meets an error of Python's with every command."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def execute(
        self, command: Command, sink: Callable[[Event], None], cancelled: Callable[[], bool]
    ) -> Event:
        if isinstance(command, Shutdown):
            return super().execute(command, sink, cancelled)
        raise self.error


def of_no_memory() -> SystemError:
    error = SystemError("it failed")
    error.__cause__ = MemoryError()
    return error


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), of_no_memory()]
)
def test_a_process_ends_where_python_finds_no_memory(error: Exception) -> None:
    ours, theirs = Pipe()
    # The parent's end is closed first: the thread that waits for its commands ends.
    with Channel(theirs, get_args(Command)) as channel, Channel(ours, ()):
        worker = Failing(error)
        commands = child._Commands(channel, worker)
        with pytest.raises(MemoryError):
            child._answer(worker, COMMAND, channel, commands)
        worker.error = ZeroDivisionError()
        answer = child._answer(worker, COMMAND, channel, commands)
        assert isinstance(answer, EngineFailed)
        assert answer.trace is not None


def test_models_in_this_process_have_a_sentence_where_python_finds_no_memory() -> None:
    said = "memory ended while generating; close other programs, or choose a shorter -c"
    with (
        Engine(worker=Failing(MemoryError())) as engine,
        pytest.raises(DoesNotFitError, match=said) as caught,
    ):
        engine.generate(COMMAND)
    assert not hasattr(caught.value, "__notes__")


def test_an_end_of_python_is_not_called_one_of_llama_cpp(
    worker: ProcessWorker, tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit(1)")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    with (
        Engine(worker=worker) as engine,
        pytest.raises(EngineDiedError, match=r"the engine's process ended with exit code 1 while"),
    ):
        load(engine, tiny)


def test_a_process_that_cannot_be_started_is_told(worker: ProcessWorker, tiny: TinyPath) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Engine(worker=worker) as engine:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(SpectuiError, match="no process for the models can be started") as e:
                load(engine, tiny)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert not hasattr(e.value, "__notes__")
        load(engine, tiny)


BUSY_CHILD = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
    print(child.pid, flush=True)
    sys.stdin.read()
    child.kill()
"""


def test_a_process_is_not_idle_while_its_own_child_computes() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as waiting:
        assert waiting.stdout is not None
        busy = psutil.Process(int(waiting.stdout.readline()))
        pulse = Pulse(psutil.Process(waiting.pid))
        pulse.look()
        before = busy.cpu_times().user
        while busy.cpu_times().user < before + 0.1:
            pass
        pulse.look()
        assert pulse.n_idle == 0


PROGRAM = """
import json, sys, threading
from pathlib import Path
from spectui.engine.driver import Engine
from spectui.engine.isolation import ProcessWorker
from spectui.options.setup import ContextOptions, ModelOptions
worker = ProcessWorker()
engine = Engine(worker=worker)
context = ContextOptions(ctx_size=512, threads=1)
engine.load_target(ModelOptions(path=Path(sys.argv[1])), context, max_draft=4)
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


def test_one_that_stops_within_a_message_is_ended() -> None:
    ours, theirs = Pipe()
    with Channel(ours, (Tokenize,)) as channel, theirs:
        channel.bound(1)
        os.write(theirs.fileno(), b"\0\0\0\x10half")
        assert channel.poll(1)
        with pytest.raises(ProtocolError, match="cannot be read"):
            channel.receive()


def test_whatever_is_read_shows_that_it_lives() -> None:
    # From memory: no disk sees it, as none sees what comes over FUSE.
    code = (
        "import sys\nfor line in sys.stdin:\n  open('/proc/self/stat').read()\n  print(flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pulse = Pulse(psutil.Process(process.pid))
        for _ in range(2):
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            pulse.look()
            assert pulse.n_idle == 0
        pulse.look()
        assert pulse.n_idle == 1
        process.stdin.close()


def test_the_patience_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isolation.PATIENCE_VARIABLE, "soon")
    with pytest.raises(UsageError, match="SPECTUI_PATIENCE=soon is no number of seconds"):
        ProcessWorker()


def test_a_placement_that_was_chosen_is_kept_by_the_next_process(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ProcessWorker()
    sent: list[object] = []
    send = Channel.send

    def note(channel: Channel, message: object) -> None:
        sent.append(message)
        send(channel, message)

    monkeypatch.setattr(Channel, "send", note)
    with Engine(worker=worker) as engine:
        options = ModelOptions(path=tiny(TARGET), fit=Fit(is_open=True))
        loaded = engine.load_target(options, small_context(512), max_draft=MAX_DRAFT)
        assert loaded.placed is not None
        assert loaded.placed.fit is None
        end(worker)
        engine.tokenize(Tokenize(text="in"))
    asked = [one.options for one in sent if isinstance(one, LoadTarget)]
    assert asked == [options, loaded.placed]


def test_every_command_says_what_it_does() -> None:
    assert all(isinstance(one.doing, str) for one in get_args(Command))
