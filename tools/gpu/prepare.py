"""Gather what the machine with the GPU needs into ``.gpu/``, in parts that travel one by one.

    python -m tools.gpu.prepare                   # parts of at most 48 MiB
    python -m tools.gpu.prepare --part-mib 30

The machine has Python 3.12 with numpy, CMake, ninja and CUDA's compiler, and no network. Each part
is one folder. What is there already and whole is kept, so that an interrupted run goes on.
"""

import argparse
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from spectui.demo.build import smollm2_path
from tools.build_llama_server import download_sdist, run_logged
from tools.gpu.run import MODEL

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".gpu"
PYTHON = "3.12"
PLATFORM = "x86_64-manylinux_2_28"
SITE, SOURCES = "site.tar.xz", "llama.cpp.tar.xz"
ON_THE_MACHINE = ("numpy", "numpy.libs")
"""Large packages that its Python has, or that no check needs; with those below, two thirds."""
UNUSED = ("hf_xet", "bin", "spectui")
BUILT_FROM = ("CMakeLists.txt", "cmake", "common", "ggml", "include", "src", "tools", "vendor")
"""What of llama.cpp's sources llama-server is built from, ``vendor`` beside it."""
OTHER_BACKENDS: tuple[str, ...] = (
    "cann",
    "hexagon",
    "hip",
    "metal",
    "musa",
    "opencl",
    "openvino",
    "sycl",
)
OTHER_BACKENDS += ("virtgpu", "vulkan", "webgpu", "zdnn", "zendnn")
_CHUNK = 1 << 20


def main() -> None:
    """Make the parts, and say what to call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part-mib", type=float, default=48.0, help="most of a part")
    limit = int(parser.parse_args().part_mib * (1 << 20))
    whole = FOLDER / "whole"
    whole.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], None]] = {
        SITE: make_site,
        SOURCES: make_sources,
        MODEL: make_model,
    }
    for name, make in makers.items():
        ensure(whole / name, make)
    parts = divide([whole / name for name in makers], FOLDER, limit)
    for part in parts:
        size = sum(path.stat().st_size for path in part.iterdir())
        print(f"{part.relative_to(ROOT)}: {size / (1 << 20):.1f} MiB")


def ensure(path: Path, make: Callable[[Path], None]) -> None:
    """Make a file by one rename at the end, unless it is there with the digest noted beside it."""
    noted = path.with_suffix(path.suffix + ".sha256")
    if path.exists() and noted.exists() and noted.read_text() == digest_of(path):
        return
    partial_path = path.with_suffix(path.suffix + ".partial")
    make(partial_path)
    noted.write_text(digest_of(partial_path))
    partial_path.replace(path)


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_site(archive: Path) -> None:
    """Archive the packages that the checks import, for the machine's Python."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        wanted = (str(ROOT), "gguf", "pytest", "hypothesis", "pyte")
        for_it = ("--python-version", PYTHON, "--python-platform", PLATFORM)
        subprocess.run(
            [
                *(Path(sys.executable).parent / "uv", "pip", "install", "--quiet", *for_it),
                *("--target", site, "--constraint", ROOT / "requirements.lock", *wanted),
            ],
            check=True,
            env=os.environ | {"SKBUILD_WHEEL_CMAKE": "false"},
        )
        for name in (*ON_THE_MACHINE, *UNUSED):
            shutil.rmtree(site / name, ignore_errors=True)
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(site, "site", filter=lambda info: None if is_compiled(info) else info)


def is_compiled(info: tarfile.TarInfo) -> bool:
    """Whether a member is Python's compiled code, which another version cannot read."""
    return "__pycache__" in info.name


def make_sources(archive: Path) -> None:
    """Archive what llama-server is built from, of the release that the binding is pinned to."""
    with tempfile.TemporaryDirectory() as folder:
        sdist = download_sdist(Path(folder), partial(run_logged, Path(folder) / "log"))
        with tarfile.open(sdist) as sources, tarfile.open(archive, "w:xz") as tar:
            for info in sources:
                name = info.name.partition("/vendor/llama.cpp/")[2]
                if not (info.isfile() and name and is_built_from(name)):
                    continue
                # A long name stands in these as well, and would win.
                info.name, info.pax_headers = f"llama.cpp/{name}", {}
                tar.addfile(info, sources.extractfile(info))


def is_built_from(name: str) -> bool:
    """Whether a file of llama.cpp's sources is needed to build llama-server with CUDA."""
    parts = Path(name).parts
    if name != "scripts/ui-assets.cmake" and parts[0] not in BUILT_FROM:
        return False
    if not {"ui", "tests", "bench"}.isdisjoint(parts[:-1]):
        # CMake reads the lists of what is switched off, too.
        return Path(name).suffix in {".txt", ".cmake", ".in"}
    return not any(part == f"ggml-{backend}" for part in parts for backend in OTHER_BACKENDS)


def make_model(archive: Path) -> None:
    """Compress SmolLM2 by a tenth."""
    with smollm2_path().open("rb") as source, lzma.open(archive, "wb", preset=6) as target:
        shutil.copyfileobj(source, target, _CHUNK)


def divide(files: Sequence[Path], folder: Path, limit: int) -> list[Path]:
    """Divide files into numbered folders, none of which has more bytes than the limit.

    A file that does not fit goes on in the next folder, as ``NAME.0`` and ``NAME.1``. How many
    pieces each has, and its digest, is in ``whole.json`` of the first.
    """
    for old in folder.glob("[0-9]*"):
        shutil.rmtree(old)
    parts: list[Path] = []
    left, whole = 0, {}
    for file in files:
        n_pieces = 0
        with file.open("rb") as source:
            while chunk := source.read(left or limit):
                if not left:
                    parts.append(folder / str(len(parts) + 1))
                    parts[-1].mkdir()
                    left = limit
                (parts[-1] / f"{file.name}.{n_pieces}").write_bytes(chunk)
                n_pieces, left = n_pieces + 1, left - len(chunk)
        whole[file.name] = n_pieces, digest_of(file)
    (parts[0] / "whole.json").write_text(json.dumps(whole))
    return parts


if __name__ == "__main__":
    main()
