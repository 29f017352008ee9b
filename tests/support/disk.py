"""Disks that are full, or take nothing; processes that are killed while they write to one."""

import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
