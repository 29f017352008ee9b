"""Prints tokens/s of one answer on the engine alone: ``THREADS N_PREDICT``. For tui_throughput."""

import sys

from benchmarks.tui_throughput import decode_headless

if __name__ == "__main__":
    print(decode_headless(int(sys.argv[1]), int(sys.argv[2])))
