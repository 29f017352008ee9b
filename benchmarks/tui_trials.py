"""What the screen costs a trial that the background tuner measures.

The real app, in a real pseudo terminal of 120×40, tunes the dense demo pair in the background.
Every measurement of the search is made twice, one right after the other and in alternating order:
while the screen lives, and while it stands still, its event loop and its monitor held. The engine,
its thread and the search are the same in both, so the ratio is what the screen takes, and the
machine's drift, which is larger, is common to both halves of a pair.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from textual import events
from textual.pilot import Pilot

from benchmarks.common import write_results
from benchmarks.tui_throughput import arguments_of_the_app
from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, command, make_launch
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.live.setup import Activity
from spectui.paths import data_dir, ensure_dir
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.mailbox import Mailbox
from spectui.tui.terminal import private_terminal
from spectui.tui.threads import Threads
from tests.support.terminal import Terminal

SIZE = (40, 120)
_TICK_S = 0.05
_LONGEST_S = 3600.0
_NEVER_S = 86_400.0
_N_TOKENS = 64
"""Of a prompt in a trial; what is shorter is an anchor or a warm-up."""


def main() -> None:
    """Measure and write ``results/tui_trials.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments, of_the_app = parser.parse_known_args()
    if arguments.inside is not None:
        inside(arguments.inside, arguments.pairs, of_the_app)
    threads = max(1, (psutil.cpu_count(logical=False) or 1) - 1)
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "measured.json"
        program = ["-m", "benchmarks.tui_trials", "--pairs", str(arguments.pairs)]
        program += ["--inside", str(path)]
        options = arguments_of_the_app(threads)
        with Terminal(options, Path(home), size=SIZE, program=program) as terminal:
            rest = terminal.end(within_s=_LONGEST_S)
        if not path.exists():
            raise RuntimeError(f"the app ended before it was measured:\n{rest[-4000:]}")
        rows = json.loads(path.read_text(encoding="utf-8"))
    write_results("tui_trials", {"terminal": SIZE, "threads": threads, **summary(rows)})


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median ratio and its 95 % interval (order statistics of the sign test), and all pairs."""
    ratios = sorted(row["ratio"] for row in rows)
    n = len(ratios)
    reach = int(0.98 * n**0.5)
    return {
        "median_ratio": statistics.median(ratios),
        "interval_of_median": (ratios[max(0, n // 2 - reach)], ratios[min(n - 1, n // 2 + reach)]),
        "ratio_of_sums": sum(row["still_s"] for row in rows) / sum(row["live_s"] for row in rows),
        "n_pairs": n,
        "rows": rows,
    }


def inside(path: Path, n_pairs: int, of_the_app: list[str]) -> None:
    """Be the app, measure it, write what was measured to ``path``, and end the process."""
    request = request_of(Cockpit, command.make_context("cockpit", of_the_app))
    launch = make_launch(request, Settings())
    log = ensure_dir(data_dir() / "logs") / "spectui.log"
    with private_terminal(log) as log_file:

        def make_threads(mailbox: Mailbox[object]) -> Threads:
            return Threads(mailbox, log_file)

        app = SpectuiApp(launch, make_threads)
        scenario = Scenario(app, n_pairs)
        gc.freeze()
        app.run(auto_pilot=scenario.play)
    path.write_text(json.dumps(scenario.rows), encoding="utf-8")
    # As spectui does: native threads may still be busy.
    os._exit(0)


class Scenario:
    """Starts the search and doubles its measurements."""

    def __init__(self, app: SpectuiApp, n_pairs: int) -> None:
        """Measure ``n_pairs`` in ``app``."""
        self._app = app
        self._n_pairs = n_pairs
        self._loop: asyncio.AbstractEventLoop | None = None
        self.rows: list[dict[str, Any]] = []
        self._done = threading.Event()

    async def play(self, _pilot: Pilot[object]) -> None:
        """Load, open the tune screen, start, wait for the pairs, leave."""
        self._loop = asyncio.get_running_loop()
        await self._until(lambda: self._app.live.activity is Activity.READY)
        tally = self._app.session.tally
        await self._until(lambda: tally.state().throughput.baseline_tokens_per_s is not None)
        self._install()
        self._app.post_message(events.Key("f5", None))
        await self._until(lambda: self._app.screen is not self._app.live)
        self._app.post_message(events.Key("s", "s"))
        await self._until(lambda: self._done.is_set() or not self._is_going())
        self._app.exit()

    def _is_going(self) -> bool:
        state = self._app.tune.state
        return not self.rows or (state is not None and state.is_running)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - states of an app, which has no events for them
            await asyncio.sleep(_TICK_S)

    def _install(self) -> None:
        """Let every measurement of a search be made twice."""
        generate = Engine.generate

        def twice(engine: Engine, command: Generate) -> GenerationResult:
            if command.n_predict < _N_TOKENS or command.draft_lengths or self._done.is_set():
                return generate(engine, command)
            # Its prompt is evaluated here, so that neither half does it.
            prompt_only = Generate(prompt=command.prompt, n_predict=1, reuse_prompt=True)
            generate(engine, prompt_only)
            found = {}
            for still in (True, False) if len(self.rows) % 2 else (False, True):
                found[still] = self._measure(generate, engine, command, still=still)
            self._note(command, found)
            return found[False]

        Engine.generate = twice  # type: ignore[method-assign,assignment]

    def _measure(
        self,
        generate: Callable[[Engine, Generate], GenerationResult],
        engine: Engine,
        command: Generate,
        *,
        still: bool,
    ) -> GenerationResult:
        if not still:
            return generate(engine, command)
        with self._still():
            return generate(engine, command)

    def _note(self, command: Generate, found: dict[bool, GenerationResult]) -> None:
        live, still = found[False], found[True]
        if live.tokens != still.tokens:
            raise RuntimeError("the two halves of a pair decoded different text")
        if live.n_decoded:
            self.rows.append(
                {
                    "speculative": command.speculation is not None,
                    "n_tokens": live.n_decoded,
                    "live_s": live.decode_s,
                    "still_s": still.decode_s,
                    "ratio": still.decode_s / live.decode_s,
                }
            )
        if len(self.rows) >= self._n_pairs:
            self._done.set()

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Hold the event loop and the monitor."""
        held, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go_on.wait()

        threads, loop = self._app.threads, self._loop
        if loop is None:
            raise RuntimeError("the app does not run")
        threads.sample_every(_NEVER_S)
        loop.call_soon_threadsafe(hold)
        held.wait()
        try:
            yield
        finally:
            go_on.set()
            threads.sample_every(1.0)


if __name__ == "__main__":
    main()
