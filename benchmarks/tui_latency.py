"""How quick the screen is: first paint, key-press to screen while an answer streams, idle cost.

The real program in a real pseudo terminal on the dense demo pair, with one compute thread fewer
than cores. A key-press is the time from writing a character to the terminal until it is drawn, and
quitting the time from writing Ctrl+Q until the program has gone: two seconds at most are the aim.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import write_results
from benchmarks.tui_throughput import QUESTION, arguments_of_the_app
from tests.support.terminal import Terminal

MARKS = "§¶ÆØÞßæøþÐ"
"""Characters that the model does not write."""
IDLE_S = 20.0
QUIT_WITHIN_S = 2.0
_CTRL_Q = "\x11"
_F5 = "\x1b[15~"
_SEARCH_S = 900.0
"""Longest wait for the recording."""


def main() -> None:
    """Measure and write ``results/tui_latency.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=150)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--quits", type=int, default=5)
    arguments = parser.parse_args()
    threads = max(1, (psutil.cpu_count(logical=False) or 1) - 1)
    starts = [first_paint(threads) for _ in range(arguments.starts)]
    write_results(
        "tui_latency",
        {
            "first_paint_s": statistics.median(row["first_paint_s"] for row in starts),
            "first_screen_s": statistics.median(row["first_screen_s"] for row in starts),
            "starts": starts,
            **while_streaming(threads, arguments.keys),
            "idle": idle(threads),
            "quit": quit_during(threads, arguments.quits),
        },
    )


def first_paint(threads: int) -> dict[str, float]:
    """Seconds from the start of the program to its first words, and to the whole screen."""
    # It builds the models once.
    arguments = arguments_of_the_app(threads)
    with tempfile.TemporaryDirectory() as home:
        began = time.perf_counter()
        with Terminal(arguments, Path(home)) as terminal:
            terminal.see("starting")
            first_paint_s = time.perf_counter() - began
            terminal.see("Enter sends")
            first_screen_s = time.perf_counter() - began
            terminal.see("ready")
            terminal.press(_CTRL_Q)
            terminal.end()
    return {"first_paint_s": first_paint_s, "first_screen_s": first_screen_s}


def while_streaming(threads: int, n_keys: int) -> dict[str, Any]:
    """Seconds from key to screen while an answer is being written."""
    options = [*arguments_of_the_app(threads), "-n", "1500", "--ignore-eos"]
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        terminal.see("ready")
        terminal.press(QUESTION)
        terminal.see("keeper in detail")
        terminal.press("\r")
        terminal.see("answering")
        seconds = []
        for n in range(n_keys):
            if n % len(MARKS) == 0:
                # Each mark stands in the box once, so that seeing it is seeing this key.
                terminal.press("\x15")
                terminal.see("Enter sends")
            seconds.append(_press(terminal, MARKS[n % len(MARKS)]))
        terminal.press(_CTRL_Q)
        terminal.end()
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "key_to_screen_s": {
            "median": statistics.median(seconds),
            "p95": cuts[-1],
            "max": max(seconds),
            "n": n_keys,
        }
    }


def _press(terminal: Terminal, mark: str) -> float:
    began = time.perf_counter()
    terminal.press(mark)
    terminal.see(mark)
    seconds = time.perf_counter() - began
    # Not in step with the repaints.
    time.sleep(0.05 + 0.013 * (hash(mark) % 7))
    return seconds


def idle(threads: int) -> dict[str, float]:
    """Processor time of the app while nothing happens, as a share of one core."""
    options = arguments_of_the_app(threads)
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        terminal.see("ready")
        # The baseline is measured first.
        time.sleep(15)
        before = _cpu_s(terminal)
        time.sleep(IDLE_S)
        share = (_cpu_s(terminal) - before) / IDLE_S
        terminal.press(_CTRL_Q)
        terminal.end()
    return {"share_of_a_core": share, "seconds": IDLE_S}


def quit_during(threads: int, repeats: int) -> dict[str, Any]:
    """Seconds from Ctrl+Q to the end of the program: during a load, an answer and a search."""
    moments = {"load": _load, "answer": _answer, "search": _search}
    rows = {
        name: [_quit_s(threads, reach) for _ in range(repeats)] for name, reach in moments.items()
    }
    worst_s = max(max(seconds) for seconds in rows.values())
    return {
        **{
            name: {"median_s": statistics.median(seconds), "max_s": max(seconds), "n": repeats}
            for name, seconds in rows.items()
        },
        "aim_s": QUIT_WITHIN_S,
        "holds": worst_s <= QUIT_WITHIN_S,
    }


def _load(terminal: Terminal) -> None:
    terminal.see("loading")


def _answer(terminal: Terminal) -> None:
    terminal.see("ready")
    terminal.press(f"{QUESTION}\r")
    # Times of a round are there: tokens are being decoded.
    terminal.see("tokens/round")


def _search(terminal: Terminal) -> None:
    terminal.see("ready")
    terminal.press(_F5)
    terminal.see("Enter starts")
    terminal.press("\r")
    terminal.see("recording", _SEARCH_S)


def _quit_s(threads: int, reach: Callable[[Terminal], None]) -> float:
    options = arguments_of_the_app(threads)
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        reach(terminal)
        began = time.perf_counter()
        terminal.press(_CTRL_Q)
        terminal.end()
        return time.perf_counter() - began


def _cpu_s(terminal: Terminal) -> float:
    times = terminal.program.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
