"""What the screen costs the engine: tokens/s inside the app against the headless engine.

Both run the dense demo pair with the same number of compute threads, the app in a real pseudo
terminal: one question, answered under the screen and by an engine without one, in turn. What counts
are the ratios of neighbours in time. ``tui_trials`` does the same for the trials of a search.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.engine.commands import Generate, LoadTarget, Tokenize
from spectui.engine.driver import Engine
from spectui.live.sessions import AnswerEnd, recent_sessions
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from tests.support.terminal import Terminal

QUESTION = "Describe the life of a lighthouse keeper in detail."


def main() -> None:
    """Measure and write ``results/tui_throughput.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--n-predict", type=int, default=160)
    arguments = parser.parse_args()
    cores = psutil.cpu_count(logical=False) or 1
    threads = max(1, cores - 1)
    results: dict[str, Any] = {"threads": threads}
    for name, n_threads in (("chat", threads), ("chat_all_cores", cores)):
        results[name] = compare(
            arguments.repeats,
            headless=partial(headless, n_threads, arguments.n_predict),
            screen=partial(under_the_screen, n_threads, arguments.n_predict),
        )
    write_results("tui_throughput", results)


def compare(
    repeats: int, *, headless: Callable[[], float], screen: Callable[[], float]
) -> dict[str, Any]:
    """Run both in turn, in alternating order."""
    rows = []
    for repeat in range(repeats):
        ways = [("headless", headless), ("screen", screen)]
        row = {name: run() for name, run in (ways if repeat % 2 == 0 else ways[::-1])}
        rows.append({**row, "ratio": row["screen"] / row["headless"]})
        print(rows[-1], file=sys.stderr)
    return {"median_ratio": statistics.median(row["ratio"] for row in rows), "rows": rows}


def headless(threads: int, n_predict: int) -> float:
    """Tokens/s of the engine alone, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tui_throughput_headless"]
    done = subprocess.run(
        [*command, str(threads), str(n_predict)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def decode_headless(threads: int, n_predict: int) -> float:
    """Answer the question on the engine; return its tokens/s."""
    target, draft = demo_pair()
    with Engine() as engine:
        engine.load_target(
            LoadTarget(options=target, context=replace(CONTEXT, threads=threads), max_draft=16)
        )
        engine.load_draft(draft)
        _warm_up(engine)
        prompt = engine.tokenize(Tokenize(messages=(("user", QUESTION),)))
        result = engine.generate(
            Generate(
                prompt=prompt,
                n_predict=n_predict,
                sampling=SamplingConfig(temp=0.0, ignore_eos=True),
                speculation=Speculation(),
            )
        )
    return result.n_decoded / result.decode_s


def _warm_up(engine: Engine) -> None:
    """As the app, which measures its baseline after a load: the first tokens are slow."""
    prompt = engine.tokenize(Tokenize(messages=(("user", "Hello"),)))
    engine.generate(Generate(prompt=prompt, n_predict=24))


def arguments_of_the_app(threads: int) -> list[str]:
    """The same pair and options for the app."""
    target, draft = demo_pair()
    return ["-m", str(target.path), "-md", str(draft.path), "-c", "2048", "-t", str(threads)]


def under_the_screen(threads: int, n_predict: int) -> float:
    """Tokens/s of the same answer in the app."""
    options = [*arguments_of_the_app(threads), "-n", str(n_predict), "--ignore-eos", "--temp", "0"]
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        # The target's own speed is measured first.
        terminal.see("target alone")
        terminal.press(QUESTION)
        terminal.see("keeper in detail")
        terminal.press("\r")
        terminal.see(f"{n_predict} tokens")
        terminal.press("\x11")
        terminal.end()
        (session,) = recent_sessions(1, Path(home) / "data" / "sessions")
    (end,) = [entry for entry in session.entries if isinstance(entry, AnswerEnd)]
    if not end.n_decoded or not end.decode_s:
        raise RuntimeError(f"the answer has no times: {end}")
    return end.n_decoded / end.decode_s


if __name__ == "__main__":
    main()
