"""The engine in a process of its own: the process may end, the engine does not."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spectui.engine import isolation
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import Event, LoadProgress, ModelLoaded, RoundFinished, TokenEmitted
from spectui.engine.isolation import ProcessWorker
from spectui.errors import BadInputError, CancelledError, EngineDiedError
from spectui.llama.library import native_log
from spectui.options.setup import ModelOptions
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


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, "was killed while generating, as the kernel does where memory ends"),
        (signal.SIGSEGV, r"ended its process with SIGSEGV while generating \(its last words: "),
    ],
)
def test_another_process_takes_the_place_of_one_that_ends(
    engine: Engine, worker: ProcessWorker, number: signal.Signals, said: str
) -> None:
    expected = engine.generate(COMMAND)
    first = pid_of(worker)
    engine.on_event = once(lambda: os.kill(first, number), TokenEmitted)
    with pytest.raises(EngineDiedError, match=said) as caught:
        # Far more than is sent before the signal arrives.
        engine.generate(Generate(prompt=(88,), sampling=ENDLESS, speculation=speculation(4)))
    assert caught.value.log == native_log.tail(10)
    assert not psutil.pid_exists(first)

    found: list[Event] = []
    engine.on_event = found.append
    again = engine.generate(COMMAND)
    assert again.tokens == expected.tokens
    assert again.counters.n_accepted == expected.counters.n_accepted > 0
    assert pid_of(worker) != first
    assert {one.role.value for one in found if isinstance(one, LoadProgress)} == {"target", "draft"}


def test_a_process_that_was_idle_is_replaced_without_a_word(
    engine: Engine, worker: ProcessWorker
) -> None:
    expected = engine.generate(COMMAND).tokens
    end(worker)
    assert engine.generate(COMMAND).tokens == expected


def test_nothing_is_loaded_again_that_was_unloaded(engine: Engine, worker: ProcessWorker) -> None:
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
            engine.generate(Generate(prompt=(88,), sampling=ENDLESS, speculation=speculation(4)))
        assert not psutil.pid_exists(first)
        assert engine.generate(COMMAND).stop is Stop.LENGTH


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


def test_a_stop_ends_what_runs_in_the_process(engine: Engine) -> None:
    engine.on_event = once(engine.stop, TokenEmitted)
    stopped = engine.generate(Generate(prompt=(88,), sampling=ENDLESS))
    assert stopped.stop is Stop.CANCELLED
    engine.on_event = lambda _event: None
    assert engine.generate(COMMAND).stop is Stop.LENGTH


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


def test_a_command_is_cancelled_while_models_are_loaded_again(
    engine: Engine, worker: ProcessWorker
) -> None:
    end(worker)
    engine.on_event = once(engine.stop, LoadProgress)
    with pytest.raises(CancelledError):
        engine.generate(COMMAND)
    engine.on_event = lambda _event: None
    assert engine.generate(COMMAND).stop is Stop.LENGTH


def test_the_process_has_no_more_memory_than_there_is_and_goes_first(
    engine: Engine, worker: ProcessWorker
) -> None:
    engine.tokenize(Tokenize(text="in"))
    limits = Path(f"/proc/{pid_of(worker)}/limits").read_text().splitlines()
    (limit,) = (line.split()[3] for line in limits if line.startswith("Max data size"))
    machine = psutil.virtual_memory().total + psutil.swap_memory().total
    assert 0 < int(limit) < machine + (1 << 30)
    assert Path(f"/proc/{pid_of(worker)}/oom_score_adj").read_text().strip() == "900"


def test_closing_ends_the_process(tiny: TinyPath, worker: ProcessWorker) -> None:
    with Engine(worker=worker) as engine:
        load(engine, tiny)
        pid = pid_of(worker)
    assert worker.pid is None
    assert not psutil.pid_exists(pid)


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


def test_the_process_ends_with_the_program_that_started_it(tiny: TinyPath) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tiny(TARGET))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        child = psutil.Process(json.loads(program.stdout.readline()))
        program.kill()
        with suppress(psutil.NoSuchProcess):
            child.wait(30)
    assert not child.is_running()
