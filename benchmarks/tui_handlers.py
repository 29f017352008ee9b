"""What holds the screen's event loop: every message handler, every turn, and how late the loop is.

The real app, in a real pseudo terminal of 120×40, with the real engine on the dense demo pair: it
loads, streams an answer beside all panels, opens every screen, and shows trials being added to a
table of 200. A scripted engine would give the same processor times, but would not compete for the
interpreter and for cores, and a headless app would not paint. Here both count: wall time beyond
processor time is what the engine's threads take from the screen. The trials alone are made up,
since 200 real ones take hours; the app gets them as it gets those of a search.
"""

import argparse
import asyncio
import gc
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
from textual import events
from textual.pilot import Pilot

from benchmarks.common import write_results
from benchmarks.loop_probe import TICK_S, LoopProbe
from benchmarks.tui_table import make_records
from benchmarks.tui_throughput import QUESTION, arguments_of_the_app
from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, command, make_launch
from spectui.live.setup import Activity
from spectui.paths import data_dir, ensure_dir
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.mailbox import Mailbox
from spectui.tui.terminal import private_terminal
from spectui.tui.threads import Threads
from spectui.tune.progress import Phase, TuningState
from tests.support.terminal import Terminal

SIZE = (40, 120)
N_TRIALS = 200
N_UPDATES = 20
SCREENS = ("f1", "f3", "f5", "f6", "f7", "f8", "ctrl+p")
_LONGEST_S = 600.0
_SETTLED_S = 0.5
"""Beyond the longest time between two repaints of a screen that is not quiet."""


def main() -> None:
    """Measure and write ``results/tui_handlers.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments, of_the_app = parser.parse_known_args()
    if arguments.inside is not None:
        inside(arguments.inside, of_the_app)
    threads = max(1, (psutil.cpu_count(logical=False) or 1) - 1)
    options = [*arguments_of_the_app(threads), "-n", str(arguments.tokens), "--ignore-eos"]
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "measured.json"
        program = ["-m", "benchmarks.tui_handlers", "--inside", str(path)]
        with Terminal(options, Path(home), size=SIZE, program=program) as terminal:
            rest = terminal.end(within_s=_LONGEST_S)
        if not path.exists():
            raise RuntimeError(f"the app ended before it was measured:\n{rest[-4000:]}")
        phases = json.loads(path.read_text(encoding="utf-8"))
    write_results(
        "tui_handlers",
        {
            "terminal": SIZE,
            "threads": threads,
            "tokens": arguments.tokens,
            "trials": N_TRIALS,
            "tick_ms": 1000 * TICK_S,
            "phases": phases,
        },
    )


def inside(path: Path, of_the_app: list[str]) -> None:
    """Be the app, measure it, write what was measured to ``path``, and end the process."""
    request = request_of(Cockpit, command.make_context("cockpit", of_the_app))
    launch = make_launch(request, Settings())
    log = ensure_dir(data_dir() / "logs") / "spectui.log"
    probe = LoopProbe()
    probe.install()
    with private_terminal(log) as log_file:
        mailboxes: list[Mailbox[object]] = []

        def make_threads(mailbox: Mailbox[object]) -> Threads:
            mailboxes.append(mailbox)
            return Threads(mailbox, log_file)

        app = SpectuiApp(launch, make_threads)
        scenario = Scenario(app, mailboxes[0], probe)
        gc.freeze()
        app.run(auto_pilot=scenario.play)
    app.threads.close()
    results = {name: phase.results() for name, phase in probe.phases.items()}
    path.write_text(json.dumps(results), encoding="utf-8")
    # As spectui does: native threads may still be busy.
    os._exit(0)


class Scenario:
    """What the user and the engine do."""

    def __init__(self, app: SpectuiApp, mailbox: Mailbox[object], probe: LoopProbe) -> None:
        """Play in ``app``."""
        self._app = app
        self._mailbox = mailbox
        self._probe = probe
        self._records = make_records(N_TRIALS)

    async def play(self, _pilot: Pilot[object]) -> None:
        """Go through all phases. Keys are posted as the terminal's driver posts them."""
        self._probe.begin("load")
        watch = asyncio.create_task(self._probe.watch_lateness())
        async with asyncio.timeout(_LONGEST_S):
            tally = self._app.session.tally
            await self._until(lambda: self._app.live.activity is Activity.READY)
            await self._until(lambda: tally.state().throughput.baseline_tokens_per_s is not None)
            self._probe.begin("answer")
            await self._answer()
            self._probe.begin("screens")
            await self._screens()
            self._probe.begin("tuning")
            await self._tuning()
        self._probe.end()
        watch.cancel()
        self._app.exit()

    async def _answer(self) -> None:
        self._app.live.query_one(PromptBox).text = QUESTION
        self._press("enter")
        await self._until(lambda: self._app.live.activity is Activity.ANSWERING)
        await self._until(lambda: self._app.live.activity is Activity.READY)

    async def _screens(self) -> None:
        for key in SCREENS:
            self._press(key)
            await self._until(lambda: self._app.screen is not self._app.live)
            await asyncio.sleep(_SETTLED_S)
            self._press("escape")
            await self._until(lambda: self._app.screen is self._app.live)
            await asyncio.sleep(_SETTLED_S)

    async def _tuning(self) -> None:
        self._press("f5")
        await self._until(lambda: self._app.screen is not self._app.live)
        for n in range(N_TRIALS - N_UPDATES, N_TRIALS + 1):
            state = TuningState(phase=Phase.SEARCHING, study="s", records=self._records[:n])
            self._mailbox.put(state)
            await self._until(lambda state=state: self._app.tune.state is state)  # type: ignore[misc]
            await asyncio.sleep(_SETTLED_S)

    def _press(self, key: str) -> None:
        self._app.post_message(events.Key(key, None))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - states of an app, which has no events for them
            await asyncio.sleep(TICK_S)


if __name__ == "__main__":
    main()
