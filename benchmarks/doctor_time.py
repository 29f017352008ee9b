"""Wall time of ``spectui doctor`` as a whole process, on headers with the shapes of a large pair.

Beside it the same command for the target alone, and without models, which looks at the machine
alone; and what does not depend on the machine's mood: how many plans are made for the pair, and by
how many processes.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import write_results
from spectui.doctor.examination import Surroundings, examine
from spectui.engine.demand import FreeMemory
from spectui.engine.planning import Planner
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import HOST
from spectui.llama.planned import Plan, PlanRequest
from spectui.monitor.machine import this_machine
from spectui.options.setup import ModelOptions
from tests.support.shapes import QWEN3_0_6B, QWEN3_NEXT_80B_A3B, write_header

RUNS = 7
RAM_BYTES = 64 * 10**9
TARGET_S = 2.0


class Counting(Planner):
    """Counts the plans that are asked for, and the processes that ever made them."""

    def __init__(self) -> None:
        """Start them."""
        self.n_plans = 0
        self.processes: set[int] = set()
        super().__init__()

    def plan(self, request: PlanRequest) -> Plan:
        """As its base."""
        self.n_plans += 1
        try:
            return super().plan(request)
        finally:
            self.processes.update(filter(None, [self.pid]))


def main() -> None:
    """Measure and write ``results/doctor_time.json``."""
    doctor = [sys.executable, "-m", "spectui", "doctor", "--quiet"]
    with tempfile.TemporaryDirectory() as name:
        target, draft = Path(name) / "Qwen3-Next-80B-A3B.gguf", Path(name) / "Qwen3-0.6B.gguf"
        write_header(QWEN3_NEXT_80B_A3B, target)
        write_header(QWEN3_0_6B, draft)
        alone = [*doctor, "-m", str(target)]
        ways = {"pair": [*alone, "-md", str(draft)], "target": alone, "machine": doctor}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _run in range(RUNS):
            for way, command in ways.items():
                seconds[way].append(wall_s(command))
        counts = count(target, draft)
    medians = {way: statistics.median(values) for way, values in seconds.items()}
    write_results(
        "doctor_time",
        {
            "median_s": medians,
            "max_s": {way: max(values) for way, values in seconds.items()},
            "target_s": TARGET_S,
            "met": medians["pair"] <= TARGET_S,
            **counts,
        },
    )


def wall_s(command: list[str]) -> float:
    """Run a command to its end. That the pair has no room here is a result as any other."""
    began_s = time.perf_counter()
    run = subprocess.run(command, check=False, capture_output=True)
    taken_s = time.perf_counter() - began_s
    if run.returncode not in {0, DoesNotFitError.exit_code}:
        run.check_returncode()
    return taken_s


def count(target: Path, draft: Path) -> dict[str, int]:
    """Examine the pair on a machine with 64 GB, so that a largest context is searched."""
    with Counting() as planner:
        around = Surroundings(
            machine=this_machine(),
            backend=planner.backend(),
            free=FreeMemory(by_memory={HOST: RAM_BYTES}),
            ram_bytes_per_s=2e10,
        )
        request = PlanRequest(target=ModelOptions(path=target), max_draft=16)
        drafts = {"draft": ModelOptions(path=draft)}
        found = examine(planner, around, request, drafts, say=lambda _text: None)
        return {
            "plans": planner.n_plans,
            "processes": len(planner.processes),
            "largest_context_in_64_gb": found.largest_context or 0,
        }


if __name__ == "__main__":
    main()
