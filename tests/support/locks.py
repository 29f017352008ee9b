"""A process that measures on a core until its input ends."""

HOLD = """
import sys
from spectui.measure.device_locks import devices_held
from spectui.options.setup import CpuOptions
with devices_held(CpuOptions(cpus=(int(sys.argv[1]),)), uses_gpus=False):
    print("held", flush=True)
    sys.stdin.read()
"""
"""Program that is given the core, and prints ``held``."""
