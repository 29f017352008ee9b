"""Record what the monitor reads on this machine, for ``spectui --monitor-replay``.

    python tools/record_monitor.py session.jsonl --seconds 60

Start it, then use spectui or llama-server on the same machine. What it cannot read is in the file
with the reason. Readings of "this process" are those of the recorder, not of the program watched.
"""

import argparse
import sys
import time
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.monitor.machine import this_machine
from spectui.monitor.readings import Snapshot
from spectui.monitor.recording import Recorder
from spectui.monitor.sampler import LiveSource


def main() -> int:
    """Record, and say what was recorded; 0 if there is a file now."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="where to write; an existing file is replaced")
    parser.add_argument("--seconds", type=_positive, default=30.0, help="how long (default: 30)")
    parser.add_argument("--hz", type=_positive, default=4.0, help="samples per second (default: 4)")
    arguments = parser.parse_args()
    try:
        recorder = Recorder(arguments.file, LiveSource(), machine=this_machine())
    except SpectuiError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"recording {arguments.seconds:g} s to {arguments.file}; Ctrl-C ends it sooner")
    try:
        n_samples, last = _record(recorder, arguments.seconds, 1 / arguments.hz)
    finally:
        recorder.close()
    print(f"{n_samples} samples; {_found(last)}")
    return 0


def _record(recorder: Recorder, seconds: float, interval_s: float) -> tuple[int, Snapshot]:
    """Read at a steady pace, once at least; return how often, and the last snapshot."""
    began_s = time.monotonic()
    n_samples, last = 1, recorder.read()
    try:
        while (due_s := n_samples * interval_s) < seconds:
            time.sleep(max(began_s + due_s - time.monotonic(), 0))
            last = recorder.read()
            n_samples += 1
    except KeyboardInterrupt:
        print()
    return n_samples, last


def _found(snapshot: Snapshot) -> str:
    if not snapshot.gpus:
        return f"no GPU: {snapshot.gpu_reason}"
    return "GPUs: " + ", ".join(gpu.name for gpu in snapshot.gpus)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


if __name__ == "__main__":
    sys.exit(main())
