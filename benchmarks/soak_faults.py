"""Searches in which something breaks at random moments, and how they end.

``spectui tune`` runs on tiny models, with a watchdog that looks for a few seconds only. From
outside its process with the models is aborted, stopped, refused memory, made to wait for nothing,
or to send half of a message, or one that cannot be understood; its storage is locked, away for a
while, or its disk is full; NVIDIA's driver loses its GPU; an RPC server that has the target ends. A
search may go on, or end in the one sentence that is documented for what happened, with its exit
code. A trial fails by what happened to it alone, with the last lines of llama.cpp's log where its
process ended. None may outlive its watchdog, leave a process or a temporary file, or lose a
finished trial, and the next start goes on with the study.

A fault counts if it was taken: if there was still something that it could happen to.
"""

import argparse
import json
import random
import re
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
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
from spectui.tune.studies.records import RECORD
from tests.support import nvml
from tests.support.rpc import RpcBuild, RpcServer, rpc_build

_HERE = Path(__file__).parent
_PATIENCE_S = 3
_GONE_S = 30.0
"""Seconds in which a process that hangs is ended: the watchdog's, and the time until somebody waits
for it."""
_WATCHED_S = 150.0
"""Seconds in which a search with a fault ends: its own time, waits for a storage, and watchdogs."""
_LONGEST_S = 4.0
_STARTING_S = 1.5
"""Seconds in which a process asks for memory: later tiny models have all that they need."""
_LOOK_S = 0.02
_MODELS_SHARE = 0.8
"""Of faults that wait until there is a process with models."""
_AWAY_S = (0.5, 8.0)
"""As long as a storage is locked or away: SQLite waits for five seconds."""
_NUMBERS = r"\d+(\.\d+)?"
_SHOWN = 120
"""Characters of a sentence in the results."""
_SPARE_BYTES = 256 << 10
_DISK_BYTES = 16 << 20

Program = subprocess.Popen[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What is documented for a kind of fault."""

    sentence: str
    """Of a trial that it ends, and of the search where no trial ran."""
    codes: frozenset[int] = frozenset({1})
    """Exit codes of the search with that sentence."""
    has_trial: bool = True
    """Whether a trial fails by it; else the search goes on or ends."""
    has_log: bool = True
    """Whether a trial that it ends comes with llama.cpp's last lines."""
    hangs: bool = False
    """Whether a watchdog has to end the process."""


_STORAGE = _Kind(
    sentence=r"the storage sqlite:.* cannot be used \(.*\); check --storage ",
    codes=frozenset({3}),
    has_trial=False,
)
_HANG = r"the engine's process neither computed nor read for \d+ s while .*, and was ended"
_MUDDLED = r"the engine's process (said what cannot be understood|sent an unreadable message) "
_FLAGS = ("waits", "half", "truncated", "garbage", "nvml")
"""Kinds that a library in the process itself sees to, once it finds a file of that name."""
_SHOWN_BY_END = ("no memory", "disk full")
"""Kinds that nothing happens by where nothing more is asked for."""
_KINDS = {
    "abort": _Kind(sentence=r"the engine's process ended with SIGABRT while "),
    "crash": _Kind(sentence=r"the engine's process ended with SIGSEGV while "),
    "stopped": _Kind(sentence=_HANG, hangs=True),
    "waits": _Kind(sentence=_HANG, hangs=True),
    "half": _Kind(sentence=_MUDDLED, hangs=True),
    "truncated": _Kind(sentence=_MUDDLED),
    "garbage": _Kind(sentence=_MUDDLED),
    "no memory": _Kind(
        # Of the process with the models, of llama.cpp, and of the process that plans.
        sentence=(
            r"memory (ended|ran out) while |.* (does not fit in memory|could be made for )"
            r"|.*: memory (ended|ran out) while it was planned"
        ),
        codes=frozenset({1, 4}),
        has_log=False,
    ),
    "nvml": _Kind(
        # Until the next start finds the GPU again.
        sentence=r"the study soak-\d+ was made with this machine's GPUs, which the driver does ",
        codes=frozenset({2}),
        has_trial=False,
    ),
    "database locked": _STORAGE,
    "database away": _STORAGE,
    "disk full": _STORAGE,
    "device gone": _Kind(
        sentence=r"(.*: )?an RPC server .*went away|.*no RPC server answers there",
        codes=frozenset({1, 2}),
        has_log=False,
    ),
}

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
    kinds: tuple[str, ...]
    """What may happen."""
    rpc: RpcBuild | None = None
    """Has the target on a server of its own."""
    injected: Counter[str] = field(default_factory=Counter)
    """Faults that were taken."""
    missed: Counter[str] = field(default_factory=Counter)
    """Those that found nothing they could happen to."""
    results: Counter[str] = field(default_factory=Counter)
    """Ends of searches, and trials that failed, by what had happened."""
    sentences: Counter[str] = field(default_factory=Counter)
    """What searches ended with, without numbers, by what had happened."""
    gone_s: dict[str, float] = field(default_factory=dict)
    """Longest time until a process that hung was ended, by what had happened."""
    server: RpcServer | None = None
    was_taken: bool = False

    def run(self, until_s: float) -> None:
        """Search and break something until there were enough faults."""
        with ExitStack() as stack:
            while time.monotonic() < until_s and self.tickets.take():
                self.serve(stack)
                self.search(self.chance.choice(self.kinds))
                self.check()
            self.serve(stack)
            with self.start() as program:
                self.note_end(program, lambda *_end: False)
            self.check_all()

    def serve(self, stack: ExitStack) -> None:
        """Have a server, where one is used; it comes back at the same address."""
        if self.rpc is None or (self.server is not None and self.server.process.poll() is None):
            return
        port = None if self.server is None else int(self.server.endpoint.rpartition(":")[2])
        self.server = stack.enter_context(self.rpc.serving(port=port))
        self.arguments = ("--rpc", self.server.endpoint)

    def search(self, name: str) -> None:
        """Run a search with a fault of that kind at a random moment."""
        kind, study, before = _KINDS[name], self.study, self._failed(self.study)

        def is_documented(code: int, said: str) -> bool:
            if not self._is_taken(name):
                return False
            self.sentences[f"{name}: {re.sub(_NUMBERS, 'N', said)[:_SHOWN]}"] += 1
            return code in kind.codes and re.match(kind.sentence, said) is not None

        with self.start() as program:
            self._wait(name, program)
            children = family(program)
            self.was_taken = False
            mend = self._break(name, program) if program.poll() is None else _nothing
            end = self.note_end(program, is_documented, ends_s=_WATCHED_S, mend=mend)
            self.nothing_runs(children)
        failed = [one for n, one in self._failed(study).items() if n not in before]
        taken = self._is_taken(name)
        if name in _SHOWN_BY_END and end == "verdict" and not failed:
            taken = False
        if taken:
            self.injected[name] += 1
            self.results[f"{name}: {end}"] += 1
            self.results[f"{name}: a trial failed"] += len(failed)
        else:
            self.missed[name] += 1
            self.tickets.give_back()
        for record in failed:
            self._see_why(record, kind if taken else None, name)
        for left in self.flags.iterdir():
            left.unlink()

    def _wait(self, name: str, program: Program) -> None:
        """Wait for a random moment, mostly of the time in which there are models."""
        # A GPU that is lost before makes another machine, whose studies are its own.
        if name == "nvml" or self.chance.random() < _MODELS_SHARE:
            while program.poll() is None and model_process(program) is None:
                time.sleep(_LOOK_S)
        longest_s = _STARTING_S if name == "no memory" else _LONGEST_S
        with suppress(subprocess.TimeoutExpired):
            program.wait(self.chance.uniform(0.1, longest_s))

    def _is_taken(self, name: str) -> bool:
        return self.was_taken and not (self.flags / name).exists()

    def _failed(self, study: str) -> dict[int, dict[str, Any]]:
        """Trials of a study that have failed."""
        url = f"sqlite:///{self.storage}"
        if not self.storage.exists() or study not in optuna.get_all_study_names(url):
            return {}
        trials = optuna.load_study(study_name=study, storage=url).get_trials(deepcopy=False)
        records = [trial.user_attrs.get(RECORD, {}) for trial in trials]
        return {one["number"]: one for one in records if one.get("state") == "fail"}

    def _see_why(self, record: dict[str, Any], kind: _Kind | None, name: str) -> None:
        """See that a trial failed by what happened, and says so."""
        said = record["error"] or ""
        if kind is None or not kind.has_trial or re.match(kind.sentence, said) is None:
            self.fault("a trial failed by something else", injected=name, said=said)
        elif kind.has_log and not record.get("log"):
            self.fault("a death without llama.cpp's last lines", injected=name, said=said)

    @property
    def flags(self) -> Path:
        """Folder with the names of faults that are to come."""
        return Path(self.environment["SOAK_FAULTS"])

    def _break(self, name: str, program: Program) -> Callable[[], None]:
        """Have a fault happen; what gives back what it took."""
        match name:
            case "abort" | "crash" | "stopped":
                numbers = {"abort": signal.SIGABRT, "crash": signal.SIGSEGV}
                self._signal(program, numbers.get(name, signal.SIGSTOP))
            case "no memory":
                self._refuse_memory(program)
            case "database locked":
                self._lock()
            case "database away":
                return self._hide()
            case "disk full":
                return self._fill()
            case "device gone":
                if self.server is not None:
                    self.server.kill()
                    self.was_taken = True
            case _:
                (self.flags / name).touch()
                self.was_taken = True
                while (self.flags / name).exists() and program.poll() is None:
                    time.sleep(_LOOK_S)
        if _KINDS[name].hangs and self._is_taken(name):
            self._follow(name, program)
        return _nothing

    def _signal(self, program: Program, number: signal.Signals) -> None:
        child = model_process(program)
        if child is not None:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)
                self.was_taken = True

    def _follow(self, name: str, program: Program) -> None:
        """See when a process that hangs is ended."""
        began_s, child = time.monotonic(), model_process(program)
        while child is not None and child.is_running() and program.poll() is None:
            if time.monotonic() > began_s + _GONE_S:
                self.fault("a process outlives its watchdog", injected=name)
                return
            time.sleep(_LOOK_S)
        self.gone_s[name] = max(self.gone_s.get(name, 0.0), round(time.monotonic() - began_s, 1))

    def _refuse_memory(self, program: Program) -> None:
        child = model_process(program)
        if child is not None:
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                most = child.memory_info().data + _SPARE_BYTES
                resource.prlimit(child.pid, resource.RLIMIT_DATA, (most, most))
                self.was_taken = True

    def _lock(self) -> None:
        if not self.storage.exists():
            return
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.storage)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(self.chance.uniform(*_AWAY_S))
            self.was_taken = True

    def _hide(self) -> Callable[[], None]:
        """Put an empty folder, in which nothing can be made, before that of the storage.

        As a disk that was taken out: files that are open can be read on, and no journal be made.
        A file that is renamed while it is written would lose what its journal has (SQLite, "How To
        Corrupt An SQLite Database File").
        """
        folder = self.storage.parent
        if not self.storage.exists() or not _mounted(folder, "ro,size=4k"):
            return _nothing
        self.was_taken = True
        time.sleep(self.chance.uniform(*_AWAY_S) / 2)
        if self.chance.choice((True, False)):
            _unmounted(folder)
            return _nothing
        return lambda: _unmounted(folder)

    def _fill(self) -> Callable[[], None]:
        filler = self.storage.with_name("filler")
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        self.was_taken = True
        return filler.unlink


def _nothing() -> None:
    """Nothing has to be mended."""


def _built(folder: Path) -> dict[str, str]:
    """Compile what breaks things; the environment in which it does."""
    shim = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-pthread"]
    subprocess.run([*command, "-o", shim, _HERE / "soak_faults.c", "-ldl"], check=True)
    source = folder / "lost_gpu.c"
    source.write_text(_LOST_GPU.format(stub=nvml.SOURCE), encoding="utf-8")
    subprocess.run([*command, "-o", folder / nvml.LIBRARY, source], check=True)
    return {"LD_PRELOAD": str(shim), "LD_LIBRARY_PATH": str(folder)}


def _mounted(folder: Path, options: str) -> bool:
    """Put a small disk on a folder; False where nobody lets us."""
    command = ["mount", "-t", "tmpfs", "-o", options, "soak", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _unmounted(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def main() -> None:
    """Break things, count and write ``results/soak_faults.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--searches", type=int, default=4, help="searches side by side")
    parser.add_argument("--only", choices=sorted(_KINDS), action="append", help="writes nothing")
    arguments = parser.parse_args()
    began_s, shared = time.monotonic(), shared_memory()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        soaks = _searches(Path(name), stack, arguments)
        side_by_side(soaks, lambda soak: soak.run(began_s + 60 * arguments.minutes))
    found = _counted(soaks, shared_memory() - shared, n_wanted=arguments.faults)
    found["took_s"] = round(time.monotonic() - began_s, 1)
    if arguments.only:
        print(json.dumps(found, indent=2))
    else:
        write_results("soak_faults", found)


def _searches(folder: Path, stack: ExitStack, arguments: argparse.Namespace) -> list[Faulty]:
    """Searches in folders of their own: the last one on an RPC server, the others on disks."""
    environment, rpc = _built(folder), rpc_build()
    kinds, tickets = tuple(arguments.only or sorted(_KINDS)), Tickets(arguments.faults)
    soaks: list[Faulty] = []
    for n in range(arguments.searches):
        own = folder / str(n)
        (own / "flags").mkdir(parents=True)
        is_remote = rpc is not None and "device gone" in kinds and n == arguments.searches - 1
        backend = rpc.environment["GGML_BACKEND_PATH"] if rpc is not None and is_remote else None
        soak = Faulty(
            folder=own,
            chance=random.Random(f"{arguments.seed} {n}"),  # noqa: S311 - no secret
            tickets=tickets,
            environment={
                **environment,
                "SOAK_FAULTS": str(own / "flags"),
                PATIENCE_VARIABLE: str(_PATIENCE_S),
                **({} if backend is None else {"GGML_BACKEND_PATH": backend}),
            },
            rpc=rpc if is_remote else None,
            kinds=("device gone",),
        )
        is_mounted = _mounted(soak.storage.parent, f"size={_DISK_BYTES}")
        if is_mounted:
            stack.callback(_unmounted, soak.storage.parent)
        if not is_remote:
            cannot = {"device gone", *(() if is_mounted else ("disk full", "database away"))}
            soak.kinds = tuple(kind for kind in kinds if kind not in cannot)
        soaks.append(soak)
    return soaks


def _counted(soaks: Sequence[Faulty], left: Iterable[str], *, n_wanted: int) -> dict[str, Any]:
    """Sums over searches, and whether all is as it has to be."""

    def total(counts: Iterable[Counter[str]]) -> dict[str, int]:
        return dict(sorted(sum(counts, Counter[str]()).items()))

    injected = total(one.injected for one in soaks)
    faults = [fault for one in soaks for fault in one.faults]
    faults += [{"what": "shared memory is left", "name": one} for one in left]
    gone_s = {name: max(one.gone_s.get(name, 0.0) for one in soaks) for name in _KINDS}
    n_injected = sum(injected.values())
    return {
        "searches_side_by_side": len(soaks),
        "injected": injected,
        "n_injected": n_injected,
        "not_taken": total(one.missed for one in soaks),
        "results": total(one.results for one in soaks),
        "sentences": total(one.sentences for one in soaks),
        "watchdog_s": _PATIENCE_S,
        "longest_s_until_ended": {name: value for name, value in gone_s.items() if value},
        "n_studies": sum(len(one.finished) for one in soaks),
        "n_finished_trials": sum(len(one) for soak in soaks for one in soak.finished.values()),
        "faults": faults,
        "met": not faults and n_injected >= n_wanted and set(injected) == set(_KINDS),
    }


if __name__ == "__main__":
    main()
