"""Seconds from the README's first command to its verdict, where there is no compiler.

For uv and pip, each with empty caches and then with full ones: a clone, an empty home, a PATH with
Python, git and a shell alone; the install; and ``tune`` of the demo pair, which builds the demo
models. With full caches the search is left out unless ``--tune-twice`` asks for it: it takes as
long as before.

It takes ``uv`` beside Python, and a network with a package index.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import write_results

ROOT = Path(__file__).parents[1]
AIMS_S = {"uv": 20.0, "pip": 90.0, "total": 300.0}
_PROGRAMS = ("sh", "bash", "git", "env", "uname", "cat", "ls", "id", "tar")
_INSTALLERS = {
    "uv": "uv venv -q .venv && uv pip install -q -p .venv -c requirements.lock -e '.[demo]'",
    "pip": ("python3 -m venv .venv && .venv/bin/pip install -q -c requirements.lock -e '.[demo]'"),
}
_TUNE = ("tune", "--demo", "--time-budget", "4m", "--json", "tune.json")


def main() -> None:
    """Measure and write ``results/install.json``."""
    twice, load_before = "--tune-twice" in sys.argv, os.getloadavg()
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for installer in _INSTALLERS:
            folder = Path(name) / installer
            environment = surroundings(folder)
            runs[installer] = {
                "cold": run(folder / "cold", installer, environment, tunes=True),
                "warm": run(folder / "warm", installer, environment, tunes=twice),
            }
    colds = {name: found["cold"] for name, found in runs.items()}
    write_results(
        "install",
        {
            "tune": ["spectui", *_TUNE],
            "python": sys.version.split()[0],
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "runs": runs,
            "aims_s": AIMS_S,
            "met": {
                **{name: one["install_s"] <= AIMS_S[name] for name, one in colds.items()},
                "total": all(one["total_s"] <= AIMS_S["total"] for one in colds.values()),
            },
        },
    )


def surroundings(folder: Path) -> dict[str, str]:
    """A new user's environment: of this one, only what reaches the package index."""
    programs, home = folder / "bin", folder / "home"
    programs.mkdir(parents=True)
    home.mkdir()
    for name in _PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or name)
    (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    reaching = ("PIP_", "UV_", "SSL_", "HTTP", "ALL_PROXY", "NO_PROXY")
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(reaching)}
    return kept | {"HOME": str(home), "PATH": str(programs), "SKBUILD_WHEEL_CMAKE": "false"}


def run(
    clone: Path, installer: str, environment: Mapping[str, str], *, tunes: bool
) -> dict[str, Any]:
    """Install a fresh clone, and tune there.

    Args:
        clone: folder that is made.
        installer: ``uv`` or ``pip``.
        environment: as ``surroundings`` makes it; caches are in its home.
        tunes: whether to search.
    """
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    install_s = seconds(environment, clone, "bash", "-c", _INSTALLERS[installer])
    found: dict[str, Any] = {"install_s": install_s}
    if tunes:
        found["tune_s"] = seconds(environment, clone, ".venv/bin/spectui", *_TUNE)
        document = json.loads((clone / "tune.json").read_text("utf-8"))
        found |= {
            "total_s": install_s + found["tune_s"],
            "library": document["engine"]["library"]["name"],
            "unused": document["engine"]["library"]["unused"],
            "answer": document["verdict"]["answer"],
            "reason": document["verdict"]["reason"],
            "disturbed_share": document["conditions"]["disturbance"]["disturbed_share"],
        }
    return found


def seconds(environment: Mapping[str, str], folder: Path, *command: str) -> float:
    """How long a command takes."""
    began_s = time.perf_counter()
    subprocess.run(command, env=dict(environment), cwd=folder, check=True, stdout=sys.stderr)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
