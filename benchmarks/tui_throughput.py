"""What the screen costs the engine: tokens/s inside the app against the headless engine.

Both run the dense demo pair with the same number of compute threads, the app in a real pseudo
terminal: one question, answered under the screen and by an engine without one, in turn. What counts
are the ratios of neighbours in time. ``tui_trials`` does the same for the trials of a search.

With ``--isolate`` it measures instead what it costs that the models are in a process of their own:
tokens/s of short answers that take turns; seconds of a command that computes next to nothing,
whose words cross the connection twice; and, in two real terminals that take turns, seconds from
Enter until the answer's first word is drawn. That is a token's way to its first paint, with all
that goes before it: the question's way there, its tokens, their evaluation. All of these are the
same on both sides but for the connection, so that the difference is what isolation adds.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.isolation import ProcessWorker
from spectui.live.sessions import AnswerEnd, AnswerPart, recent_sessions
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from tests.support.terminal import Terminal

QUESTION = "Describe the life of a lighthouse keeper in detail."
SHORT_QUESTION = "Who keeps a lighthouse?"
SHORT = 8
"""Tokens of an answer of which only the first counts."""


def main() -> None:
    """Measure and write ``results/tui_throughput.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--n-predict", type=int, default=160)
    parser.add_argument("--isolate", action="store_true")
    arguments = parser.parse_args()
    cores = psutil.cpu_count(logical=False) or 1
    threads = max(1, cores - 1)
    if arguments.isolate:
        repeats = arguments.repeats
        write_results(
            "tui_isolation",
            {
                "threads": threads,
                "first_paint_s": isolated_paint(threads, repeats),
                "tokens_per_s": isolated_speed(threads, arguments.n_predict, repeats),
            },
        )
        return
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
        engine.load_target(target, replace(CONTEXT, threads=threads), max_draft=16)
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


def isolated_speed(threads: int, n_predict: int, repeats: int) -> dict[str, Any]:
    """Tokens/s of the same answer, and seconds of a command, of engines that take turns."""
    target, draft = demo_pair()
    context = replace(CONTEXT, threads=threads)
    speeds: dict[str, list[float]] = {"local": [], "isolated": []}
    commands: dict[str, list[float]] = {"local": [], "isolated": []}
    with Engine() as local, Engine(worker=ProcessWorker()) as isolated:
        engines = {"local": local, "isolated": isolated}
        for engine in engines.values():
            engine.load_target(target, context, max_draft=16)
            engine.load_draft(draft)
            _warm_up(engine)
        for repeat in range(repeats):
            ways = list(engines.items())
            for name, engine in ways if repeat % 2 == 0 else ways[::-1]:
                began = time.perf_counter()
                prompt = engine.tokenize(Tokenize(messages=(("user", QUESTION),)))
                commands[name].append(time.perf_counter() - began)
                result = engine.generate(
                    Generate(
                        prompt=prompt,
                        n_predict=n_predict,
                        sampling=SamplingConfig(temp=0.0, ignore_eos=True),
                        speculation=Speculation(),
                    )
                )
                speeds[name].append(result.n_decoded / result.decode_s)
    return {"speed": _beside(speeds), "command_s": _beside(commands)}


def isolated_paint(threads: int, repeats: int) -> dict[str, Any]:
    """Seconds from Enter to the first word on the screen, of two programs that take turns."""
    options = [*arguments_of_the_app(threads), "-n", str(SHORT), "--ignore-eos", "--temp", "0"]
    ways = {"local": "--no-isolate", "isolated": "--isolate"}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with ExitStack() as stack:
        terminals, words = {}, {}
        for name, way in ways.items():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            terminals[name] = stack.enter_context(Terminal([*options, way], home))
            terminals[name].see("baseline")
            _first_paint_s(terminals[name], f"{SHORT} tokens,")
            words[name] = _first_word(home)
        for repeat in range(repeats):
            for name in ways if repeat % 2 == 0 else reversed(ways):
                seconds[name].append(_first_paint_s(terminals[name], words[name]))
        for terminal in terminals.values():
            terminal.press("\x11")
            terminal.end()
    return _beside(seconds)


def _first_paint_s(terminal: Terminal, word: str) -> float:
    """Ask in a new chat; return the seconds until ``word`` is drawn."""
    terminal.press("\x0e")
    terminal.see("Ask something")
    terminal.press(SHORT_QUESTION)
    terminal.see(SHORT_QUESTION)
    # Not in step with the repaints, nor with the recording of the answer before.
    time.sleep(1 + 0.1 * random.random())  # noqa: S311 - no secret
    began_s = time.perf_counter()
    terminal.press("\r")
    terminal.see(word)
    seconds = time.perf_counter() - began_s
    if not word.endswith("tokens,"):
        terminal.see(f"{SHORT} tokens,")
    return seconds


def _first_word(home: Path) -> str:
    (session,) = recent_sessions(1, home / "data" / "sessions")
    text = "".join(one.text for one in session.entries if isinstance(one, AnswerPart))
    word = text.split()[0]
    if word in SHORT_QUESTION:
        raise RuntimeError(f"the question has the answer's first word, {word}: ask another")
    return word


def _beside(values: dict[str, list[float]]) -> dict[str, Any]:
    local, isolated = (statistics.median(values[name]) for name in ("local", "isolated"))
    pairs = zip(values["local"], values["isolated"], strict=True)
    return {
        "local": local,
        "isolated": isolated,
        "ratio_of_medians": isolated / local,
        "median_ratio": statistics.median(b / a for a, b in pairs),
        "more": isolated - local,
        "values": values,
    }


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


if __name__ == "__main__":
    main()
