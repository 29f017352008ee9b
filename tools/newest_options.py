"""Says which options the newest packages of llama.cpp have that spectui's tables lack.

    python -m tools.newest_options [PACKAGE ...]

A package is a library, a wheel, an npm archive; without one, Debian's ``libllama0`` and PyPI's
``xllamacpp`` are fetched once a day, and kept beside the builds of ``build_llama_server.py``.
Nothing of them is executed. A library has names alone, those of other programs among them: what the
pinned library has too is not told. What is new is drawn by ``draw_options.py llama.cpp-later``,
from the ``--help`` of such a build.
"""

import argparse
import datetime as dt
import functools
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from spectui.commands.server_options import flags_of, server_option, variables_of
from spectui.options.option import Dialect
from tools.build_llama_server import (
    BuildError,
    Run,
    builds,
    cache_root,
    run_logged,
    unpack_debian,
)

_PINNED = "libllama-common.so*"
_NAME = re.compile(rb"\0(--[a-z][a-z0-9.-]*[a-z0-9]|LLAMA_ARG_[A-Z0-9_]+[A-Z0-9])(?=\0)")
"""A string of a library that is an option's long name, or its variable."""
_PARSING = b"\0LLAMA_ARG_CTX_SIZE\0"
"""A string of the library with the parser."""


def _of_debian(folder: Path, run: Run) -> Path:
    unpack_debian(("libllama0/sid",), folder, run)
    return next(folder.glob(f"usr/lib/*/{_PINNED}"))


def _of_pypi(folder: Path, run: Run) -> Path:
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder)
    run(sys.executable, "-m", "pip", "download", *options, "xllamacpp")
    return next(folder.glob("*.whl"))


_PACKAGES: dict[str, Callable[[Path, Run], Path]] = {
    "libllama0": _of_debian,
    "xllamacpp": _of_pypi,
}


def fetched(name: str, kept: Path) -> Path:
    """The newest package of that name, kept as one file for the day.

    Raises:
        BuildError: it cannot be fetched.
    """
    today = kept / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
    found = next(iter(today.glob(f"{name}*")), None)
    if found is not None:
        return found
    today.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as work:
        folder = Path(work) / name
        folder.mkdir()
        file = _PACKAGES[name](folder, functools.partial(run_logged, kept / f"{name}.log"))
        version = next(iter(folder.glob(f"{name}*")), file).name
        return file.resolve().replace(today / version)


def names_in(package: Path) -> set[str]:
    """Long names of options and variables in a library, or in that of a package.

    Raises:
        FileNotFoundError: the package holds no parser.
    """
    for data in _files(package):
        if _PARSING in data:
            return {name.decode() for name in _NAME.findall(data)}
    raise FileNotFoundError(f"{package} holds no library with the parser of llama.cpp")


def _files(package: Path) -> Iterator[bytes]:
    if zipfile.is_zipfile(package):
        with zipfile.ZipFile(package) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif tarfile.is_tarfile(package):
        with tarfile.open(package) as tar:
            yield from (file.read() for one in tar if (file := tar.extractfile(one)) is not None)
    else:
        yield package.read_bytes()


def changes(newest: set[str], pinned: set[str]) -> tuple[list[str], list[str]]:
    """Names that a library has beyond all tables and the pinned one, and those that it lacks."""
    current = flags_of(Dialect.LLAMA_CPP) | variables_of(Dialect.LLAMA_CPP)
    new = newest - current - pinned
    return sorted(name for name in new if server_option(name) is None), sorted(
        (current & pinned) - newest
    )


def newest() -> Iterator[Path]:
    """Yield the packages of today; what cannot be fetched is said."""
    kept = cache_root(os.environ) / "newest"
    for name in _PACKAGES:
        try:
            yield fetched(name, kept)
        except BuildError as error:
            print(f"{name}: {error}")
    for old in sorted(path for path in kept.iterdir() if path.is_dir())[:-1]:
        shutil.rmtree(old)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each package has beyond the tables, and lacks; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", type=Path, nargs="*", help="(default: the newest)")
    parser.add_argument("--pinned", type=Path, help="library of the build of llama.cpp.txt")
    given = parser.parse_args(arguments)
    built = (builds(os.environ) / "server").glob(_PINNED)
    pinned = names_in(given.pinned or next(built, Path("libllama-common.so")))
    for package in given.package or newest():
        new, gone = (", ".join(names) or "nothing" for names in changes(names_in(package), pinned))
        print(f"{package.name}: new {new}; gone {gone}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
