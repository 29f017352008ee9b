"""Unpack a Python of Debian's that this machine lacks, with the libraries that it needs.

    python -m tools.debian_python 3.14    # prints the path of the interpreter

Nothing is installed: the packages of Debian's development release are unpacked in the cache of
``tools/build_llama_server.py``, once. It has no pip; ``uv`` needs none.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.build_llama_server import BuildError, Run, cache_root, ensure_built, unpack_debian

_RELEASE = "sid"
_PYTHON = ("python{0}", "python{0}-minimal", "libpython{0}-minimal", "libpython{0}-stdlib")
_LIBRARIES = (
    *("libc6", "libgcc-s1", "libstdc++6", "libexpat1", "zlib1g", "libzstd1", "libbz2-1.0"),
    *("liblzma5", "libssl3t64", "libffi8", "libsqlite3-0", "libuuid1"),
)
# The interpreter is newer than this machine's C library: it starts with its own.
_STARTER = """\
#!/bin/sh
usr=$(dirname "$(dirname "$(readlink -f "$0")")")
set -- --argv0 "$0" --library-path "$(echo "$usr"/lib/*-linux-gnu*)" "$usr/bin/PROGRAM.debian" "$@"
exec "$(echo "$usr"/lib/*-linux-gnu*/ld-linux*.so.*)" "$@"
"""


def interpreter(version: str) -> Path:
    """Return the path of an interpreter, which is unpacked if need be.

    Args:
        version: such as ``3.14``.

    Raises:
        BuildError: Debian's mirror cannot be reached, or has no such Python.
    """

    def build(workspace: Path, run: Run) -> Path:
        names = (*(name.format(version) for name in _PYTHON), *_LIBRARIES)
        folder = workspace / "packages"
        unpack_debian([f"{name}/{_RELEASE}" for name in names], folder, run)
        program = folder / "usr" / "bin" / f"python{version}"
        program.rename(f"{program}.debian")
        program.write_text(_STARTER.replace("PROGRAM", program.name))
        program.chmod(0o755)
        run(program, "-c", "import bz2, ctypes, lzma, sqlite3, ssl, venv, zlib")
        return folder / "usr"

    home, name = cache_root(os.environ), f"debian-python{version}"
    ensure_built(name, home, build)
    return home / name / "bin" / f"python{version}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version")
    try:
        print(interpreter(parser.parse_args(arguments).version))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
