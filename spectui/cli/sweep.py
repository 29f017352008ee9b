"""``spectui sweep``: a grid of configurations, resumable, with a table and a picture."""

from pathlib import Path

import click

from spectui.cli.click_options import (
    ListOf,
    Value,
    listed,
    option,
    request,
    request_command,
    switch,
)
from spectui.cli.given import Given
from spectui.cli.help import FromUserOnly
from spectui.cli.options import (
    BACKEND_OPTIONS,
    GRID_OPTIONS,
    SERVER_BIN,
    SLOTS,
    parallel_option,
    repeats_option,
)
from spectui.options import catalogue
from spectui.options.drafters import (
    FILE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    numbers_of,
)
from spectui.options.option import Form, Whole

_AXES: tuple[click.Option, ...] = (
    option(
        "--spec-type",
        cls=FromUserOnly,
        type=ListOf(click.Choice([*FILE_KINDS, MTP_KIND, *NGRAM_KINDS])),
        multiple=True,
        metavar="LIST",
        help=(
            "Who drafts; may be repeated, each is an alternative. Several with commas between "
            f"them stand in a row (default: {MODEL_KIND})."
        ),
    ),
    *(
        listed(number, subject="Speculation")
        for drafter in (DraftSimple, *NGRAMS)
        for number in numbers_of(drafter)
    ),
    listed(catalogue.THREADS, means="one per physical core", help_text="Compute threads."),
    option(
        "--prompt-length",
        type=ListOf(Value(Whole(1))),
        default=(),
        help="Lengths of prompt: each prompt with others before it (default: its own).",
    ),
    listed(catalogue.TEMPERATURE, help_text="Temperatures; 0 is greedy."),
    parallel_option(ListOf(Value(SLOTS)), default=()),
)
"""Options that are axes of a grid: lists of values."""
_EXAMPLES = (
    (
        "Lengths of draft and temperatures, with a table and a picture",
        "spectui sweep --demo --draft-max 2,4,8 --temp 0,0.8 --out results",
    ),
)


@request
class Sweep:
    """Measure a grid of configurations against the target alone, in random order.

    Every combination of the lists is a cell: all drafts, every drafter, every value. Each prompt of
    a cell is decoded without and with speculation, one right after the other. Cells are stored as
    they end; the same command goes on from there, and tries again what has failed. Prints what each
    is worth, and writes a table and a picture with --out.
    """

    given: Given
    repeats: int = repeats_option("Measure every cell N times, in passes over all cells.")
    n_prompts: int | None = option(
        "--n-prompts",
        type=Whole(1),
        help="Take the first N prompts (default: 8 of the built-in suite, or all of yours).",
    )
    name: str | None = option(
        "--name", metavar="NAME", help="Of the sweep (default: made from the run)."
    )
    restart: bool = switch("--restart", help="Begin anew; what there is stays aside.")
    out: Path | None = option(
        "--out",
        type=Form.FILE,
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
    shared=(*GRID_OPTIONS, *_AXES, *BACKEND_OPTIONS, SERVER_BIN),
    examples=_EXAMPLES,
)
