"""Wall time of ``spectui --help`` as a whole process, interleaved with an empty Python."""

import statistics
import subprocess
import sys
import time

from benchmarks.common import write_results

RUNS = 15


def main() -> None:
    """Measure and write ``results/startup.json``."""
    ways = {
        "help": [sys.executable, "-m", "spectui", "--help"],
        "python": [sys.executable, "-c", "pass"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _run in range(RUNS):
        for name, command in ways.items():
            seconds[name].append(wall_s(command))
    write_results(
        "startup",
        {
            "median_s": {name: statistics.median(values) for name, values in seconds.items()},
            "max_s": {name: max(values) for name, values in seconds.items()},
        },
    )


def wall_s(command: list[str]) -> float:
    """Run a command to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
