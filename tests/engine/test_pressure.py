"""The gate before measurements: scripted memory, the files of a system, and a real cgroup."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import CommandRestarted, Event, LoadProgress, MemoryPaused
from spectui.engine.pressure import MOST_S, SystemMemory
from spectui.errors import CancelledError, MemoryShortError
from spectui.options.setup import ModelOptions
from spectui.speculative.decoder import Stop
from tests.support.engine import ENDLESS, MAX_DRAFT, small_context
from tests.support.memory import GIB, Scripted
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath, write_tiny

pytest_plugins = ("tests.support.fixtures",)

MIB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def memory() -> Scripted:
    return Scripted()


class Gated:
    """Measures, and takes down what it was told."""

    def __init__(self, memory: Scripted, *, from_disk: bool = False) -> None:
        self.memory = memory
        self.gate = memory.gate(from_disk=from_disk)
        self.told: list[str | None] = []
        self.n_again = 0
        self.is_over = False
        self.run: Callable[[], float] = lambda: memory.now_s

    def measure(self) -> float:
        self.memory.now_s += 1

        def again() -> None:
            self.n_again += 1

        return self.gate.measure(
            self.run, tell=self.told.append, again=again, is_over=lambda: self.is_over
        )


def test_nothing_is_measured_until_there_is_clearly_memory_again(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram = 200 * MIB

    def give(now_s: float) -> None:
        # A little more than what closed it does not open it.
        memory.ram = 300 * MIB if now_s < 5 else GIB

    memory.on_sleep = give
    assert gated.measure() == 7.0
    paused = "paused, because RAM has 210 MB left below memory.max"
    assert gated.told == [f"{paused}; it goes on once there is memory again", None]
    assert (gated.gate.n_pauses, gated.gate.waited_s) == (1, 6.0)
    assert gated.measure() == 8.0
    assert len(gated.told) == 2


def test_memory_that_stays_short_ends_it_in_a_sentence(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram = 0
    with pytest.raises(MemoryShortError, match=r"stayed short for 10 min .* close other programs"):
        gated.measure()
    assert memory.now_s == pytest.approx(MOST_S, abs=3)
    assert len(gated.told) == 1


def test_a_pause_ends_where_nobody_waits_for_it(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram, gated.is_over = 0, True
    with pytest.raises(CancelledError):
        gated.measure()


def test_what_was_measured_while_programs_waited_is_measured_again(memory: Scripted) -> None:
    gated = Gated(memory)
    stalls = [0.5, 0.0]

    def run() -> float:
        memory.now_s += 2
        memory.stalled_s += stalls.pop(0)
        return memory.now_s

    gated.run = run
    assert gated.measure() > 3
    assert gated.n_again == 1
    assert gated.told[0] is not None
    assert "programs wait for memory 25 % of the time" in gated.told[0]


def test_who_wants_to_read_from_disk_is_not_held_back_by_that(memory: Scripted) -> None:
    gated = Gated(memory, from_disk=True)

    def run() -> float:
        memory.stalled_s += 1
        return memory.now_s

    gated.run = run
    assert gated.measure() == 1
    assert gated.measure() == 2
    assert gated.told == []


def test_a_pair_that_leaves_little_may_have_that(memory: Scripted) -> None:
    gated = Gated(memory)
    memory.ram, memory.gpu = 100 * MIB, None
    gated.gate.settle()
    gated.measure()
    assert gated.told == []
    memory.ram = 40 * MIB
    memory.on_sleep = lambda _now_s: setattr(memory, "ram", 100 * MIB)
    gated.measure()
    assert len(gated.told) == 2


@pytest.mark.parametrize(("loaded", "n_told"), [(4 * GIB, 2), (0, 0)])
def test_a_gpu_counts_where_a_load_took_of_it(memory: Scripted, loaded: int, n_told: int) -> None:
    memory.gpu = 6 * GIB
    gated = Gated(memory)
    memory.gpu -= loaded
    gated.gate.settle()
    memory.gpu = 10 * MIB
    memory.on_sleep = lambda _now_s: setattr(memory, "gpu", GIB)
    gated.measure()
    assert len(gated.told) == n_told


def test_the_innermost_cgroup_tells_how_long_it_waited(tmp_path: Path) -> None:
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")

    some = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 total=1"
    write("proc/pressure/memory", some.format(7_000_000))
    assert SystemMemory(tmp_path).read().stalled_s == 7.0
    write("proc/self/cgroup", "0::/app")
    write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    write("sys/fs/cgroup/app/memory.pressure", some.format(1_500_000))
    write("sys/fs/cgroup/app/memory.max", str(512 * MIB))
    write("sys/fs/cgroup/app/memory.current", str(500 * MIB))
    with SystemMemory(tmp_path) as found:
        read = found.read()
    assert read.stalled_s == 1.5
    assert read.free_bytes["RAM"] == 12 * MIB
    assert read.limit is not None
    assert read.limit.endswith("app/memory.max")
    (tmp_path / "sys/fs/cgroup/app/memory.pressure").unlink()
    (tmp_path / "proc/pressure/memory").unlink()
    assert SystemMemory(tmp_path).read().stalled_s is None


def test_an_engine_pauses_between_commands_and_the_pause_is_no_time_of_its(
    memory: Scripted, tiny: TinyPath
) -> None:
    told: list[Event] = []
    with Engine(told.append, gate=memory.gate()) as engine:
        engine.load_target(ModelOptions(path=tiny(TARGET)), small_context(512), max_draft=MAX_DRAFT)
        memory.ram = 0
        memory.now_s += 1
        memory.on_sleep = lambda _now_s: setattr(memory, "ram", 8 * GIB)
        before_s, n_before = engine.waited_s, engine.n_interruptions
        command = Generate(prompt=(88, 102), n_predict=4, sampling=ENDLESS)
        assert engine.generate(command).stop is Stop.LENGTH
        assert engine.waited_s - before_s >= 3
        assert engine.n_interruptions == n_before + 1
    paused = [one.reason for one in told if isinstance(one, MemoryPaused)]
    assert [one is None for one in paused] == [False, True]
    assert not any(isinstance(one, CommandRestarted) for one in told)


def test_a_load_waits_for_memory_and_is_not_repeated(memory: Scripted, tiny: TinyPath) -> None:
    told: list[Event] = []
    with Engine(told.append, gate=memory.gate()) as engine:
        memory.ram = 100 * MIB
        memory.now_s += 1
        memory.on_sleep = lambda _now_s: setattr(memory, "ram", 8 * GIB)
        options = ModelOptions(path=tiny(TARGET))
        engine.load_target(options, small_context(512), max_draft=MAX_DRAFT)
        (began,) = (n for n, one in enumerate(told) if isinstance(one, MemoryPaused) and one.reason)
        assert not any(isinstance(one, LoadProgress) for one in told[:began])
        assert engine.n_interruptions == 1
        memory.ram = 100 * MIB
        memory.now_s += 1
        memory.on_sleep = lambda _now_s: engine.stop()
        with pytest.raises(CancelledError, match="while memory was short"):
            engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))


HOG = """
import sys
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096):
    held[at] = 1
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of version 1 with 1 GiB, where this machine lets us make one."""
    folder = CGROUPS / f"spectui-test-{os.getpid()}-{random.randrange(1 << 30)}"  # noqa: S311 - no secret
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(GIB))
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip("no cgroup can be made here")
    yield folder
    folder.rmdir()


@pytest.mark.ci
def test_a_search_pauses_beside_a_program_that_takes_the_memory(
    cgroup: Path, tmp_path: Path
) -> None:
    write_tiny(TARGET, tmp_path / "target.gguf")
    write_tiny(CLOSE_DRAFT, tmp_path / "draft.gguf")
    prompts = [json.dumps({"id": f"p{n}", "prompt": f"abc {n}"}) for n in range(8)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(prompts), encoding="utf-8")

    def enter() -> None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    words = ["tune", "-m", "target.gguf", "-md", "draft.gguf", "--prompts", "prompts.jsonl"]
    sizes = ["-n", "200", "-c", "1024", "-t", "1", "--trials", "5"]
    with subprocess.Popen(
        [sys.executable, "-m", "spectui", *words, *sizes],
        cwd=tmp_path,
        env={**os.environ, "SPECTUI_HOME": str(tmp_path / "home")},
        preexec_fn=enter,  # noqa: PLW1509 - it must be in the cgroup before it takes memory
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        assert any("measuring the target alone" in line for line in program.stderr)
        program.send_signal(signal.SIGSTOP)
        usage = int((cgroup / "memory.usage_in_bytes").read_text())
        with subprocess.Popen(
            [sys.executable, "-c", HOG, str(GIB - usage - 120 * MIB)],
            preexec_fn=enter,  # noqa: PLW1509 - as above
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as hog:
            assert hog.stdout is not None
            assert hog.stdout.readline() == "held\n"
            program.send_signal(signal.SIGCONT)
            assert any("paused, because RAM has" in line for line in program.stderr)
            hog.kill()
        assert any("memory is there again, it goes on" in line for line in program.stderr)
        assert any("against off, until it is decided" in line for line in program.stderr)
        program.communicate()
        assert program.returncode == 0
