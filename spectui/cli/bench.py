"""``spectui bench``: one configuration against the baseline."""

from typing import Any

import click

from spectui.cli.options import SPECULATION, add_options, shared_options


@click.command(name="bench")
@shared_options
@add_options(*SPECULATION)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Measure every prompt N times.",
)
def command(
    *, draft_max: int, draft_min: int, draft_p_min: float, repeats: int, **shared: Any
) -> None:
    """Measure one setting against the target alone.

    Every prompt is decoded without and with the draft, one right after the other. Prints the
    speedup with its interval, and checks that the output is the same.
    """
    from spectui.cli.run_bench import bench

    bench(shared, draft_max, draft_min, draft_p_min, repeats=repeats)
