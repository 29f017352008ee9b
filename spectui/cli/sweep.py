"""``spectui sweep``: a grid of configurations, resumable, with tables and a picture."""

from pathlib import Path
from typing import Any

import click

from spectui.cli.click_options import Decorator, listed
from spectui.cli.completing import grids
from spectui.cli.defaults import FromUserOnly
from spectui.cli.drafting import LISTED_NGRAMS
from spectui.cli.given import Given
from spectui.cli.help import Command
from spectui.cli.options import add_options, grid_options
from spectui.cli.options_common import BACKEND, PARALLEL, SERVER_BIN
from spectui.cli.values import DrafterKind, ListOf, Value
from spectui.options import catalogue, context
from spectui.options.drafters import MODEL_KIND, DraftSimple, numbers_of
from spectui.options.option import Whole
from spectui.sweep.grid import DRAFTING_KINDS

_AXES: tuple[Decorator, ...] = (
    click.option(
        "--grid",
        metavar="NAME|FILE",
        shell_complete=grids,
        help="Run a named study or your own .toml file; options beside it replace its axes.",
    ),
    click.option("--list", "list_grids", is_flag=True, help="Show the named grids, and end."),
    click.option(
        "--spec-type",
        cls=FromUserOnly,
        type=ListOf(DrafterKind(DRAFTING_KINDS)),
        multiple=True,
        metavar="LIST",
        help=(
            "Who drafts; may be repeated, each is an alternative. Several with commas between "
            f"them stand in a row (default: {MODEL_KIND}). The target alone is always measured."
        ),
    ),
    *map(listed, numbers_of(DraftSimple)),
    *LISTED_NGRAMS,
    listed(context.THREADS, means="one per physical core", help_text="Compute threads."),
    click.option(
        "--prompt-length",
        type=ListOf(Value(Whole(1))),
        default=(),
        metavar="N,...",
        help="Lengths of prompt: each prompt with others before it (default: its own).",
    ),
    listed(catalogue.TEMPERATURE, help_text="Temperatures; 0 is greedy."),
)

_COURSE: tuple[Decorator, ...] = (
    click.option(
        "--repeats",
        type=Value(Whole(1)),
        metavar="N",
        help="Measure every cell N times, in passes over all cells (default: 1).",
    ),
    click.option(
        "--n-prompts",
        type=Value(Whole(1)),
        metavar="N",
        help="Take the first N prompts (default: 8 of the built-in suite, or all of yours).",
    ),
    click.option("--name", metavar="NAME", help="Of the sweep (default: made from the run)."),
    click.option("--restart", is_flag=True, help="Begin anew; what there is stays aside."),
    click.option("--retry-failed", is_flag=True, help="Try cells again that have failed."),
    click.option("--dry-run", is_flag=True, help="Show what would run, and end."),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help=(
            "Write results.json, summary.csv, report.md and a picture, speedups.svg, "
            "to DIR: a folder that is new, empty, or was written so before."
        ),
    ),
)


_EXAMPLES = (
    ("What a named study would run", "spectui sweep --grid gamma-draft --demo --dry-run"),
    (
        "Lengths of draft and temperatures, with tables and a picture",
        "spectui sweep --demo --draft-max 2,4,8 --temp 0,0.8 --out results",
    ),
)


@click.command(name="sweep", cls=Command, examples=_EXAMPLES)
@grid_options
@add_options(*_AXES, *_COURSE, *BACKEND, SERVER_BIN, PARALLEL)
@click.pass_context
def command(context: click.Context, /, **parsed: Any) -> None:
    """Measure a grid of configurations against the target alone, in random order.

    Every combination of the lists is a cell: all drafts, every drafter, every value. Each prompt of
    a cell is decoded without and with speculation, one right after the other. Cells are stored as
    they end; the same command goes on from there. Prints what each is worth, and writes tables
    and a picture with --out.
    """
    from spectui.cli.run_sweep import list_all, run

    if parsed.pop("list_grids") or parsed["grid"] == "list":
        list_all(parsed["json_path"])
        return
    run(Given.of(context, parsed))
