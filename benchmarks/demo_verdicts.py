"""The verdicts on the demo pairs, each twice with different seeds, as a user would ask for them."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import write_results
from spectui.demo import DemoModel
from spectui.paths import cache_dir

PRESETS = {DemoModel.DENSE: "demo", DemoModel.MOE: "demo-moe"}


def main() -> None:
    """Measure and write ``results/demo_verdicts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-budget", default="4m")
    arguments = parser.parse_args()
    rows = [
        run(preset, seed, arguments.time_budget) for seed in (1, 2) for preset in PRESETS.values()
    ]
    write_results("demo_verdicts", {"runs": rows})


def run(preset: str, seed: int, time_budget: str) -> dict[str, Any]:
    """Tune with a home of its own, so that nothing is resumed; the built models are shared."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "cache").symlink_to(cache_dir())
        command = [sys.executable, "-m", "spectui", "tune", "--preset", preset]
        command += ["--seed", str(seed), "--time-budget", time_budget]
        written = Path(home) / "found.json"
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--json", str(written)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "SPECTUI_HOME": home},
        )
        wall_s = time.perf_counter() - began
        document = json.loads(written.read_text("utf-8"))
    return {
        "preset": preset,
        "seed": seed,
        "wall_s": wall_s,
        "n_trials": len(document["trials"]),
        "verdict": document["verdict"],
        "best": document["best"],
        # The answer, up to its tables.
        "answer": done.stdout.partition("\ncategory ")[0].splitlines(),
    }


if __name__ == "__main__":
    main()
