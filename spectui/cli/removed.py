"""Commands and options that spectui no longer has, with the way that is left."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from spectui.errors import UsageError

_COUNTS = (
    "verify compares speedups alone and loads no models a second time, so that --counts and "
    "--no-counts are gone; leave them out, and compare counts with benchmarks/draft_counts.py of a "
    "clone"
)
_REMOVED = {
    "worker": (
        "spectui worker is gone; run the same spectui tune with --study NAME and --storage URL, a "
        "PostgreSQL database, on each machine"
    ),
    "studies repair": (
        "studies repair is gone: whichever command finds the file damaged moves it aside; studies "
        "export and studies import keep copies of studies"
    ),
    "tune --sampler": "tune chooses settings with Optuna's TPE alone; leave out --sampler",
    "tune --server-url": (
        "--server-url: llama-server takes no speculative parameters per request, so a server that "
        "runs cannot be searched on; give its binary with --backend server --server-bin PATH, or "
        "measure it as it stands with spectui bench"
    ),
    "verify --counts": _COUNTS,
    "verify --no-counts": _COUNTS,
}
"""By command, behind ``spectui``, and option."""


@contextmanager
def removed_refused(ctx: click.Context) -> Iterator[None]:
    """Refuse inside the block what was a command, or an option of one, in an earlier version.

    Raises:
        UsageError: such a word was typed.
    """
    try:
        yield
    except (click.NoSuchOption, click.NoSuchCommand) as error:
        name = error.option_name if isinstance(error, click.NoSuchOption) else error.command_name
        words = f"{ctx.command_path} {name}".partition(" ")[2]
        if words in _REMOVED:
            raise UsageError(_REMOVED[words]) from None
        raise
