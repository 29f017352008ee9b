"""Searches in which something breaks at random moments, and how they end.

``spectui tune`` runs on tiny models, with a watchdog that looks for a few seconds only. From
outside its process with the models is aborted, stopped, refused memory, made to wait for nothing,
or to send half of a message, or one that cannot be understood; its storage is locked, moved away
and back, or its disk is full; NVIDIA's driver loses its GPU. A search may go on, or end in one
sentence with the exit code of its error. None may outlive its watchdog, leave a process or a
temporary file, or lose a finished trial, and the next start goes on with the study.
"""

import argparse
import random
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.common import write_results
from benchmarks.soak import (
    Soak,
    Tickets,
    family,
    model_process,
    shared_memory,
    side_by_side,
)
from spectui.engine.isolation import PATIENCE_VARIABLE
from tests.support import nvml

_HERE = Path(__file__).parent
_PATIENCE_S = 3
_WATCHED_S = 90.0
"""Seconds in which a search with a fault ends: its own time, waits for a storage, and watchdogs."""
_LONGEST_S = 4.0
_LOCKED_S = (0.5, 8.0)
_CODES = {1, 3, 4}
_SPARE_BYTES = 1 << 20
_DISK_BYTES = 1 << 20

_LOST_GPU = """
#include <stdlib.h>
#include <unistd.h>
#include "{stub}"
static void *lose(void *folder) {{
    char path[4096];
    snprintf(path, sizeof path, "%s/nvml", (const char *)folder);
    while (unlink(path) != 0) usleep(20000);
    stub_rule("*", -1, 15, 0, 0);
    return NULL;
}}
__attribute__((constructor)) static void plug_in(void) {{
    pthread_t thread;
    char *folder = getenv("SOAK_FAULTS");
    stub_n_gpus = 1;
    stub_gpus[0].memory_total_bytes = 24ULL << 30;
    stub_gpus[0].memory_used_bytes = 1ULL << 30;
    if (folder != NULL) pthread_create(&thread, NULL, lose, folder);
}}
"""


@dataclass(kw_only=True)
class Faulty(Soak):
    """Searches that something happens to."""

    tickets: Tickets
    is_mounted: bool
    """Whether the folder of the storage is a small disk of its own."""
    injected: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    """Ends by what was injected last."""
    longest_s: float = 0.0
    """Longest time from a fault to the end of its search."""

    def run(self, until_s: float) -> None:
        """Search and break something until there were enough faults."""
        while time.monotonic() < until_s and self.tickets.take():
            self.search()
            self.check()
        with self.start() as program:
            self.note_end(program, _is_documented)
        self.check_all()

    def search(self) -> None:
        """Run a search with one fault at a random moment."""
        kinds: dict[str, Callable[[subprocess.Popen[str]], Callable[[], None] | None]] = {
            "abort": lambda one: self._signal(one, signal.SIGABRT),
            "crash": lambda one: self._signal(one, signal.SIGSEGV),
            "stopped": lambda one: self._signal(one, signal.SIGSTOP),
            "no memory": self._refuse_memory,
            "database locked": lambda _one: self._lock(),
            "database away": self._move,
            **{
                name: self._tell(name) for name in ("waits", "truncated", "half", "garbage", "nvml")
            },
        }
        if self.is_mounted:
            kinds["disk full"] = lambda _one: self._fill()
        kind = self.chance.choice(sorted(kinds))
        with self.start() as program:
            with suppress(subprocess.TimeoutExpired):
                program.wait(self.chance.uniform(0.1, _LONGEST_S))
            children = family(program)
            mend = None
            if program.poll() is None:
                mend = kinds[kind](program)
            self.injected[kind if mend else "too late"] += 1
            if mend is None:
                self.tickets.give_back()
            began_s = time.monotonic()
            end = self.note_end(program, _is_documented, ends_s=_WATCHED_S)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self.ended[f"{kind}: {end}"] += mend is not None
            if mend is not None:
                mend()
            self.nothing_runs(children)
            for left in self.flags.iterdir():
                left.unlink()

    @property
    def flags(self) -> Path:
        """Folder with the names of faults that are to come."""
        return Path(self.environment["SOAK_FAULTS"])

    def _signal(
        self, program: "subprocess.Popen[str]", number: signal.Signals
    ) -> Callable[[], None] | None:
        child = model_process(program)
        if child is None:
            return None
        with suppress(psutil.NoSuchProcess):
            child.send_signal(number)
            return _nothing
        return None

    def _refuse_memory(self, program: "subprocess.Popen[str]") -> Callable[[], None] | None:
        child = model_process(program)
        if child is None:
            return None
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            most = child.memory_info().data + _SPARE_BYTES
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (most, most))
            return _nothing
        return None

    def _tell(self, name: str) -> Callable[["subprocess.Popen[str]"], Callable[[], None]]:
        def tell(_program: "subprocess.Popen[str]") -> Callable[[], None]:
            (self.flags / name).touch()
            return _nothing

        return tell

    def _lock(self) -> Callable[[], None] | None:
        if not self.storage.exists():
            return None
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.storage)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(self.chance.uniform(*_LOCKED_S))
            return _nothing
        return None

    def _move(self, program: "subprocess.Popen[str]") -> Callable[[], None] | None:
        away = self.storage.with_name("away")
        if not self._renamed(program, self.storage, away):
            return None
        time.sleep(self.chance.uniform(*_LOCKED_S) / 4)
        if self.chance.choice((True, False)) and self._renamed(program, away, self.storage):
            return _nothing

        def back() -> None:
            away.replace(self.storage)

        return back

    def _renamed(self, program: "subprocess.Popen[str]", one: Path, other: Path) -> bool:
        """Rename while nothing is written: a journal belongs to a file by its name alone."""
        journal = self.storage.with_name(self.storage.name + "-journal")
        while program.poll() is None:
            program.send_signal(signal.SIGSTOP)
            try:
                if one.exists() and not journal.exists():
                    one.replace(other)
                    return True
                if not one.exists():
                    return False
            finally:
                program.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        return False

    def _fill(self) -> Callable[[], None]:
        filler = self.storage.with_name("filler")
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        return filler.unlink


def _nothing() -> None:
    """Nothing has to be mended."""


def _is_documented(code: int, said: str) -> bool:
    """Whether it is one sentence, with the exit code of an error that a user can mend."""
    return code in _CODES and "defect of spectui" not in said and "\n" not in said


def _built(folder: Path) -> dict[str, str]:
    """Compile what breaks things; the environment in which it does."""
    shim = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-pthread"]
    subprocess.run([*command, "-o", shim, _HERE / "soak_faults.c", "-ldl"], check=True)
    source = folder / "lost_gpu.c"
    source.write_text(_LOST_GPU.format(stub=nvml.SOURCE), encoding="utf-8")
    subprocess.run([*command, "-o", folder / nvml.LIBRARY, source], check=True)
    return {"LD_PRELOAD": str(shim), "LD_LIBRARY_PATH": str(folder)}


def _mounted(folder: Path) -> bool:
    """Put a small disk on a folder; False where nobody lets us."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "soak", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def main() -> None:
    """Break things, count and write ``results/soak_faults.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--searches", type=int, default=4, help="searches side by side")
    arguments = parser.parse_args()
    began_s, shared = time.monotonic(), shared_memory()
    tickets = Tickets(arguments.faults)
    soaks, mounted = [], []
    with tempfile.TemporaryDirectory() as name:
        environment = _built(Path(name))
        try:
            for n in range(arguments.searches):
                folder = Path(name) / str(n)
                (folder / "flags").mkdir(parents=True)
                own = {"SOAK_FAULTS": str(folder / "flags"), PATIENCE_VARIABLE: str(_PATIENCE_S)}
                chance = random.Random(f"{arguments.seed} {n}")  # noqa: S311 - no secret
                soak = Faulty(
                    folder=folder,
                    chance=chance,
                    tickets=tickets,
                    environment={**environment, **own},
                    is_mounted=False,
                )
                if _mounted(soak.storage.parent):
                    soak.is_mounted = True
                    mounted.append(soak.storage.parent)
                soaks.append(soak)
            side_by_side(soaks, lambda soak: soak.run(began_s + 60 * arguments.minutes))
        finally:
            for disk in mounted:
                subprocess.run(["umount", "--lazy", str(disk)], check=False)
    injected = sum((one.injected for one in soaks), Counter[str]())
    n_injected = injected.total() - injected.pop("too late", 0)
    faults = [fault for one in soaks for fault in one.faults]
    faults += [{"what": "shared memory is left", "name": one} for one in shared_memory() - shared]
    write_results(
        "soak_faults",
        {
            "injected": dict(sorted(injected.items())),
            "n_injected": n_injected,
            "ends": dict(sorted(sum((one.ended for one in soaks), Counter[str]()).items())),
            "watchdog_s": _PATIENCE_S,
            "longest_s_from_fault_to_end": round(max(one.longest_s for one in soaks), 1),
            "n_studies": sum(len(one.finished) for one in soaks),
            "n_finished_trials": sum(len(one) for soak in soaks for one in soak.finished.values()),
            "findings": faults,
            "took_s": round(time.monotonic() - began_s, 1),
            "met": not faults and n_injected >= arguments.faults,
        },
    )


if __name__ == "__main__":
    main()
