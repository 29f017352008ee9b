"""Workers on PostgreSQL that are killed, while the database restarts: every trial counted once.

A scripted engine stands for the models: a trial takes a fixed time. One process conducts the
study, workers join it; every ``--kill-every`` seconds one worker is killed (SIGKILL) and another
one takes its place, and the database is restarted twice. What each process has said to be measured
is held against what the storage has. Then follow the storage's cost per trial as the study grows,
and the speed-up of several workers.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any, TypeVar

import msgspec
import optuna

from benchmarks.common import write_results
from spectui.measure.arm import Arm
from spectui.tune.studies import records
from spectui.tune.studies.sampling import Sampler
from spectui.tune.studies.storage import close_storage, open_storage
from spectui.tune.studies.study import TuningStudy
from spectui.tune.trials import PromptScore, TrialRecord, TrialState
from tests.support.postgres import Postgres, postgres
from tests.support.workers import open_study

T = TypeVar("T")
_COSTS = {Sampler.RANDOM: "cost_per_trial", Sampler.TPE: "cost_per_trial_tpe"}
"""Names of the costs, by sampler: TPE reads what all finished trials had, random sampling none."""
_ENDS_S = 120.0
"""Seconds that the end of a study may take after its last trial."""


class Program:
    """A process that measures, and what it said."""

    def __init__(self, url: str, name: str, seconds: float, kind: str, n_trials: int) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.workers"),
                *(name, str(seconds), kind, str(n_trials)),
            ],
            env={**os.environ, "SPECTUI_STORAGE": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        self.lines.extend(line.strip() for line in self._process.stdout or ())

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self, seconds: float) -> int:
        """Wait for its end; return its exit code."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        code = self._process.wait()
        self._reader.join()
        return code


def stored(url: str, name: str) -> list[tuple[int, str, str]]:
    """Number, state and Optuna's state of each trial that has begun."""
    storage = open_storage(url)
    try:
        study = optuna.load_study(study_name=name, storage=storage)
        found = []
        for trial in study.get_trials(deepcopy=False):
            record = records.record_of(trial)
            if record is not None:
                found.append((record.number, str(record.state), trial.state.name))
        return found
    finally:
        close_storage(storage)


class _Workers:
    """Workers that join a study; each one that ends is replaced."""

    def __init__(self, server: Postgres, name: str, options: argparse.Namespace) -> None:
        self._url, self._name, self._trial_s = server.url, name, options.trial_s
        self._chance = random.Random(options.seed)  # noqa: S311 - no secret
        self.running = [self._start() for _ in range(options.workers)]
        self.ended: list[Program] = []
        self.n_kills = 0

    def _start(self) -> Program:
        return _worker(self._url, self._name, self._trial_s)

    def kill_one(self) -> bool:
        """Kill one at random, unless one has ended by itself; tell whether one was killed."""
        if not all(worker.runs for worker in self.running):
            return False
        n = self._chance.randrange(len(self.running))
        self.running[n].kill()
        self._replace(n)
        self.n_kills += 1
        return True

    def replace_ended(self) -> None:
        """Start another one for each that began while the database was away, and ended of it."""
        for n, worker in enumerate(self.running):
            if not worker.runs:
                self._replace(n)

    def _replace(self, n: int) -> None:
        self.ended.append(self.running[n])
        self.running[n] = self._start()

    def wait(self) -> list[int]:
        """Wait for the end of all; return the exit codes of those that were left alone."""
        codes = [worker.wait(_ENDS_S) for worker in self.running]
        for program in self.ended:
            program.wait(1.0)
        return codes


def soak(server: Postgres, options: argparse.Namespace) -> dict[str, Any]:
    """Kill workers and restart the database until the study has all its trials."""
    name, begun_s = "soak", time.monotonic()
    tune = Program(server.url, name, options.trial_s, "tune", options.trials)
    _await_begin(server.url, name)
    workers = _Workers(server, name, options)
    ends_s = begun_s + options.longest
    n_restarts = _disturb(server, tune, workers, options, begun_s)
    code = tune.wait(max(1.0, ends_s - time.monotonic()))
    codes = workers.wait()
    return {
        "workers": options.workers,
        "trials_asked": options.trials,
        "trial_s": options.trial_s,
        "seconds": time.monotonic() - begun_s,
        "kills": workers.n_kills,
        "restarts": n_restarts,
        "database_away_s": options.away_s,
        **_counted(stored(server.url, name), (tune, *workers.running, *workers.ended)),
        "verdict": [line for line in tune.lines if line.startswith("verdict")],
        "exit_codes": {"tune": code, "workers": codes},
    }


def _disturb(
    server: Postgres, tune: Program, workers: _Workers, options: argparse.Namespace, begun_s: float
) -> int:
    """Kill and restart while ``tune`` runs; return how often the database was restarted."""
    expected_s = options.trials * options.trial_s / (options.workers + 1)
    restarts_s = [begun_s + expected_s * share for share in (0.35, 0.7)]
    kills_s = (begun_s + options.kill_every * n for n in count(1))
    next_s, n_restarts = next(kills_s), 0
    while tune.runs and time.monotonic() < begun_s + options.longest:
        time.sleep(0.2)
        now_s = time.monotonic()
        if now_s >= next_s and workers.kill_one():
            next_s = next(kills_s)
        if tune.runs:
            workers.replace_ended()
        if n_restarts < len(restarts_s) and now_s >= restarts_s[n_restarts]:
            server.stop()
            time.sleep(options.away_s)
            server.start()
            n_restarts += 1
    return n_restarts


def _counted(found: Sequence[tuple[int, str, str]], programs: Sequence[Program]) -> dict[str, Any]:
    """Hold what the storage has against what each process has said."""
    complete = Counter(number for number, state, _ in found if state == "complete")
    own, lines = re.compile(r"own (\d+)"), [line for one in programs for line in one.lines]
    measured = Counter(int(match[1]) for line in lines if (match := own.match(line)) is not None)
    notices = (line for line in lines if line.startswith(("notice", "error")))
    return {
        "complete": len(complete),
        "counted_twice": sum(n - 1 for one in (complete, measured) for n in one.values()),
        "lost": sorted(number for number in measured if number not in complete),
        "complete_without_value": sum(
            state == "complete" and ended_as != "COMPLETE" for _, state, ended_as in found
        ),
        "interrupted": sum(state == "interrupted" for _, state, _ in found),
        "left_running": sum(ended_as == "RUNNING" for *_, ended_as in found),
        "notices": dict(Counter(re.sub(r"\d+", "N", line) for line in notices)),
    }


def _worker(url: str, name: str, trial_s: float) -> Program:
    return Program(url, name, trial_s, "worker", 1_000_000)


def _await_begin(url: str, name: str) -> None:
    while True:
        storage = open_storage(url)
        try:
            if name in optuna.get_all_study_names(storage):
                study = optuna.load_study(study_name=name, storage=storage)
                if study.user_attrs.get("spec"):
                    return
        finally:
            close_storage(storage)
        time.sleep(0.1)


def speed_up(server: Postgres, n_trials: int, trial_s: float) -> list[dict[str, Any]]:
    """Seconds that so many trials take without workers, and with 1, 2 and 4."""
    found = []
    for n_workers in (0, 1, 3):
        name = f"speed-{n_workers}"
        tune = Program(server.url, name, trial_s, "tune", n_trials)
        _await_begin(server.url, name)
        workers = [_worker(server.url, name, trial_s) for _ in range(n_workers)]
        code = tune.wait(600.0)
        for worker in workers:
            worker.wait(_ENDS_S)
        storage = open_storage(server.url)
        trials = optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
        close_storage(storage)
        begun = [one.datetime_start for one in trials if one.datetime_start and one.values]
        ended = [one.datetime_complete for one in trials if one.datetime_complete and one.values]
        seconds = (max(ended) - min(begun)).total_seconds()
        found.append(
            {
                "measuring": n_workers + 1,
                "trials": len(ended),
                "seconds": seconds,
                "trials_per_s": len(ended) / seconds,
                "exit_code": code,
            }
        )
        print(found[-1], flush=True)
    for one in found:
        one["speedup"] = one["trials_per_s"] / found[0]["trials_per_s"]
    return found


def cost(url: str, kind: Sampler, sizes: Sequence[int], longest_s: float) -> list[dict[str, Any]]:
    """Milliseconds of claiming, storing and ending one trial, in studies of growing size."""
    found, sizes, ends_s = [], list(sizes), time.monotonic() + longest_s
    with open_study(url, f"cost-{kind}", sampler=kind) as study:
        study.begin()
        for _ in range(3):
            proposal = study.ask()
            study.finish(_measured(proposal.number, proposal.arm))
        while sizes and time.monotonic() < ends_s:
            n = len(study.records())
            if n < sizes[0]:
                _fill(study.stored, n, min(sizes[0], n + 500))
                continue
            sizes.pop(0)
            found.append({"trials": n, **_median_costs(study)})
            print(found[-1], flush=True)
    return found


def _median_costs(study: TuningStudy) -> dict[str, float]:
    """Medians of 20 trials; ``here`` is what this process computed of asking, without waiting."""
    steps: dict[str, list[float]] = {"ask": [], "finish": [], "look_around": []}
    here: list[float] = []

    def timed(name: str, step: Callable[[], T]) -> T:
        begun_s = time.perf_counter()
        result = step()
        steps[name].append(time.perf_counter() - begun_s)
        return result

    for _ in range(20):
        computed_s = time.thread_time()
        proposal = timed("ask", study.ask)
        here.append(time.thread_time() - computed_s)
        record = _measured(proposal.number, proposal.arm)
        timed("finish", partial(study.finish, record))
        timed("look_around", study.n_elsewhere)
    medians = {f"{name}_ms": 1000 * median(times) for name, times in steps.items()}
    return {**medians, "sum_ms": sum(medians.values()), "ask_here_ms": 1000 * median(here)}


def model(cost: dict[str, Any], n_workers: int) -> dict[str, Any]:
    """What so many workers ask of one database, from the cost of one trial with one worker.

    Stated, not measured: all of a trial's cost is taken to be the database's, one after the other,
    which overstates it, as most of it is computed by the worker.
    """
    busy_s = cost["sum_ms"] / 1000
    return {
        "workers": n_workers,
        "trials": cost["trials"],
        "seconds_of_the_database_per_trial": busy_s,
        "share_busy_by_trial_s": {
            str(trial_s): n_workers * busy_s / trial_s for trial_s in (10, 60, 300)
        },
        "shortest_trial_s_without_waiting": n_workers * busy_s,
    }


def _measured(number: int, arm: Arm) -> TrialRecord:
    scores = tuple(
        PromptScore(
            prompt_id=f"p{n}",
            category=f"c{n % 4}",
            n_tokens=32,
            decode_s=2.0 + n / 10,
            n_drafted=48,
            n_accepted=24,
            n_rounds=8,
        )
        for n in range(8)
    )
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=arm,
        prompts=scores,
        anchor_tokens_per_s=10.0,
    )


def _fill(study: optuna.Study, low: int, high: int) -> None:
    """Add finished trials, which need not be asked for: those that there are, in turn."""
    models = [
        (one, record)
        for one in study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        if (record := records.record_of(one)) is not None
    ]
    chance = random.Random(low)  # noqa: S311 - no secret
    for n in range(low, high):
        model, record = models[n % len(models)]
        kept = msgspec.to_builtins(replace(record, number=n))
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.COMPLETE,
                value=chance.uniform(0.8, 1.4),
                params=model.params,
                distributions=model.distributions,
                user_attrs={"record": kept},
            )
        )


def main() -> None:
    """Soak, measure, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--trial-s", type=float, default=4.0)
    parser.add_argument("--kill-every", type=float, default=20.0)
    parser.add_argument("--away-s", type=float, default=5.0)
    parser.add_argument("--longest", type=float, default=900.0, help="seconds of the soak")
    parser.add_argument("--sizes", default="10,100,1000,10000")
    parser.add_argument("--cost-s", type=float, default=300.0, help="seconds for the costs")
    parser.add_argument("--only", choices=("soak", "cost", "speed"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with postgres() as server:
        if options.only in {None, "soak"}:
            found["soak"] = soak(server, options)
            print(found["soak"], flush=True)
        if options.only in {None, "speed"}:
            found["speed_up"] = speed_up(server, 64, 2.0)
        if options.only in {None, "cost"}:
            sizes = [int(size) for size in options.sizes.split(",")]
            for kind, name in _COSTS.items():
                # A database of its own: rows of another study make each query longer.
                with postgres() as own:
                    found[name] = cost(own.url, kind, sizes, options.cost_s)
        if "cost_per_trial" in found:
            found["model_of_64_workers"] = model(found["cost_per_trial"][-1], 64)
    # A part alone does not replace the results of all.
    write_results("_".join(filter(None, ("soak_workers", options.only))), found)


if __name__ == "__main__":
    main()
