"""``spectui sweep``: a grid of configurations, resumable, with tables and a picture."""

from pathlib import Path

import click

from spectui.cli.click_options import (
    Described,
    ListOf,
    Value,
    listed,
    option,
    request,
    request_command,
    switch,
)
from spectui.cli.completion import grids
from spectui.cli.given import Given
from spectui.cli.help import FromUserOnly
from spectui.cli.options import LISTED_NGRAMS, OF_BACKEND, OF_GRID, PARALLEL, SERVER_BIN
from spectui.options import catalogue, context
from spectui.options.drafters import MODEL_KIND, DraftSimple, numbers_of
from spectui.options.option import File, Whole
from spectui.sweep.grid import DRAFTING_KINDS

_AXES: tuple[Described, ...] = (
    option(
        "--spec-type",
        cls=FromUserOnly,
        type=ListOf(click.Choice(DRAFTING_KINDS)),
        multiple=True,
        metavar="LIST",
        help=(
            "Who drafts; may be repeated, each is an alternative. Several with commas between "
            f"them stand in a row (default: {MODEL_KIND}). The target alone is always measured."
        ),
    ),
    *(listed(number).under("Speculation") for number in numbers_of(DraftSimple)),
    *LISTED_NGRAMS,
    listed(context.THREADS, means="one per physical core", help_text="Compute threads."),
    option(
        "--prompt-length",
        type=ListOf(Value(Whole(1))),
        default=(),
        help="Lengths of prompt: each prompt with others before it (default: its own).",
    ),
    listed(catalogue.TEMPERATURE, help_text="Temperatures; 0 is greedy."),
)
"""Options that are axes of a grid: lists of values."""
_EXAMPLES = (
    ("What a named study would run", "spectui sweep --grid gamma-draft --demo --dry-run"),
    (
        "Lengths of draft and temperatures, with tables and a picture",
        "spectui sweep --demo --draft-max 2,4,8 --temp 0,0.8 --out results",
    ),
)


@request
class Sweep:
    """Measure a grid of configurations against the target alone, in random order.

    Every combination of the lists is a cell: all drafts, every drafter, every value. Each prompt of
    a cell is decoded without and with speculation, one right after the other. Cells are stored as
    they end; the same command goes on from there. Prints what each is worth, and writes tables
    and a picture with --out.
    """

    given: Given
    grid: str | None = option(
        "--grid",
        metavar="NAME|FILE",
        shell_complete=grids,
        help="Run a named study or your own .toml file; options beside it replace its axes.",
    )
    list_grids: bool = switch("--list", help="Show the named grids, and end.")
    repeats: int | None = option(
        "--repeats",
        type=Whole(1),
        help="Measure every cell N times, in passes over all cells (default: 1).",
    )
    n_prompts: int | None = option(
        "--n-prompts",
        type=Whole(1),
        help="Take the first N prompts (default: 8 of the built-in suite, or all of yours).",
    )
    name: str | None = option(
        "--name", metavar="NAME", help="Of the sweep (default: made from the run)."
    )
    restart: bool = switch("--restart", help="Begin anew; what there is stays aside.")
    retry_failed: bool = switch("--retry-failed", help="Try cells again that have failed.")
    dry_run: bool = switch("--dry-run", help="Show what would run, and end.")
    out: Path | None = option(
        "--out",
        type=File(),
        metavar="DIR",
        help=(
            "Write results.json, summary.csv, report.md and a picture, speedups.svg, to DIR: a "
            "folder that is new, empty, or was written so before."
        ),
    )


command = request_command(
    Sweep,
    "sweep",
    "run_sweep:run",
    shared=(*OF_GRID, *_AXES, *OF_BACKEND, SERVER_BIN, PARALLEL),
    examples=_EXAMPLES,
)
