"""What ``spectui verify`` finds on the demo pairs: promised against delivered, and the counts.

Each pair is measured in-process and then by the real llama-server of the same sources, on the same
prompts. The ratio of the two speedups is told with its interval, paired by prompt; drafted and
accepted counts and the output have to be equal. Speedups drift with the machine, counts do not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import server_binary, write_results

_TOLERANCE = 0.05
SETTINGS = {"dense": ("--draft-max", "4"), "moe": ("--draft-max", "3")}


def main() -> None:
    """Verify both pairs and write ``results/verify_promise.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    binary = server_binary()
    pairs = {
        target: summary(
            verified(
                binary,
                ["--target", target, *SETTINGS[target]],
                ["-n", arguments.n_predict, "--repeats", arguments.repeats],
                seed=arguments.seed,
            )
        )
        for target in arguments.targets
    }
    write_results(
        "verify_promise",
        {
            "n_predict": arguments.n_predict,
            "repeats": arguments.repeats,
            "seed": arguments.seed,
            "pairs": pairs,
        },
    )


def verified(binary: Path, *options: list[Any], seed: int) -> dict[str, Any]:
    """The document of one run."""
    given = [str(word) for words in options for word in words]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verify.json"
        command = ["verify", "--demo", "--server-bin", str(binary), "--json", str(path)]
        command += ["--seed", str(seed), *given]
        subprocess.run([sys.executable, "-m", "spectui", *command], check=True)
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def summary(document: dict[str, Any]) -> dict[str, Any]:
    """What the benchmark is about, with a row per prompt."""
    ratio = document["delivered_over_promised"]
    counts = document["counts"]
    names = ("speedup", "speedup_ci95", "baseline", "speculative")
    return {
        "verdict": document["verdict"],
        "delivered_over_promised": ratio,
        "within_tolerance": abs(ratio["estimate"] - 1) <= _TOLERANCE,
        "counts_equal": f"{counts['n_equal']} of {counts['n_compared']}",
        "different": counts["different"],
        "promised": {name: document["promised"][name] for name in names},
        "delivered": {name: document["delivered"][name] for name in names},
        "rows": document["prompts"],
    }


if __name__ == "__main__":
    main()
