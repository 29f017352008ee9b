"""The gate before measurements: scripted memory, and the files of a system."""

from pathlib import Path

import pytest

from spectui.engine import pressure
from spectui.engine.commands import Generate
from spectui.engine.events import CommandRestarted, Event, LoadProgress, MemoryPaused
from spectui.engine.host_memory import HostMemory
from spectui.engine.pressure import MOST_S
from spectui.errors import CancelledError, MemoryShortError
from spectui.options.setup import ModelOptions
from spectui.speculative.decoder import Stop
from tests.support.cli import Spectui
from tests.support.engine import ENDLESS, MAX_DRAFT, local_engine, small_context
from tests.support.memory import GIB, Scripted
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures", "tests.support.cli_fixtures")

MIB = 1 << 20


@pytest.fixture
def memory() -> Scripted:
    return Scripted()


class Gated:
    """Measures, and takes down what it was told."""

    def __init__(self, memory: Scripted) -> None:
        self.memory = memory
        self.gate = memory.gate()
        self.told: list[str | None] = []
        self.is_over = False

    def measure(self) -> float:
        self.memory.now_s += 1
        self.gate.wait(self.told.append, lambda: self.is_over)
        return self.memory.now_s


def test_nothing_is_measured_until_there_is_clearly_memory_again(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram = 200 * MIB

    def give(now_s: float) -> None:
        # A little more than what closed it does not open it, nor does much for a moment.
        memory.ram = GIB if now_s == 3 or now_s >= 5 else 300 * MIB

    memory.on_sleep = give
    assert gated.measure() == 7.0
    paused = "paused, because RAM has 210 MB left below memory.max"
    assert gated.told == [f"{paused}; it goes on once there is memory again", None]
    assert gated.gate.waited_s == 6.0
    assert gated.measure() == 8.0
    assert len(gated.told) == 2


def test_memory_that_stays_short_ends_it_in_a_sentence(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram = 0
    with pytest.raises(MemoryShortError, match=r"stayed short for 10 min .* close other programs"):
        gated.measure()
    assert memory.now_s == pytest.approx(MOST_S, abs=3)
    assert len(gated.told) == 1
    # Nobody waits for it any more.
    gated.is_over = True
    with pytest.raises(CancelledError):
        gated.measure()


def test_a_pair_that_leaves_little_may_have_that(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram = 100 * MIB
    gated.gate.settle()
    gated.measure()
    assert gated.told == []
    memory.ram = 40 * MIB
    memory.on_sleep = lambda _now_s: setattr(memory, "ram", 100 * MIB)
    gated.measure()
    assert len(gated.told) == 2


def test_an_engine_pauses_before_what_it_does_and_the_pause_is_no_time_of_its(
    memory: Scripted, tiny: TinyPath
) -> None:
    told: list[Event] = []

    def run_short(ram: int) -> None:
        memory.ram, memory.now_s = ram, memory.now_s + 1
        told.clear()

    with local_engine(told.append, gate=memory.gate()) as engine:
        memory.on_sleep = lambda _now_s: setattr(memory, "ram", 8 * GIB)
        run_short(100 * MIB)
        engine.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=MAX_DRAFT)
        kinds = [type(one) for one in told]
        # A load waits, and is not repeated.
        assert kinds.index(LoadProgress) > kinds.index(MemoryPaused)
        before_s = engine.waited_s
        run_short(0)
        command = Generate(prompt=(88, 102), n_predict=4, sampling=ENDLESS)
        assert engine.generate(command).stop is Stop.LENGTH
        assert engine.waited_s - before_s >= 3
        paused = [one.reason for one in told if isinstance(one, MemoryPaused)]
        assert [one is None for one in paused] == [False, True]
        assert not any(isinstance(one, CommandRestarted) for one in told)
        run_short(100 * MIB)
        memory.on_sleep = lambda _now_s: engine.stop()
        with pytest.raises(CancelledError, match="while memory was short"):
            engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))


def test_a_command_says_that_it_pauses_while_memory_is_short(
    spectui: Spectui, pair: list[object], prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_reads = 0

    class Falling(Scripted):
        def read(self) -> HostMemory:
            nonlocal n_reads
            n_reads += 1
            self.ram = 0 if 8 <= n_reads < 10 else 8 * GIB
            return super().read()

    monkeypatch.setattr(pressure, "host_memory", Falling().read)
    monkeypatch.setattr(pressure, "_LOOK_S", 0)
    assert spectui("bench", *pair, "--prompts", prompts) == 0, spectui.err
    said = " ".join(spectui.err.split())
    assert "paused, because RAM has 0 B left below memory.max" in said
    assert "memory is there again, it goes on" in said
