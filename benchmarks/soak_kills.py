"""Searches whose processes are killed at random: what is lost, what is left, what goes on.

``spectui tune`` runs on tiny models. At random moments it is killed itself, or one of its children:
the process with the models, or one that plans memory. After every death of the program nothing of
it may run any longer, the storage must be whole, and every trial that was finished must still be
there; the next start has to go on with the study. Counts are exact on a busy machine as well.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import psutil

from benchmarks.common import write_results
from tests.support.models import CLOSE_DRAFT, TARGET, write_tiny

_LONGEST_S = 5.0
_GONE_S = 20.0
_ENDS_S = 300.0
"""Seconds in which a search that nobody kills has ended."""
_N_TRIALS = 5


@dataclass(kw_only=True)
class Soak:
    """The searches so far."""

    folder: Path
    chance: random.Random
    n_studies: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    """How searches ended that were not killed themselves."""
    finished: dict[str, dict[int, str]] = field(default_factory=dict)
    """Finished trials of every study, as first seen."""
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def study(self) -> str:
        """Name of the study that is searched."""
        return f"soak-{self.n_studies}"

    @property
    def storage(self) -> Path:
        """File of the studies."""
        return self.folder / "studies.sqlite3"

    def start(self) -> "subprocess.Popen[str]":
        """Start the search, or go on with it."""
        given = ("-m", "target.gguf", "-md", "draft.gguf", "--prompts", "prompts.jsonl")
        sizes = ("-n", "600", "-c", "1024", "-t", "1", "--trials", str(_N_TRIALS))
        stored = ("--study", self.study, "--storage", f"sqlite:///{self.storage}")
        return subprocess.Popen(
            [sys.executable, "-m", "spectui", "tune", *given, *sizes, *stored],
            cwd=self.folder,
            env={**os.environ, "SPECTUI_HOME": str(self.folder / "home")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fault(self, what: str, **more: object) -> None:
        """Note what must not be."""
        self.faults.append({"what": what, "study": self.study, **more})
        print(self.faults[-1], flush=True)

    def check(self) -> None:
        """See that the storage is whole, and that no finished trial is lost or altered."""
        if not self.storage.exists():
            return
        with closing(sqlite3.connect(self.storage)) as connection:
            (whole,) = connection.execute("PRAGMA integrity_check").fetchone()
        if whole != "ok":
            self.fault("the storage is damaged", said=whole)
            return
        url = f"sqlite:///{self.storage}"
        names = optuna.get_all_study_names(url)
        for name in names:
            known = self.finished.setdefault(name, {})
            trials = optuna.load_study(study_name=name, storage=url).get_trials(deepcopy=False)
            records = [trial.user_attrs.get("record", {}) for trial in trials]
            found = {
                record["number"]: json.dumps(record, sort_keys=True)
                for record in records
                if record.get("state") == "complete"
            }
            for number, record in known.items():
                if found.get(number) != record:
                    self.fault("a finished trial is lost or altered", trial=number)
            known |= found

    def run(self, n_kills: int, longest_s: float) -> None:
        """Search and kill until there were enough kills."""
        ends_s = time.monotonic() + longest_s
        while self.kills.total() < n_kills and time.monotonic() < ends_s:
            self.search()
            self.check()
        # The last one is left alone: it has to come to its end.
        with self.start() as program:
            self.note_end(program)
        self.check()

    def search(self) -> None:
        """Run a search until it ends, or is killed."""
        with self.start() as program:
            while True:
                try:
                    program.wait(self.chance.uniform(0.2, _LONGEST_S))
                except subprocess.TimeoutExpired:
                    if self.kill_one(program):
                        return
                else:
                    break
            self.note_end(program)

    def kill_one(self, program: "subprocess.Popen[str]") -> bool:
        """Kill the program or one of its children; tell whether it was the program."""
        own = psutil.Process(program.pid)
        try:
            children = own.children(recursive=True)
            victim = self.chance.choice([own, *children])
            role = role_of(victim)
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        self.kills[role] += 1
        if victim.pid != program.pid:
            return False
        program.wait()
        for left in psutil.wait_procs(children, timeout=_GONE_S)[1]:
            self.fault("a process is left", command=left.cmdline()[:5])
            left.kill()
        return True

    def note_end(self, program: "subprocess.Popen[str]") -> None:
        """Take down how a search ended by itself; then another study begins."""
        try:
            _, said = program.communicate(timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            self.fault("a search came to no end")
            os.killpg(program.pid, signal.SIGKILL)
            return
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        if program.returncode == 0:
            self.ends["verdict"] += 1
            self.n_studies += 1
        elif lines and ("was killed" in lines[-1]):
            # Outside of a trial: the search ends in a sentence, and its study goes on.
            self.ends["sentence"] += 1
        else:
            self.fault("an end that is not documented", code=program.returncode, said=said[-600:])


def role_of(process: psutil.Process) -> str:
    """What a process is for."""
    words = process.cmdline()
    for module, role in (("spectui.engine.child", "models"), ("spectui.llama.plan", "planner")):
        if module in words:
            return role
    return "program" if "tune" in words else "other"


def main() -> None:
    """Kill, count and write ``results/soak_kills.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tiny(TARGET, folder / "target.gguf")
        write_tiny(CLOSE_DRAFT, folder / "draft.gguf")
        prompts = [json.dumps({"id": f"p{n}", "prompt": f"abc {n}"}) for n in range(8)]
        (folder / "prompts.jsonl").write_text("\n".join(prompts), encoding="utf-8")
        soak = Soak(folder=folder, chance=random.Random(arguments.seed))  # noqa: S311 - no secret
        soak.run(arguments.kills, 60 * arguments.minutes)
    write_results(
        "soak_kills",
        {
            "kills": dict(sorted(soak.kills.items())),
            "n_kills": soak.kills.total(),
            "ends": dict(sorted(soak.ends.items())),
            "n_studies": len(soak.finished),
            "n_finished_trials": sum(map(len, soak.finished.values())),
            "faults": soak.faults,
            "took_s": round(time.monotonic() - began_s, 1),
            "met": not soak.faults and soak.kills.total() >= arguments.kills,
        },
    )


if __name__ == "__main__":
    main()
