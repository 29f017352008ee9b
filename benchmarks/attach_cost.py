"""What it costs a busy llama-server to be watched: its tokens/s with and without.

The real server runs the dense demo pair. Every prompt is decoded three times, one right after the
other, in an order that changes from prompt to prompt: alone; while a poller asks ten times per
second, in a process of its own, as the screen does; and under ``spectui attach --interval 0.1`` in
a real pseudo terminal, which draws as well. The aim is that asking costs at most 1 % of tokens/s.

Throughput is as noisy as the machine. So the server's own time for the questions is measured as
well, while it has nothing else to do: seconds of its processor per second, which is the most that
they can take from the cores that decode.

Watchers that rest are stopped. The server computes with one thread fewer than there are cores,
unless ``--threads`` says otherwise: on a core that it computes with, a watcher costs what it takes
of that core, which ``cores`` tells.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pexpect
import psutil

from benchmarks.common import start_server, write_results
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.server.client import ChatMessage
from spectui.server.process import LlamaServer
from spectui.server.watch.locator import parse_address
from spectui.server.watch.poller import Poller
from spectui.server.watch.sample import Sample
from spectui.server.watch.tracker import Tracker
from tests.support.terminal import Terminal

AIM = 0.01
N_RESAMPLES = 10_000
IDLE_S = 20.0


class Watcher(Protocol):
    """A process that watches the server while it is wanted."""

    def begin(self) -> None:
        """Watch."""

    def end(self) -> None:
        """Rest."""

    def cpu_s(self) -> float:
        """Return the time that it has taken of all cores."""
        ...


def main() -> None:
    """Measure and write ``results/attach_cost.json``."""
    if sys.argv[1:2] == ["--watch"]:
        watch(sys.argv[2], float(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--draft-max", type=int, default=4)
    cores = psutil.cpu_count(logical=False) or 1
    parser.add_argument("--threads", type=int, default=max(1, cores - 1))
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    # A terminated run ends what it has started as well.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    speculation = Speculation(DraftSimple(draft_max=arguments.draft_max))
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server(
            speculation, Path(folder) / "log", "--metrics", "-t", str(arguments.threads)
        ) as server,
        asking(server, 1 / arguments.hz) as asked,
        drawing(server, 1 / arguments.hz, Path(folder)) as screen,
    ):
        prompts = raw_prompts(server, arguments.prompts)
        watchers: dict[str, Watcher] = {"asked": asked, "screen": screen}
        idle = {way: idle_cores(server, watchers.get(way)) for way in ("alone", *watchers)}
        rows = measure(server, watchers, prompts, arguments)
    results = {
        "hz": arguments.hz,
        "n_predict": arguments.n_predict,
        "threads": arguments.threads,
        "aim": AIM,
        "server_idle_cores": idle,
        **{
            way: {
                "cost": summary([row[f"{way}_cost"] for row in rows], arguments.seed),
                "cores": statistics.fmean(row[f"{way}_cores"] for row in rows),
            }
            for way in watchers
        },
        "rows": rows,
    }
    if arguments.dry:
        print(json.dumps(results, indent=2))
    else:
        write_results("attach_cost", results)


def raw_prompts(server: LlamaServer, n_prompts: int) -> list[str]:
    """Return the first prompts of the built-in suite as the model's template writes them."""
    suite = builtin_suite()[:n_prompts]
    return [
        server.apply_template([ChatMessage(role=m.role, content=m.content) for m in one.messages])
        for one in suite
    ]


def measure(
    server: LlamaServer,
    watchers: dict[str, Watcher],
    prompts: list[str],
    arguments: argparse.Namespace,
) -> list[dict[str, float]]:
    """Return a row per prompt and repeat: tokens/s each way, the share lost, the cores taken."""
    orders = random.Random(arguments.seed)  # noqa: S311 - shuffles, guards nothing
    tokens_per_s(server, prompts[0], arguments.n_predict)
    rows = []
    for prompt in prompts * arguments.repeats:
        row: dict[str, float] = {}
        for way in orders.sample(["alone", *watchers], 1 + len(watchers)):
            with watching(watchers.get(way), way, row):
                row[way] = tokens_per_s(server, prompt, arguments.n_predict)
        row |= {f"{way}_cost": 1 - row[way] / row["alone"] for way in watchers}
        rows.append(row)
        print(row, file=sys.stderr)
    return rows


def idle_cores(server: LlamaServer, watcher: Watcher | None) -> float:
    """Return the cores that the server takes while it only answers the watcher."""
    process = psutil.Process(server.pid)
    row: dict[str, float] = {}
    with watching(watcher, "idle", row):
        before, began_s = process.cpu_times(), time.monotonic()
        time.sleep(IDLE_S)
        after, took_s = process.cpu_times(), time.monotonic() - began_s
    return (after.user + after.system - before.user - before.system) / took_s


@contextmanager
def watching(watcher: Watcher | None, way: str, row: dict[str, float]) -> Iterator[None]:
    """Let it watch until the end of the block, and note the cores that this took."""
    if watcher is None:
        yield
        return
    watcher.begin()
    before_s, began_s = watcher.cpu_s(), time.monotonic()
    yield
    row[f"{way}_cores"] = (watcher.cpu_s() - before_s) / (time.monotonic() - began_s)
    watcher.end()


def tokens_per_s(server: LlamaServer, prompt: str, n_predict: int) -> float:
    """Return what the server measures. The first token came with the prompt."""
    done = server.complete(prompt, n_predict=n_predict, ignore_eos=True)
    return (done.n_predicted - 1) / done.predicted_s


def summary(costs: list[float], seed: int) -> dict[str, float]:
    """Return median and mean, each with a 95 % bootstrap interval over rows."""
    draws = random.Random(seed)  # noqa: S311 - resamples, guards nothing
    found: dict[str, float] = {"n": len(costs)}
    for name, of in (("median", statistics.median), ("mean", statistics.fmean)):
        resampled = sorted(of(draws.choices(costs, k=len(costs))) for _ in range(N_RESAMPLES))
        found |= {
            name: of(costs),
            f"{name}_low": resampled[int(0.025 * N_RESAMPLES)],
            f"{name}_high": resampled[int(0.975 * N_RESAMPLES)],
        }
    return found


class Stopped:
    """A process that is stopped while it rests."""

    def __init__(self, program: psutil.Process, guard: psutil.Process | None = None) -> None:
        self._program = program
        self._guard = guard or program

    def begin(self) -> None:
        """Let it go on, and who guards its terminal, who may not have stopped yet."""
        self._guard.resume()
        self._program.resume()

    def end(self) -> None:
        """Stop it."""
        self._program.suspend()

    def cpu_s(self) -> float:
        """Return the time that it has taken of all cores."""
        times = self._program.cpu_times()
        return times.user + times.system


@contextmanager
def asking(server: LlamaServer, interval_s: float) -> Iterator[Watcher]:
    """Start the process that asks; it gets the key in its environment."""
    command = [sys.executable, "-m", "benchmarks.attach_cost", "--watch"]
    process = subprocess.Popen(
        [*command, server.base_url, str(interval_s)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LLAMA_API_KEY": server.api_key or ""},
        start_new_session=True,
    )
    try:
        if process.stdout is None or not process.stdout.readline():
            raise RuntimeError("the process that asks has not begun")
        watcher = Stopped(psutil.Process(process.pid))
        watcher.end()
        yield watcher
    finally:
        process.kill()
        process.communicate()


def watch(url: str, interval_s: float) -> None:
    """Ask for ever, and put samples together as the screen does; say when the first has come."""
    wanted = parse_address(url, os.environ["LLAMA_API_KEY"])
    tracker, has_begun = Tracker(url), threading.Event()

    def take(sample: Sample) -> None:
        tracker.add(sample)
        has_begun.set()

    Poller(wanted, take, interval_s=interval_s).start()
    has_begun.wait()
    print("begun", flush=True)
    threading.Event().wait()


@contextmanager
def drawing(server: LlamaServer, interval_s: float, home: Path) -> Iterator[Watcher]:
    """Start the screen in a terminal that somebody reads."""
    os.environ["LLAMA_API_KEY"] = server.api_key or ""
    options = ["attach", server.base_url, "--interval", str(interval_s)]
    with Terminal(options, home) as terminal:
        terminal.see("connected")
        threading.Thread(target=drain, args=(terminal,), daemon=True).start()
        watcher = Stopped(terminal.program, psutil.Process(terminal.child.pid))
        watcher.end()
        try:
            yield watcher
        finally:
            watcher.begin()


def drain(terminal: Terminal) -> None:
    """Read what is drawn until the program ends: one that nobody reads would wait."""
    with suppress(OSError, EOFError, pexpect.EOF):
        while True:
            terminal.child.read_nonblocking(65536, None)


if __name__ == "__main__":
    main()
