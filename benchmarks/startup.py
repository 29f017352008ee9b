"""Wall times of whole commands that a user waits for, interleaved with an empty Python.

``--help``; the screen's first paint; ``doctor`` of the machine; ``lint`` of a command; ``models
scan`` of a folder of 500 headers; ``report`` of a study with 10,000 trials. Each aim is what a
command may take, of ``--help`` what it may take more than Python alone. The headers take 3 GB.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from benchmarks.common import write_results
from benchmarks.tui_latency import first_paint
from spectui.paths import ensure_dir
from tests.golden.commands_support import restored
from tests.golden.make_stored import STORED
from tests.support.shapes import QWEN3_0_6B, QWEN3_NEXT_80B_A3B, write_header

RUNS, RUNS_OF_LONG = 15, 5
N_HEADERS, N_TRIALS = 500, 10_000
AIMS_S = {
    "help": 0.08,
    "first paint": 0.4,
    "doctor": 1.0,
    "lint": 0.3,
    "scan": 2.0,
    "report": 3.0,
}
_LONG = frozenset({"doctor", "scan", "report", "first paint"})
_STUDY = "every-kind"
_SPECTUI = [sys.executable, "-m", "spectui"]


def main() -> None:
    """Measure and write ``results/startup.json``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SPECTUI_HOME"] = str(folder / "home")
        page = str(folder / "report.html")
        keep_large_study(folder)
        ways: dict[str, Callable[[], float]] = {
            "python": partial(wall_s, [sys.executable, "-c", "pass"]),
            "help": partial(wall_s, [*_SPECTUI, "--help"]),
            "first paint": lambda: first_paint(1)["first_paint_s"],
            "doctor": partial(wall_s, [*_SPECTUI, "doctor", "--quiet"]),
            "lint": partial(wall_s, [*_SPECTUI, "lint", "llama-server -m a.gguf -c 4096"]),
            "scan": partial(wall_s, [*_SPECTUI, "models", "scan", str(headers(folder))]),
            "report": partial(wall_s, [*_SPECTUI, "report", _STUDY, "-o", page]),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for run in range(RUNS):
            for way, measured in ways.items():
                if way not in _LONG or run < RUNS_OF_LONG:
                    seconds[way].append(measured())
    median_s = {way: statistics.median(values) for way, values in seconds.items()}
    more_s = {way: value - median_s["python"] * (way == "help") for way, value in median_s.items()}
    write_results(
        "startup",
        {
            "median_s": median_s,
            "max_s": {way: max(values) for way, values in seconds.items()},
            "aims_s": AIMS_S,
            "met": {way: more_s[way] <= aim for way, aim in AIMS_S.items()},
            "n_headers": N_HEADERS,
            "n_trials": N_TRIALS,
        },
    )


def wall_s(command: list[str]) -> float:
    """Run a command to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def headers(folder: Path) -> Path:
    """A folder of 500 files with the vocabularies and tensors of large models, all zeros behind."""
    models = folder / "models"
    models.mkdir(exist_ok=True)
    for n, shape in enumerate((QWEN3_0_6B, QWEN3_NEXT_80B_A3B)):
        first = models / f"shape-{n}.gguf"
        n_bytes = write_header(shape, first)
        size_bytes = first.stat().st_size
        with first.open("rb") as file:
            header = file.read(size_bytes - n_bytes)
        for n_copy in range(1, N_HEADERS // 2):
            path = models / f"shape-{n}-{n_copy}.gguf"
            path.write_bytes(header)
            # The weights are a hole in the file.
            os.truncate(path, size_bytes)
    return models


def keep_large_study(folder: Path) -> None:
    """Keep a study with the trials of a real one over and over."""
    storage = ensure_dir(folder / "home" / "data") / "studies.sqlite3"
    url = restored((STORED / "studies.sql").read_text("utf-8"), storage)
    study = optuna.load_study(study_name=_STUDY, storage=url)
    trials = study.get_trials()
    study.add_trials(_numbered(trials[n % len(trials)], n) for n in range(len(trials), N_TRIALS))


def _numbered(trial: FrozenTrial, number: int) -> FrozenTrial:
    found = copy(trial)
    record = {**trial.user_attrs["record"], "number": number}
    found.user_attrs = {**trial.user_attrs, "record": record}
    return found


if __name__ == "__main__":
    main()
