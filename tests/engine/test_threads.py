"""Compute threads, locked memory and ways of loading: each in a process of its own, which it marks.

What a process is given there is asked of Linux, not of spectui.
"""

import ctypes
import json
import resource
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.engine.commands import LoadDraft, LoadTarget
from spectui.engine.models import LoadedModels
from spectui.llama.library import C
from spectui.llama.model import Model
from spectui.llama.pair import TargetContext
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.speculative.models import Outputs
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

PROGRAM = """
import json, os, sys, threading
from pathlib import Path
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.worker import LocalWorker

def status(folder):
    lines = (folder / "status").read_text().splitlines()
    return dict(line.split(":\\t", 1) for line in lines)

def numbers():
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}

setup = take_over(read_command(sys.argv[1])).to_setup()
with Engine(worker=LocalWorker()) as engine:
    before = numbers()
    engine.load_target(LoadTarget(options=setup.target, context=setup.context, max_draft=4))
    engine.load_draft(setup.draft)
    locked = status(Path("/proc/self"))["VmLck"].split()[0]
    asked = Generate(prompt=tuple(range(5, 45)), n_predict=24, speculation=setup.speculation)
    result = engine.generate(asked)
    (own,) = [one.native_id for one in threading.enumerate() if one.name == "spectui-engine"]
    threads = [
        (
            status(Path(f"/proc/self/task/{one}"))["Cpus_allowed_list"].strip(),
            os.getpriority(os.PRIO_PROCESS, one),
            os.sched_getscheduler(one),
        )
        for one in sorted(numbers() - before | {own}, key=lambda one: one != own)
    ]
print(json.dumps({
    "threads": threads,
    "locked_kib": int(locked),
    "cpus": sorted(os.sched_getaffinity(0)),
    "cpus_text": status(Path("/proc/self"))["Cpus_allowed_list"].strip(),
    "scheduler": os.sched_getscheduler(0),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "tokens": result.tokens,
    "drafted": result.counters.n_drafted,
    "accepted": result.counters.n_accepted,
}))
"""
IPC_LOCK, SYS_NICE = 14, 23
"""Linux's capabilities."""
_DROP = 24
"""``PR_CAPBSET_DROP``."""


def without_rights() -> None:
    """Take from this process, and from what it runs, what root may do with priorities and RAM."""
    libc = ctypes.CDLL(None)
    for capability in (IPC_LOCK, SYS_NICE):
        libc.prctl(_DROP, capability, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


class Run:
    """Runs a pair in a process with the options of a command."""

    def __init__(self, tiny: TinyPath) -> None:
        self._models = f"-m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)}"

    def command(self, words: str) -> str:
        """The command for the pair."""
        drafts = "--spec-type draft-simple --spec-draft-n-max 4"
        return f"llama-server {self._models} -c 256 -ub 64 -t 2 {drafts} {words}"

    def __call__(self, words: str = "", *, has_rights: bool = True) -> dict[str, Any]:
        command = self.command(words)
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, command],
            check=False,
            capture_output=True,
            text=True,
            preexec_fn=None if has_rights else without_rights,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        found: dict[str, Any] = json.loads(ended.stdout)
        return found


@pytest.fixture(scope="module")
def run(tiny: TinyPath) -> Run:
    return Run(tiny)


@pytest.fixture(scope="module")
def plain(run: Run) -> dict[str, Any]:
    """What it does without any option, where threads are as they were."""
    found = run()
    assert found["drafted"] > found["accepted"] > 0
    assert found["locked_kib"] == 0
    assert len(found["threads"]) >= 2
    for one in found["threads"]:
        assert one == [found["cpus_text"], found["niceness"], found["scheduler"]]
    return found


def outcome(found: dict[str, Any]) -> tuple[list[int], int, int]:
    return found["tokens"], found["drafted"], found["accepted"]


def test_weights_are_locked_in_ram_where_that_is_allowed(
    run: Run, plain: dict[str, Any], tiny: TinyPath
) -> None:
    found = run("--mlock")
    sizes = [tiny(model).stat().st_size for model in (TARGET, CLOSE_DRAFT)]
    # Whoever runs the tests may lock all of it, or nothing.
    assert found["locked_kib"] == 0 or found["locked_kib"] << 10 > 0.5 * sum(sizes)
    assert found["threads"] == plain["threads"]
    assert outcome(found) == outcome(plain)
    refused = run("--mlock", has_rights=False)
    assert refused["locked_kib"] == 0
    assert outcome(refused) == outcome(plain)


def test_batches_have_as_many_threads_as_tb_says(tiny: TinyPath) -> None:
    context = ContextOptions(ctx_size=64, threads=2)
    with Model(ModelOptions(path=tiny(TARGET))) as model:
        for n_threads_batch in (0, 2, 3, 1):
            options = replace(context, threads_batch=n_threads_batch)
            with TargetContext(model, options, max_draft=4) as decoding:
                for tokens in ((1, 2, 3), (4,), (5, 6)):
                    decoding.decode(tokens, Outputs.ALL)
                assert decoding.n_past == 6


def test_a_draft_may_have_other_threads(run: Run) -> None:
    models = LoadedModels()
    for words, wanted in (
        ("", ((2, 2), (2, 2))),
        ("-tb 3 -tbd 1", ((2, 3), (2, 1))),
        ("-td 1 -tbd 3", ((2, 2), (1, 3))),
    ):
        setup = take_over(read_command(run.command(words))).to_setup()
        assert setup.draft is not None
        target = LoadTarget(options=setup.target, context=setup.context, max_draft=2)
        models.load_target(target, lambda _: None)
        models.load_draft(LoadDraft(options=setup.draft), lambda _: None)
        found = tuple(
            (C.llama_n_threads(one.c), C.llama_n_threads_batch(one.c)) for one in models.contexts
        )
        assert found == wanted
    models.close()


OF_NODES = """
from spectui.errors import UsageError
from spectui.llama.threadpools import use_numa
from spectui.options.setup import Numa

use_numa(None)
use_numa(Numa.ISOLATE)
use_numa(Numa.ISOLATE)
for other in (Numa.DISTRIBUTE, None):
    try:
        use_numa(other)
    except UsageError as error:
        print(error)
"""


def test_nodes_are_used_in_one_way_for_as_long_as_the_process_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OF_NODES], check=True, capture_output=True, text=True
    )
    why = "this process runs with --numa isolate, which stays for as long as it runs; start another"
    assert ended.stdout.splitlines() == [
        f"--numa {other}: {why} one" for other in ("distribute", "none")
    ]
    # llama.cpp would say there that it is told a second time.
    assert ended.stderr == ""


@pytest.mark.ci
@pytest.mark.parametrize(
    "words",
    [
        *("--load-mode dio", "--no-repack", "--numa distribute", "--numa isolate"),
        *("--load-mode none", "--load-mode mlock"),
    ],
)
def test_what_changes_no_result(run: Run, plain: dict[str, Any], words: str) -> None:
    assert outcome(run(words)) == outcome(plain)
