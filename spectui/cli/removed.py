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
_ISOLATE = (
    "the models always have a process of their own, so that --isolate and --no-isolate are gone; "
    "leave them out"
)
_REMOVED = {
    "probe": (
        "probe experts is gone; spectui doctor says what batches cost if tokens were routed at "
        "random, and spectui tune measures what they cost on your prompts"
    ),
    "worker": (
        "spectui worker is gone; run the same spectui tune with --study NAME and --storage URL, a "
        "PostgreSQL database, on each machine"
    ),
    "lint --fix": (
        "--fix is gone; spectui export --from COMMAND writes the corrected command alone"
    ),
    "models pull": (
        "models pull is gone: spectui models fetch PRESET fetches its models, with huggingface_hub"
    ),
    "studies repair": (
        "studies repair is gone: whichever command finds the file damaged moves it aside; studies "
        "export and studies import keep copies of studies"
    ),
    "attach --once": (
        "attach has no page of text any more, so that --once is gone; --json - alone writes what "
        "the server tells now"
    ),
    "replay --costs": "replay draws no costs any more, so that --costs is gone; --json has them",
    "report --format json": (
        "the card of JSON is gone; --format row writes a row of a shared table, and studies show "
        "STUDY --json - the whole document"
    ),
    "report OTHER": (
        "two studies side by side are gone; write a report of each, or put the lines of "
        "--format row below one another"
    ),
    "sweep --png": (
        "sweep --out draws one picture, speedups.svg, so that --png is gone; leave it out, and "
        "turn the SVG into a PNG with rsvg-convert or a browser"
    ),
    "tune --group": (
        "machines have no groups any more, so that --group is gone; run the same spectui tune with "
        "--study NAME and --storage URL on each"
    ),
    "tune --sampler": "tune chooses settings with Optuna's TPE alone; leave out --sampler",
    "tune --server-url": (
        "--server-url: llama-server takes no speculative parameters per request, so a server that "
        "runs cannot be searched on; give its binary with --backend server --server-bin PATH, or "
        "measure it as it stands with spectui bench"
    ),
    "verify --counts": _COUNTS,
    "verify --no-counts": _COUNTS,
    "--isolate": _ISOLATE,
    "--no-isolate": _ISOLATE,
    "--monitor-replay": (
        "the screen shows this machine's readings alone, so that --monitor-replay is gone; leave "
        "it out"
    ),
    "--schedule": "every round does llama-server's work, so that --schedule is gone; leave it out",
}
"""By command, behind ``spectui``, and option, with its value where others are left.

An option alone was one of several commands; a word in capitals was an argument.
"""


def reason_of(command: str, name: str = "") -> str | None:
    """Why a command, or an option of one, is no more; None where it never was."""
    return _REMOVED.get(f"{command} {name}".strip()) or _REMOVED.get(name)


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
        reason = reason_of(ctx.command_path.partition(" ")[2], name)
        if reason is None:
            raise
        raise UsageError(reason) from None
