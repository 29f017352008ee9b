"""Searches whose processes are killed at random: what is lost, what is left, what goes on.

``spectui tune`` runs on tiny models. At random moments it is killed itself, or one of its children:
the process with the models, or one that plans memory. Some kills are aimed: at the moment when the
process with the models has just begun to load, and when the storage is being written. After every
death of the program nothing of it may run any longer, the storage must be whole, and every trial
that was finished must still be there; the next start has to go on with the study. Several searches
run side by side, each in a folder of its own. Kills that follow one another quickly meet many loads
and few finished trials. With ``--wait`` there is time between two kills, and whatever is finished
is taken down right before the second; ``--tokens 16 --trials 40`` has many trials end meanwhile.
"""

import argparse
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import write_results
from benchmarks.soak import (
    Soak,
    Tickets,
    family,
    model_process,
    role_of,
    shared_memory,
    side_by_side,
)

_WAIT_S = (0.05, 2.5)
_AIM_S = 6.0
"""Seconds for which a moment that is aimed at is waited for."""
_LOOK_S = 0.002
_CHILD_SHARE = 0.6
"""Share of kills of a child where there is one; those of the program end the search."""
_LOADING_S = 1.2
"""Seconds in which a process with tiny models has begun, and loaded them."""


@dataclass(kw_only=True)
class Killed(Soak):
    """Searches that are killed."""

    tickets: Tickets
    wait_s: tuple[float, float] = _WAIT_S
    """Least and most seconds before a kill, or before the moment of one is looked for."""
    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    """Kills by what was aimed at."""

    def run(self, until_s: float) -> None:
        """Search and kill until there were enough kills."""
        is_over = False
        while not is_over:
            is_over = self.search(until_s)
            self.check()
        # The last one is left alone: it has to come to its end.
        with self.start() as program:
            self.note_end(program, _is_documented)
        self.check_all()

    def search(self, until_s: float) -> bool:
        """Run a search until it ends or is killed; tell whether there were enough kills."""
        with self.start() as program:
            while self.wait(program):
                if time.monotonic() > until_s or not self.tickets.take():
                    self.note_end(program, _is_documented)
                    return True
                if self.kill_one(program):
                    return False
            self.note_end(program, _is_documented)
        return False

    def wait(self, program: "subprocess.Popen[str]") -> bool:
        """Wait for the next moment to kill; tell whether the program still runs then."""
        waits_always = self.wait_s != _WAIT_S
        # Whoever waits first comes too late for the loads.
        aims = ("store", "any") if waits_always else ("load", "store", "any", "any")
        aim = self.chance.choice(aims)
        if aim == "any" or waits_always:
            self._sleep(program, self.chance.uniform(*self.wait_s))
        if waits_always:
            self.look_meanwhile()
        if aim != "any":
            self._aim(program, aim)
        self._aimed = aim
        return program.poll() is None

    def _aim(self, program: "subprocess.Popen[str]", aim: str) -> None:
        journal = self.storage.with_name(self.storage.name + "-journal")
        ends_s = time.monotonic() + _AIM_S
        while program.poll() is None and time.monotonic() < ends_s:
            if aim == "store" and journal.exists():
                return
            if aim == "load" and (child := model_process(program)) is not None:
                with suppress(psutil.NoSuchProcess):
                    if time.time() - child.create_time() < _LOADING_S:
                        self._sleep(program, self.chance.uniform(0.0, _LOADING_S))
                        return
            self._sleep(program, _LOOK_S if aim == "store" else 10 * _LOOK_S)

    def _sleep(self, program: "subprocess.Popen[str]", seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            program.wait(seconds)

    def kill_one(self, program: "subprocess.Popen[str]") -> bool:
        """Kill the program or one of its children; tell whether it was the program."""
        children = family(program)
        try:
            own = psutil.Process(program.pid)
            aims_at_child = children and self.chance.random() < _CHILD_SHARE
            victim = self.chance.choice(children) if aims_at_child else own
            role = role_of(victim)
            victim.kill()
        except psutil.NoSuchProcess:
            self.tickets.give_back()
            return False
        self.kills[role] += 1
        self.moments[self._aimed] += 1
        if victim.pid != program.pid:
            return False
        program.wait()
        self.nothing_runs(children)
        return True


def _is_documented(_code: int, said: str) -> bool:
    # Outside of a trial: the search ends in a sentence, and its study goes on.
    return "memory ran out while" in said


def main() -> None:
    """Kill, count and write ``results/soak_kills.json``, or that of ``--result``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--searches", type=int, default=4, help="searches side by side")
    parser.add_argument(
        "--wait",
        type=float,
        nargs=2,
        default=_WAIT_S,
        metavar=("LOW", "HIGH"),
        help="seconds before a kill",
    )
    parser.add_argument("--trials", type=int, default=Soak.n_trials, help="of each study")
    parser.add_argument("--tokens", type=int, default=Soak.n_predict, help="of each prompt")
    parser.add_argument("--result", default="soak_kills", help="name of the results' file")
    arguments = parser.parse_args()
    began_s, shared = time.monotonic(), shared_memory()
    with tempfile.TemporaryDirectory() as name:
        soaks = _searches(Path(name), arguments)
        side_by_side(soaks, lambda soak: soak.run(began_s + 60 * arguments.minutes))
    found = _counted(soaks, shared_memory() - shared)
    took_s, n_kills = time.monotonic() - began_s, found["n_kills"]
    write_results(
        arguments.result,
        {
            "wait_s": list(arguments.wait),
            "searches_side_by_side": len(soaks),
            **found,
            "took_s": round(took_s, 1),
            "s_per_kill": round(took_s / max(n_kills, 1), 2),
            "met": not found["faults"] and n_kills >= arguments.kills,
        },
    )


def _searches(folder: Path, arguments: argparse.Namespace) -> list[Killed]:
    tickets, soaks = Tickets(arguments.kills), []
    for n in range(arguments.searches):
        own = folder / str(n)
        own.mkdir()
        one = Killed(
            folder=own,
            chance=random.Random(f"{arguments.seed} {n}"),  # noqa: S311 - no secret
            tickets=tickets,
            wait_s=tuple(arguments.wait),
            n_trials=arguments.trials,
            n_predict=arguments.tokens,
        )
        soaks.append(one)
    return soaks


def _counted(soaks: Sequence[Killed], shared: set[str]) -> dict[str, Any]:
    kills = sum((one.kills for one in soaks), Counter[str]())
    faults = [fault for one in soaks for fault in one.faults]
    faults += [{"what": "shared memory is left", "name": one} for one in shared]
    return {
        "kills": dict(sorted(kills.items())),
        "aimed_at": dict(sorted(sum((one.moments for one in soaks), Counter[str]()).items())),
        "n_kills": kills.total(),
        "ends": dict(sorted(sum((one.ends for one in soaks), Counter[str]()).items())),
        "n_studies": sum(len(one.finished) for one in soaks),
        "n_finished_trials": sum(len(one) for soak in soaks for one in soak.finished.values()),
        "n_found_again": sum(one.n_found_again for one in soaks),
        "faults": faults,
    }


if __name__ == "__main__":
    main()
