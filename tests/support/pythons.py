"""Interpreters of several versions: this machine's, else uv's, else Debian's."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.build_llama_server import BuildError, cache_root
from tools.debian_python import interpreter

PROGRAMS = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""Where uv and pipx are found: beside this Python first."""


@functools.cache
def python_of(version: str) -> tuple[Path | None, str]:
    """An interpreter of a version, such as ``3.14``; None with the reason."""
    for path in _of_this_machine(version):
        if _version_of(path) == version:
            return path, ""
    uv = shutil.which("uv", path=PROGRAMS)
    if uv is not None:
        folder = str(cache_root(os.environ) / "uv-pythons")
        environment = {**os.environ, "UV_PYTHON_INSTALL_DIR": folder}
        brought = subprocess.run(
            [uv, "python", "install", "--no-bin", version],
            env=environment,
            check=False,
            capture_output=True,
        )
        if brought.returncode == 0:
            find = [uv, "python", "find", "--managed-python", version]
            return Path(subprocess.check_output(find, env=environment, text=True).strip()), ""
    try:
        return interpreter(version), ""
    except (BuildError, OSError) as error:
        return None, f"no Python {version} here, from uv or from Debian: {error}"


def _of_this_machine(version: str) -> list[Path]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    return [
        *(path / "bin" / "python" for path in sorted(versions.glob(f"{version}.*"))),
        *([Path(found)] if found else []),
        Path(sys.executable),
    ]


def _version_of(python: Path) -> str | None:
    """What it says, unless it cannot be started: a shim of pyenv's may stand for none."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    said = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    return said.stdout.strip() if said.returncode == 0 else None
