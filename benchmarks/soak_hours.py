"""Hours of chat and tuning on tiny models: what the program has gathered at the end.

The real app in a real pseudo terminal of 120×40, its models in a process of their own, steered from
inside. The clock is accelerated: an hour is what somebody does in one who asks a question a minute,
begins a new chat every quarter of an hour, tunes once on other prompts while the chat goes on, and
looks at every other screen four times. Tiny models answer at once, so that nobody waits in between.
What is due by the clock, readings of the machine and repaints, comes ``--speed`` times as often.
In each hour of ``--losing`` the process with the models is killed three times: while nothing is
under way, in an answer, in a trial.

At the end of every hour, when nothing is under way, memory that belongs to the processes alone
(USS), RSS, descriptors, threads, processes and temporary files are counted; and of the memory what
the C library holds free, to give it out again. The first hours fill caches, import what is imported
late, and record answers for replay until there are as many as are kept: 8,000 tokens, which come
together in the third hour. The last hour is held against the hour ``--settled``; of the process
with the models, which is another one after a loss, against the first whole hour of it.
The slope is that of a straight line through all hours from ``--settled`` on.
"""

import argparse
import asyncio
import ctypes
import gc
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import pexpect
import psutil
from textual import events
from textual.pilot import Pilot

from benchmarks.common import write_results
from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, command, make_launch
from spectui.live.setup import Activity
from spectui.monitor.readings import Snapshot
from spectui.paths import data_dir, ensure_dir
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.mailbox import Mailbox
from spectui.tui.terminal import private_terminal
from spectui.tui.threads import Threads
from spectui.tui.tune.form import PromptSource, Wanted
from tests.support.models import CLOSE_DRAFT, TARGET, write_tiny
from tests.support.terminal import Terminal

SIZE = (40, 120)
_HOUR_TURNS = 60
_CHAT_TURNS = 15
_LOSING_TURN = 10
_N_PREDICT = 64
_N_PROMPTS = 16
_SCREENS = ("f1", "f3", "f6", "f7", "f8", "f10", "ctrl+p")
_TICK_S = 0.02
_STILL_TICKS = 25
"""Looks for which the process with the models must have computed nothing."""
_STILL_S = 1.0
_LONGEST_S = 600.0
"""Longest wait for anything at all: a busy machine is no fault."""
_LEAST_S = 0.01
_DRAWN_S = 0.2
"""Seconds in which a screen is there, or has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Resources of the program's processes at the end of an hour."""

    minute: float
    """Of the run."""
    turns: int
    trials: int
    readings: int
    """Of the machine."""
    screen_bytes: int
    """USS of the screen's process."""
    screen_free_bytes: int | None
    """Held free there by the C library; None where that is not glibc."""
    models_bytes: int
    """USS of the process with the models."""
    rss_bytes: int
    models_began: int
    """Processes with models that there have been."""
    descriptors: int
    threads: int
    processes: int
    temporary_files: int


def main() -> None:
    """Play the hours and write ``results/soak_hours.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=8, help="at most")
    parser.add_argument("--minutes", type=float, default=30.0, help="longest time that it takes")
    parser.add_argument("--settled", type=int, default=3, help="hour that the last is held against")
    parser.add_argument("--speed", type=float, default=16.0, help="of the clock")
    parser.add_argument("--losing", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is not None:
        inside(arguments.inside, arguments)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "temporary").mkdir()
        write_tiny(TARGET, folder / "target.gguf")
        write_tiny(CLOSE_DRAFT, folder / "draft.gguf")
        outcome = _outcome(folder, sys.argv[1:], arguments.minutes)
        states = [State(**row) for row in json.loads((folder / "states.json").read_text())]
    write_results("soak_hours", {**summary(states, arguments.settled), **outcome})


def _outcome(folder: Path, arguments: list[str], minutes: float) -> dict[str, Any]:
    """Have the app play the hours in a terminal; return how it ended and what is left of it."""
    program = ["-m", "benchmarks.soak_hours", "--inside", str(folder / "states.json"), *arguments]
    temporary = folder / "temporary"
    before = {"TMPDIR": str(temporary), "HOME": str(folder)}
    kept = {name: os.environ.get(name) for name in before}
    os.environ.update(before)
    try:
        with Terminal([], folder / "home", size=SIZE, program=program) as terminal:
            everybody = _read_to_its_end(terminal, 60 * minutes + 2 * _LONGEST_S)
    finally:
        for name, value in kept.items():
            if value is not None:
                os.environ[name] = value
    if not (folder / "states.json").exists():
        raise RuntimeError("the app ended before anything was counted")
    _gone, left = psutil.wait_procs(everybody, _LONGEST_S)
    return {
        "exit_code": terminal.exit_code,
        "processes_left": len(left),
        "temporary_files_left": _n_files(temporary),
        "sessions": len(list((folder / "home/data/sessions").iterdir())),
    }


def _read_to_its_end(terminal: Terminal, within_s: float) -> set[psutil.Process]:
    """Read as a terminal does until the program has ended; return the children that it has had."""
    seen: set[psutil.Process] = set()
    program = psutil.Process(terminal.child.pid)
    ends_s = time.monotonic() + within_s
    last = ""
    while time.monotonic() < ends_s:
        with suppress(pexpect.TIMEOUT):
            try:
                last = (last + terminal.child.read_nonblocking(65536, 1.0))[-4000:]
            except pexpect.EOF:
                terminal.child.wait()
                if terminal.exit_code:
                    print(last, file=sys.stderr)
                return seen
        with suppress(psutil.NoSuchProcess):
            seen.update(program.children(recursive=True))
    raise RuntimeError(f"the app does not end:\n{last}")


def summary(states: list[State], settled: int) -> dict[str, Any]:
    """The last hour beside the one that is ``settled``, slopes, and all hours."""
    first, last = states[min(settled, len(states)) - 1], states[-1]
    lives: dict[int, list[State]] = {}
    for state in states:
        lives.setdefault(state.models_began, []).append(state)
    # An hour with losses ends with a process that has not seen all of it.
    of_last = lives[last.models_began][1:] or [last]
    screen = [state.screen_bytes for state in states[min(settled, len(states)) - 1 :]]
    models = [state.models_bytes for state in of_last]
    return {
        "hours": len(states),
        "turns": last.turns,
        "trials": last.trials,
        "readings": last.readings,
        "models_lost": last.models_began - 1,
        "screen": {"ratio": last.screen_bytes / first.screen_bytes, **_slope(screen)},
        "models": {"ratio": models[-1] / models[0], "hours": len(models), **_slope(models)},
        "memory_ratio": (screen[-1] + models[-1]) / (screen[0] + models[0]),
        "descriptors_more": last.descriptors - first.descriptors,
        "threads_more": last.threads - first.threads,
        "processes_more": last.processes - first.processes,
        "temporary_files_more": last.temporary_files - first.temporary_files,
        "states": [asdict(state) for state in states],
    }


def _slope(values: list[int]) -> dict[str, float | None]:
    if len(values) < 2:  # noqa: PLR2004 - a line
        return {"bytes_per_hour": None, "share_in_eight_hours": None}
    line = statistics.linear_regression(range(len(values)), values)
    return {
        "bytes_per_hour": line.slope,
        "share_in_eight_hours": 8 * line.slope / values[0],
    }


def _n_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def inside(path: Path, arguments: argparse.Namespace) -> None:
    """Be the app, play the hours, write the states to ``path``, and end as spectui does."""
    folder = path.parent
    models = ["-m", str(folder / "target.gguf"), "-md", str(folder / "draft.gguf")]
    sizes = ["-n", str(_N_PREDICT), "--ignore-eos", "-c", "4096", "-t", "1"]
    request = request_of(Cockpit, command.make_context("cockpit", [*models, *sizes]))
    launch = make_launch(request, Settings())
    log = ensure_dir(data_dir() / "logs") / "spectui.log"
    with private_terminal(log) as log_file:

        def make_threads(mailbox: Mailbox[object]) -> Threads:
            return Threads(mailbox, log_file)

        app = SpectuiApp(launch, make_threads)
        hours = Hours(app, folder, arguments)
        gc.freeze()
        app.run(auto_pilot=hours.play)
    app.threads.close()
    path.write_text(json.dumps([asdict(state) for state in hours.states]), encoding="utf-8")
    if app.crash is not None:
        print(app.crash, file=sys.stderr)
    os._exit(app.crash is not None)


class Hours:
    """Plays a user, hour by hour."""

    def __init__(self, app: SpectuiApp, folder: Path, arguments: argparse.Namespace) -> None:
        """Play in ``app``, with files in ``folder``."""
        self._app = app
        self._folder = folder
        self._arguments = arguments
        self._began_s = time.monotonic()
        self._turns = self._trials = self._readings = 0
        self._models: list[int] = []
        self.states: list[State] = []
        self.lost = 0

    async def play(self, _pilot: Pilot[object]) -> None:
        """Play until hours or minutes are over, two hours at least, and quit."""
        self._hasten()
        await self._until(lambda: self._app.live.activity is Activity.READY)
        while self._is_time_left() or len(self.states) < 2:  # noqa: PLR2004 - for a comparison
            await self._hour(len(self.states) + 1)
            await self._still()
            self.states.append(self._state())
            print(self.states[-1], file=sys.stderr, flush=True)
        self._app.exit()

    def _is_time_left(self) -> bool:
        minutes = (time.monotonic() - self._began_s) / 60
        # The next hour has to fit.
        fits = minutes * (1 + 1 / max(1, len(self.states))) < self._arguments.minutes
        return bool(fits) and len(self.states) < self._arguments.hours

    def _hasten(self) -> None:
        """Accelerate what is due by the clock."""
        app, speed = self._app, self._arguments.speed
        threads, pace = app.threads, app._pace  # noqa: SLF001 - no way for users
        sample_every, begin = threads.sample_every, pace.begin

        def sample_faster(interval_s: float) -> None:
            sample_every(max(_LEAST_S, interval_s / speed))

        def begin_faster() -> None:
            begin()
            pace.interval_s = min(pace.interval_s, max(_LEAST_S, 0.1 / speed))

        snapshot = app.session.tally.snapshot

        def count(reading: Snapshot) -> None:
            self._readings += 1
            snapshot(reading)

        threads.sample_every = sample_faster  # type: ignore[method-assign]
        pace.begin = begin_faster  # type: ignore[method-assign]
        app._takers[Snapshot] = count  # noqa: SLF001 - as above

    async def _hour(self, number: int) -> None:
        loses = number in self._arguments.losing
        for turn in range(1, _HOUR_TURNS + 1):
            if turn % _CHAT_TURNS == 1:
                self._app.session.new_chat()
            if turn == _HOUR_TURNS // 4:
                await self._tune(number, loses=loses)
            await self._ask(
                f"question {turn} of hour {number}", loses=loses and turn == _LOSING_TURN
            )
            if turn % _CHAT_TURNS == 0:
                await self._look_around()
        await self._until(lambda: not self._app.tune.is_measuring)
        self._trials += self._n_tried()
        if loses:
            await self._still()
            # Nobody needs them now: the next prompt loads them again.
            self._lose()
            await self._ask("are you still there?", loses=False)

    def _n_tried(self) -> int:
        state = self._app.tune.state
        return 0 if state is None else len(state.records)

    def _is_raced(self) -> bool:
        state = self._app.tune.state
        return state is not None and state.is_confirming and state.n_done > 0

    async def _tune(self, number: int, *, loses: bool) -> None:
        """Begin the hour's search, which goes on beside the chat."""
        path = self._folder / f"prompts-{number}.jsonl"
        rows = [
            {"prompt": f"{number}, {n}: tell me of the sea", "category": "chat"}
            for n in range(_N_PROMPTS)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        await self._press("f5")
        await self._until(lambda: self._app.tuning is not None)
        self._app.tune.start(Wanted(source=PromptSource.FILES, path=path))
        await self._until(lambda: self._app.tune.is_measuring)
        if loses:
            await self._until(lambda: self._n_tried() > 0 or not self._app.tune.is_measuring)
            self._lose()
        await self._until(lambda: self._is_raced() or not self._app.tune.is_measuring)
        await self._press("escape")
        await self._until(lambda: self._app.tuning is None)

    async def _ask(self, text: str, *, loses: bool) -> None:
        app = self._app
        before = len(app.session.chat.messages())
        app.post_message(events.Paste(text))
        await self._press("enter")
        await self._until(lambda: len(app.session.chat.messages()) > before)
        if loses:
            self._lose()
        await self._until(lambda: app.live.activity is Activity.READY)
        self.lost += loses
        self._turns += 1

    async def _look_around(self) -> None:
        """Open and close every screen."""
        app = self._app
        for key in _SCREENS:
            await self._press(key)
            await self._until(lambda: app.screen is not app.live)
            # The palette takes one of them for its list.
            # Nothing closes a screen of an app that is told to end.
            while app.screen is not app.live and app.is_running:
                await asyncio.sleep(_DRAWN_S)
                await self._press("escape")
        for _on_and_off in range(2):
            await self._press("f2")

    def _lose(self) -> None:
        """Kill the process with the models."""
        engine = self._app.session.engine
        if engine is not None and engine.process is not None:
            os.kill(engine.process, signal.SIGKILL)

    async def _press(self, key: str) -> None:
        self._app.post_message(events.Key(key, None))
        await asyncio.sleep(0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + _LONGEST_S
        while not condition():
            if time.monotonic() > ends_s:
                app = self._app
                raise RuntimeError(f"this never came: {app.live.activity}, {app.screen}")
            await asyncio.sleep(_TICK_S)

    async def _still(self) -> None:
        """Wait until nothing is under way: neither an answer nor a recording nor a baseline."""
        await self._until(lambda: self._app.live.activity is not Activity.ANSWERING)
        n_still, used_s = 0, -1.0
        while n_still < _STILL_TICKS:
            await asyncio.sleep(_STILL_S / _STILL_TICKS)
            now_s = self._used_s()
            n_still, used_s = (n_still + 1 if now_s == used_s else 0), now_s

    def _used_s(self) -> float:
        engine = self._app.session.engine
        if engine is None or engine.process is None:
            return 0.0
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(engine.process).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def _state(self) -> State:
        gc.collect()
        screen = psutil.Process()
        processes = [screen, *screen.children(recursive=True)]
        engine = self._app.session.engine
        pid = None if engine is None else engine.process
        if pid is None:
            raise RuntimeError("no process has the models")
        if pid not in self._models[-1:]:
            self._models.append(pid)
        memory = {one.pid: one.memory_full_info() for one in processes}
        return State(
            minute=round((time.monotonic() - self._began_s) / 60, 2),
            turns=self._turns,
            trials=self._trials,
            readings=self._readings,
            screen_bytes=memory[screen.pid].uss,
            screen_free_bytes=free_bytes(),
            models_bytes=memory[pid].uss,
            rss_bytes=sum(one.rss for one in memory.values()),
            models_began=len(self._models),
            descriptors=sum(one.num_fds() for one in processes),
            threads=sum(one.num_threads() for one in processes),
            processes=len(processes),
            temporary_files=_n_files(self._folder / "temporary"),
        )


class _MallInfo(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def free_bytes() -> int | None:
    """Bytes that the C library holds free in this process, in all its arenas."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _MallInfo
    return int(library.mallinfo2().fordblks)


if __name__ == "__main__":
    main()
