"""Disks that are full, or take nothing; processes that are killed while they write to one."""

import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def no_file_above(n_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``n_bytes``, as on a disk that fills up.

    The kernel refuses the rest; what comes before is written.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def small_disk(folder: Path, n_kib: int) -> Iterator[Callable[[str], None]]:
    """A disk of that size as ``folder``, where this user may mount one; else the test is skipped.

    Yields what mounts it again with other options, such as ``ro`` or ``size=9m``.
    """
    folder.mkdir(exist_ok=True)

    def mount(options: str, *more: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, *more, str(folder)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    if not mount(f"size={n_kib}k", "tmpfs"):
        pytest.skip("no disk can be mounted here")
    try:
        yield lambda options: pytest.fail(options) if not mount(f"remount,{options}") else None
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


_LINES = 40
_TURNS = 20_000


def killed_while_writing(code: str, *arguments: object, seed: int) -> list[str]:
    """Run code, which prints a line for each thing that is stored, until it is killed; its lines.

    That is behind at most so many lines, and so many turns of an idle loop of some 20 ns each.
    """
    chance = random.Random(seed)  # noqa: S311 - a moment
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(chance.randint(1, _LINES))]
        for _ in range(chance.randint(0, _TURNS)):
            pass
        process.kill()
        said += process.stdout.readlines()
    return [line.removesuffix("\n") for line in said if line.endswith("\n")]
