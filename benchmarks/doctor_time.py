"""Wall time of ``spectui doctor`` as a whole process, on headers with the shapes of a large pair.

Beside it the same command without models, which looks at the machine alone.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import write_results
from spectui.errors import DoesNotFitError
from tests.support.shapes import QWEN3_0_6B, QWEN3_NEXT_80B_A3B, write_header

RUNS = 7


def main() -> None:
    """Measure and write ``results/doctor_time.json``."""
    doctor = [sys.executable, "-m", "spectui", "doctor", "--quiet"]
    with tempfile.TemporaryDirectory() as name:
        target, draft = Path(name) / "Qwen3-Next-80B-A3B.gguf", Path(name) / "Qwen3-0.6B.gguf"
        write_header(QWEN3_NEXT_80B_A3B, target)
        write_header(QWEN3_0_6B, draft)
        ways = {"pair": [*doctor, "-m", str(target), "-md", str(draft)], "machine": doctor}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _run in range(RUNS):
            for way, command in ways.items():
                seconds[way].append(wall_s(command))
    write_results(
        "doctor_time",
        {
            "median_s": {way: statistics.median(values) for way, values in seconds.items()},
            "max_s": {way: max(values) for way, values in seconds.items()},
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


if __name__ == "__main__":
    main()
