"""A disk that is full."""

import resource
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
