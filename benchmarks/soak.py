"""Searches on tiny models in folders of their own, for the soaks: what is lost, what is left.

``spectui tune`` runs as a program. Whoever disturbs it asks for ``check`` afterwards: the storage
must be whole, every trial that was finished must still be there, and nothing of a program that has
ended may run any longer or lie in its folder for temporary files. Counts are exact on a busy
machine as well.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import optuna
import psutil

from tests.support.models import CLOSE_DRAFT, TARGET, write_tiny

_GONE_S = 20.0
ENDS_S = 300.0
"""Seconds in which a search that nobody disturbs has ended."""
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, never written to
_OWN_SHARED = ("psm_", "sem.", "spectui", "torch_", "pym-")

S = TypeVar("S", bound="Soak")


@dataclass(kw_only=True)
class Soak:
    """The searches of one folder so far."""

    folder: Path
    chance: random.Random
    arguments: tuple[str, ...] = ()
    """More of them for ``tune``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    n_trials: int = 5
    """Of each study."""
    n_predict: int = 200
    """Tokens of each prompt."""
    storage: Path = field(init=False)
    """File of the studies."""
    n_studies: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How searches ended that were not killed themselves."""
    finished: dict[str, dict[int, str]] = field(default_factory=dict)
    """Finished trials of every study, as first seen."""
    n_found_again: int = 0
    """Finished trials that a later look has found again, counted at every look."""
    faults: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the models, and make the folder for what programs leave."""
        self.storage = self.folder / "studies" / "studies.sqlite3"
        self.storage.parent.mkdir()
        self.temporary.mkdir()
        write_tiny(TARGET, self.folder / "target.gguf")
        write_tiny(CLOSE_DRAFT, self.folder / "draft.gguf")
        prompts = [json.dumps({"id": f"p{n}", "prompt": f"abc {n}"}) for n in range(8)]
        (self.folder / "prompts.jsonl").write_text("\n".join(prompts), encoding="utf-8")

    @property
    def study(self) -> str:
        """Name of the study that is searched."""
        return f"soak-{self.n_studies}"

    @property
    def temporary(self) -> Path:
        """Folder for temporary files of the programs."""
        return self.folder / "tmp"

    def start(self) -> "subprocess.Popen[str]":
        """Start the search, or go on with it."""
        given = ("-m", "target.gguf", "-md", "draft.gguf", "--prompts", "prompts.jsonl")
        sizes = ("-n", str(self.n_predict), "-c", "1024", "-t", "1")
        stored = ("--study", self.study, "--storage", self._url)
        search = ("--trials", str(self.n_trials), *stored, *self.arguments)
        own = {"SPECTUI_HOME": str(self.folder / "home"), "TMPDIR": str(self.temporary)}
        return subprocess.Popen(
            [sys.executable, "-m", "spectui", "tune", *given, *sizes, *search],
            cwd=self.folder,
            env={**os.environ, **own, **self.environment},
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
        """See that the storage is whole, no finished trial lost or altered, and nothing left."""
        for left in self.temporary.iterdir():
            self.fault("a temporary file is left", name=left.name)
            left.rename(self.folder / f"left-{len(self.faults)}-{left.name}")
        if not self.storage.exists():
            return
        with closing(sqlite3.connect(self.storage)) as connection:
            (whole,) = connection.execute("PRAGMA integrity_check").fetchone()
        if whole != "ok":
            self.fault("the storage is damaged", said=whole)
            return
        self._look()

    def check_all(self) -> None:
        """See that no finished trial of any study was lost since."""
        self.check()
        for name in self.finished:
            self._compare(name)

    def look_meanwhile(self) -> None:
        """Take down what is finished while the search runs: whatever happens next may not lose it.

        Not before a first check: until then the search may still be making the tables.
        """
        if self.finished:
            self._look()

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.storage}"

    def _look(self) -> None:
        # Studies before were seen when they ended, and nobody has opened them since.
        if self.study in optuna.get_all_study_names(self._url):
            self._compare(self.study)

    def _compare(self, name: str) -> None:
        known = self.finished.setdefault(name, {})
        study = optuna.load_study(study_name=name, storage=self._url)
        trials = study.get_trials(deepcopy=False)
        records = [trial.user_attrs.get("record", {}) for trial in trials]
        found = {
            record["number"]: json.dumps(record, sort_keys=True)
            for record in records
            if record.get("state") == "complete"
        }
        for number, record in known.items():
            if found.get(number) == record:
                self.n_found_again += 1
            else:
                self.fault("a finished trial is lost or altered", trial=number, of=name)
        known |= found

    def nothing_runs(self, children: Sequence[psutil.Process]) -> None:
        """See that no process of a program that has ended runs any longer."""
        for left in psutil.wait_procs(children, timeout=_GONE_S)[1]:
            with suppress(psutil.NoSuchProcess):
                self.fault("a process is left", command=left.cmdline()[:5])
                left.kill()

    def note_end(
        self,
        program: "subprocess.Popen[str]",
        is_documented: Callable[[int, str], bool],
        *,
        ends_s: float = ENDS_S,
        mend: Callable[[], None] = lambda: None,
    ) -> str:
        """Take down how a search ended by itself; after a verdict another study begins.

        Args:
            program: the search.
            is_documented: whether an exit code and the last words are documented.
            ends_s: seconds in which it has to end.
            mend: gives back the storage, before anybody else looks at it.

        Returns:
            ``verdict``, ``sentence``, ``fault`` or ``none``.
        """
        try:
            _, said = program.communicate(timeout=ends_s)
        except subprocess.TimeoutExpired:
            self.fault("a search came to no end")
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()
            mend()
            return "none"
        mend()
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        last = lines[-1].removeprefix("error: ") if lines else ""
        if program.returncode == 0:
            end = "verdict"
            self.check()
            self.n_studies += 1
        elif last and "Traceback" not in said and is_documented(program.returncode, last):
            end = "sentence"
        else:
            self.fault("an end that is not documented", code=program.returncode, said=said[-900:])
            end = "fault"
        self.ends[end] += 1
        return end


def role_of(process: psutil.Process) -> str:
    """What a process is for."""
    words = process.cmdline()
    for module, role in (("spectui.engine.child", "models"), ("spectui.llama.plan", "planner")):
        if module in words:
            return role
    return "program" if "tune" in words else "other"


def model_process(program: "subprocess.Popen[str]") -> psutil.Process | None:
    """The program's process with the models; None where there is none now."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(program.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if role_of(child) == "models":
                    return child
    return None


def family(program: "subprocess.Popen[str]") -> list[psutil.Process]:
    """All that descends from a program now."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(program.pid).children(recursive=True)
    return []


def shared_memory() -> set[str]:
    """Names in shared memory that could be a program's own."""
    if not _SHARED.is_dir():
        return set()
    return {one.name for one in _SHARED.iterdir() if one.name.startswith(_OWN_SHARED)}


def side_by_side(soaks: Sequence[S], run: Callable[[S], None]) -> None:
    """Run each in a thread of its own; an error in one is raised once all have ended."""
    with ThreadPoolExecutor(len(soaks)) as pool:
        for one in [pool.submit(run, soak) for soak in soaks]:
            one.result()


class Tickets:
    """How many more there are to be, shared by threads."""

    def __init__(self, n: int) -> None:
        """``n`` are left."""
        self._left = n
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take one; False where none is left."""
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def give_back(self) -> None:
        """Put one back that was not used."""
        with self._lock:
            self._left = max(self._left, 0) + 1
