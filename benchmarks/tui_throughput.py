"""What the screen costs the engine: tokens/s inside the app against the headless engine.

Both run the dense demo pair with the same number of compute threads, the app in a real pseudo
terminal. ``chat``: one question, answered under the screen and by an engine without one, in turn.
``trials``: the first two trials of a search (off, and llama-server's defaults) measured by the
background tuner and by ``spectui tune``. What counts are the ratios of neighbours in time; of a
trial, that of its throughput over the anchor runs around it, which is what a search compares.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.config import SamplingConfig, Schedule, SpeculationConfig
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.sessions import AnswerEnd, recent_sessions
from spectui.tune.trials import TrialRecord
from tests.support.terminal import Terminal

Trial = dict[str, float]
ARMS = ("off", "defaults")
QUESTION = "Describe the life of a lighthouse keeper in detail."
_F5 = "\x1b[15~"
_TRIALS_S = 1200.0
"""Longest wait for two trials."""


def main() -> None:
    """Measure and write ``results/tui_throughput.json`` and ``results/tui_trials.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--n-predict", type=int, default=160)
    parser.add_argument("--trial-repeats", type=int, default=2)
    arguments = parser.parse_args()
    cores = psutil.cpu_count(logical=False) or 1
    threads = max(1, cores - 1)
    results: dict[str, Any] = {"threads": threads}
    chats = (("chat", threads), ("chat_all_cores", cores)) if arguments.repeats else ()
    for name, n_threads in chats:
        results[name] = compare(
            arguments.repeats,
            headless=partial(headless, n_threads, arguments.n_predict),
            screen=partial(under_the_screen, n_threads, arguments.n_predict),
        )
    if arguments.repeats:
        write_results("tui_throughput", results)
    if arguments.trial_repeats:
        trials = compare_trials(arguments.trial_repeats, threads)
        write_results("tui_trials", {"threads": threads, **trials})


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
        engine.load_target(target, replace(CONTEXT, threads=threads), max_draft=16)
        engine.load_draft(draft)
        _warm_up(engine)
        prompt = engine.tokenize(Tokenize(messages=(("user", QUESTION),)))
        result = engine.generate(
            Generate(
                prompt=prompt,
                n_predict=n_predict,
                sampling=SamplingConfig(ignore_eos=True),
                speculation=SpeculationConfig(),
                schedule=Schedule.FAST,
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
    options = [*arguments_of_the_app(threads), "-n", str(n_predict), "--ignore-eos"]
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        # The target's own speed is measured first.
        terminal.see("baseline")
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


def compare_trials(repeats: int, threads: int) -> dict[str, Any]:
    """Measure the same trials in the background of the app and headless."""
    rows: list[dict[str, Any]] = []
    for repeat in range(repeats):
        ways = {"headless": trials_headless, "screen": trials_under_the_screen}
        order = list(ways) if repeat % 2 == 0 else list(ways)[::-1]
        found = {name: ways[name](threads) for name in order}
        for arm, alone, beside in zip(ARMS, found["headless"], found["screen"], strict=True):
            rows.append(
                {
                    "arm": arm,
                    "headless": alone,
                    "screen": beside,
                    "ratio": beside["relative"] / alone["relative"],
                    "ratio_of_tokens_per_s": beside["tokens_per_s"] / alone["tokens_per_s"],
                }
            )
            print(rows[-1], file=sys.stderr)
    ratios = [row["ratio"] for row in rows]
    speeds = [row["ratio_of_tokens_per_s"] for row in rows]
    return {
        "median_ratio": statistics.median(ratios),
        "median_ratio_of_tokens_per_s": statistics.median(speeds),
        "rows": rows,
    }


def trials_headless(threads: int) -> list[Trial]:
    """Run the first two trials of ``spectui tune``."""
    command = [sys.executable, "-m", "spectui", "tune", *arguments_of_the_app(threads)]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "SPECTUI_HOME": home}
        with subprocess.Popen(
            [*command, "-n", "64"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        ) as process:
            for line in process.stderr or ():
                if line.startswith("trial 1:"):
                    # Two trials are enough; interrupted, it keeps what it has measured.
                    process.send_signal(signal.SIGINT)
        return _stored_trials(Path(home) / "data" / "studies.sqlite3")


def trials_under_the_screen(threads: int) -> list[Trial]:
    """Run the same trials in the app's background."""
    options = arguments_of_the_app(threads)
    with tempfile.TemporaryDirectory() as home, Terminal(options, Path(home)) as terminal:
        terminal.see("ready")
        terminal.press(_F5)
        terminal.see("Press s to start")
        terminal.press("s")
        terminal.see("2 of 30 trials", _TRIALS_S)
        terminal.press("\x11")
        terminal.end()
        return _stored_trials(Path(home) / "data" / "studies.sqlite3")


def _stored_trials(path: Path) -> list[Trial]:
    """Throughput, and throughput over the anchor runs around it, which is what a trial counts."""
    import optuna  # noqa: PLC0415 - only here

    (name,) = optuna.get_all_study_names(f"sqlite:///{path}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{path}")
    records = [
        msgspec.convert(trial.user_attrs["record"], TrialRecord)
        for trial in study.get_trials()[: len(ARMS)]
    ]
    return [
        {"tokens_per_s": record.tokens_per_s or 0.0, "relative": record.relative or 0.0}
        for record in records
    ]


if __name__ == "__main__":
    main()
