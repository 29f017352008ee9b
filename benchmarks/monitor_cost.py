"""What sampling costs: CPU time of the monitor's threads as a share of one core.

Runs the sampler with the live source at 4 and at 10 samples per second, without a GPU and with a
stand-in GPU (the library of the tests, through the real ``pynvml``), each in a process of its own.
The stand-in answers from a table: what a real driver spends in its calls comes on top.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from spectui.monitor.readings import Snapshot
from spectui.monitor.sampler import LiveSource, Sampler
from tests.support.nvml import build, environment

RATES_HZ = (4.0, 10.0)
TARGET = 0.01


def main() -> None:
    """Measure and write ``results/monitor_cost.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="per case")
    parser.add_argument("--sample", type=float, metavar="HZ", help="measure one case in here")
    arguments = parser.parse_args()
    if arguments.sample is not None:
        print(json.dumps(measure(arguments.sample, arguments.seconds)))
        return
    # Imported late: it brings llama.cpp, which the measured process must not have.
    from benchmarks.common import write_results  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as with_gpu, tempfile.TemporaryDirectory() as without:
        build(Path(with_gpu))
        # A broken library: no GPU, also on a machine that has one.
        (Path(without) / "libnvidia-ml.so.1").touch()
        cases = {
            f"{name} at {rate_hz:g} Hz": run_case(Path(folder), rate_hz, arguments.seconds)
            for name, folder in (("host alone", without), ("host and stand-in GPU", with_gpu))
            for rate_hz in RATES_HZ
        }
    worst = max(case["share_of_core"] for case in cases.values())
    write_results(
        "monitor_cost",
        {"seconds": arguments.seconds, "cases": cases, "target": TARGET, "met": worst <= TARGET},
    )


def run_case(folder: Path, rate_hz: float, seconds: float) -> dict[str, float]:
    """Measure in a fresh process, which finds NVML in ``folder``."""
    command = [sys.executable, "-m", "benchmarks.monitor_cost"]
    command += ["--sample", str(rate_hz), "--seconds", str(seconds)]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment(folder)
    )
    measured: dict[str, float] = json.loads(answer.stdout)
    return measured


def measure(rate_hz: float, seconds: float) -> dict[str, float]:
    """Sample for ``seconds``; nothing else runs in this process."""
    n_samples = 0
    n_gpus = 0
    begun, ended = threading.Event(), threading.Event()

    def sink(snapshot: Snapshot) -> None:
        nonlocal n_samples, n_gpus
        # The first read opens the driver: that is paid once, not per sample.
        n_samples += begun.is_set()
        n_gpus = len(snapshot.gpus)
        begun.set()

    sampler = Sampler(LiveSource, sink, interval_s=1 / rate_hz)
    sampler.start()
    begun.wait()
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    ended.wait(seconds)
    cpu_s, wall_s = time.process_time() - cpu_began_s, time.perf_counter() - began_s
    sampler.close()
    return {
        "n_gpus": n_gpus,
        "n_samples": n_samples,
        "cpu_s_per_sample": cpu_s / n_samples,
        "share_of_core": cpu_s / wall_s,
    }


if __name__ == "__main__":
    main()
