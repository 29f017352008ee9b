"""Take home what ``tools.gpu.run`` found: results, and pictures of the screen.

    python -m tools.gpu.take DIR

Each check's result becomes ``benchmarks/results/gpu_NAME.json``, whose row in
``benchmarks/page.yaml`` is drawn from then on (``python -m tools.render_docs``). What failed is
printed with its reason, and ends with exit code 1.
"""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Take what is in the folder."""
    folder = Path(sys.argv[1])
    return take(folder, ROOT / "benchmarks" / "results", ROOT / "screenshots")


def take(folder: Path, results: Path, screenshots: Path) -> int:
    """Take results and pictures of one folder; 1 where something failed, else 0."""
    n_failed = 0
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines()
    latest = {found["name"]: found for found in map(json.loads, lines)}
    for name, found in latest.items():
        print(f"{found['took_s']:7.1f} s  {name}: {found.get('error', 'done')}")
        n_failed += "error" in found
        if "machine" in found:
            del found["name"]
            found["command"] = "python -m tools.gpu.run"
            text = json.dumps(found, indent=2)
            (results / f"gpu_{name}.json").write_text(text + "\n", encoding="utf-8")
    for picture in folder.glob("*.svg"):
        shutil.copy(picture, screenshots)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
