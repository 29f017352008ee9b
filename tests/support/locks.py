"""A process that measures on a core until its input ends."""

HOLD = """
import sys
import os
from spectui.measure.device_locks import devices_held
os.sched_setaffinity(0, {int(sys.argv[1])})
with devices_held(uses_gpus=False):
    print("held", flush=True)
    sys.stdin.read()
"""
"""Program that is given the core, and prints ``held``."""
