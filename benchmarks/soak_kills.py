"""Searches whose processes are killed at random: what is lost, what is left, what goes on.

``spectui tune`` runs on tiny models. At random moments it is killed itself, or one of its children:
the process with the models, or one that plans memory. Some kills are aimed: at the moment when the
process with the models has just begun to load, and when the storage is being written. After every
death of the program nothing of it may run any longer, the storage must be whole, and every trial
that was finished must still be there; the next start has to go on with the study. Several searches
run side by side, each in a folder of its own. Kills that follow one another quickly meet many loads
and few finished trials; ``--wait 3 12 --tokens 24`` meets many.
"""

import argparse
import random
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

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
        aim = self.chance.choice(("load", "store", "any", "any"))
        if aim == "any" or self.wait_s != _WAIT_S:
            self._sleep(program, self.chance.uniform(*self.wait_s))
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
    return "was killed" in said


def main() -> None:
    """Kill, count and write ``results/soak_kills.json``, or that of ``--result``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--searches", type=int, default=4, help="searches side by side")
    parser.add_argument(
        "--wait", type=float, nargs=2, default=_WAIT_S, metavar="S", help="seconds before a kill"
    )
    parser.add_argument("--tokens", type=int, help="tokens per prompt: few end many trials")
    parser.add_argument("--result", default="soak_kills", help="name of the results' file")
    arguments = parser.parse_args()
    began_s, shared = time.monotonic(), shared_memory()
    tickets = Tickets(arguments.kills)
    with tempfile.TemporaryDirectory() as name:
        soaks = []
        for n in range(arguments.searches):
            folder = Path(name) / str(n)
            folder.mkdir()
            chance = random.Random(f"{arguments.seed} {n}")  # noqa: S311 - no secret
            soaks.append(
                Killed(
                    folder=folder,
                    chance=chance,
                    tickets=tickets,
                    wait_s=tuple(arguments.wait),
                    arguments=() if arguments.tokens is None else ("-n", str(arguments.tokens)),
                )
            )
        side_by_side(soaks, lambda soak: soak.run(began_s + 60 * arguments.minutes))
    kills = sum((one.kills for one in soaks), Counter[str]())
    faults = [fault for one in soaks for fault in one.faults]
    faults += [{"what": "shared memory is left", "name": one} for one in shared_memory() - shared]
    took_s = time.monotonic() - began_s
    write_results(
        arguments.result,
        {
            "wait_s": list(arguments.wait),
            "searches_side_by_side": len(soaks),
            "kills": dict(sorted(kills.items())),
            "aimed_at": dict(sorted(sum((one.moments for one in soaks), Counter[str]()).items())),
            "n_kills": kills.total(),
            "ends": dict(sorted(sum((one.ends for one in soaks), Counter[str]()).items())),
            "n_studies": sum(len(one.finished) for one in soaks),
            "n_finished_trials": sum(len(one) for soak in soaks for one in soak.finished.values()),
            "faults": faults,
            "took_s": round(took_s, 1),
            "s_per_kill": round(took_s / max(kills.total(), 1), 2),
            "met": not faults and kills.total() >= arguments.kills,
        },
    )


if __name__ == "__main__":
    main()
