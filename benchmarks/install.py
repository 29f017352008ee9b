"""Seconds from ``uv tool install`` in an empty home to the first verdict through a llama-server.

Wheel and sdist are built first, which a user does not do. Then, twice: an empty home; ``uv tool
install`` of the wheel with the pure-Python binding; the first ``--help``, which compiles what it
imports; ``tune`` of the demo pair, which builds the demo models. The first time uv's cache is
empty and every package is downloaded; the second time all of them are in it.

It takes ``uv`` of the PATH, and a network with a package index.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import server_binary, write_results

AIMS_S = {"install": 60.0, "total": 180.0}
_TUNE = ("tune", "--demo", "--time-budget", "2m", "--json", "tune.json")
_BEGUN = "tuning on "
"""The line of ``tune`` behind which it measures."""


def main() -> None:
    """Measure and write ``results/install.json``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(folder / "dist")
        server, load_before = server_binary(), os.getloadavg()
        runs = {
            cache: run(folder / cache, folder / "uv-cache", wheel, server)
            for cache in ("cold", "warm")
        }
        sizes = {"wheel_bytes": wheel.stat().st_size, "sdist_bytes": sdist.stat().st_size}
    write_results(
        "install",
        {
            "tune": ["spectui", *_TUNE],
            "python": sys.version.split()[0],
            "uv": subprocess.check_output(["uv", "--version"], text=True).split()[1],
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "runs": runs,
            "aims_s": AIMS_S,
            "met": {
                name: all(found[f"{name}_s"] <= aim for found in runs.values())
                for name, aim in AIMS_S.items()
            },
            **sizes,
        },
    )


def build(folder: Path) -> tuple[Path, Path]:
    """Build the wheel from the sdist, and return both."""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(root)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def run(home: Path, cache: Path, wheel: Path, server: Path) -> dict[str, Any]:
    """Install in an empty home, and tune there.

    Args:
        home: folder that is made.
        cache: of uv.
        wheel: what is installed.
        server: llama-server, which spectui finds on the PATH.
    """
    home.mkdir()
    environment = surroundings(home, cache, server)
    install = ["uv", "tool", "install", "-q", "--python", sys.executable]

    def call(*command: str | Path) -> None:
        subprocess.run(command, env=environment, cwd=home, check=True, capture_output=True)

    install_s = seconds(lambda: call(*install, f"spectui[demo] @ {wheel.as_uri()}"))
    program = home / ".local" / "bin" / "spectui"
    help_s = seconds(lambda: call(program, "--help"))
    prepare_s, tune_s = tune(program, environment, home)
    found = json.loads((home / "tune.json").read_text("utf-8"))
    return {
        "install_s": install_s,
        "first_help_s": help_s,
        "tune_s": tune_s,
        "tune_prepares_s": prepare_s,
        "total_s": install_s + help_s + tune_s,
        "answer": found["verdict"]["answer"],
        "reason": found["verdict"]["reason"],
        "disturbed_share": found["conditions"]["disturbance"]["disturbed_share"],
    }


def surroundings(home: Path, cache: Path, server: Path) -> dict[str, str]:
    """A new user's environment: of this one, only what reaches the package index."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not on the PATH; run: pip install uv")
    reaching = ("PIP_", "UV_", "SSL_", "HTTP", "ALL_PROXY", "NO_PROXY")
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(reaching)}
    folders = (str(Path(uv).parent), str(server.parent), "/usr/bin", "/bin")
    return kept | {
        "HOME": str(home),
        "PATH": os.pathsep.join(folders),
        "UV_CACHE_DIR": str(cache),
        "CMAKE_ARGS": "-DLLAMA_BUILD=OFF",
    }


def tune(program: Path, environment: Mapping[str, str], home: Path) -> tuple[float, float]:
    """Tune the demo pair: seconds until it measures, and in all."""
    began_s, prepared_s = time.perf_counter(), 0.0
    with subprocess.Popen(
        [program, *_TUNE],
        env=environment,
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr or ():
            print(line, end="", file=sys.stderr)
            if line.startswith(_BEGUN):
                prepared_s = time.perf_counter() - began_s
    if process.returncode:
        raise SystemExit(f"spectui tune ended with exit code {process.returncode}")
    return prepared_s, time.perf_counter() - began_s


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
