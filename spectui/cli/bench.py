"""``spectui bench``: one configuration against the baseline."""

from typing import Any

import click

from spectui.cli.drafting import DRAFTING
from spectui.cli.options import add_options, sweep_options
from spectui.cli.values import INT_MAX, Fraction, ListOf, WholeNumber


@click.command(name="bench")
@sweep_options
@add_options(*DRAFTING)
@click.option(
    "--temp",
    type=ListOf(Fraction(min=0)),
    default=(0.0,),
    metavar="T,...",
    help="Temperatures to measure one after the other; 0, the default, is greedy.",
)
@click.option(
    "--prompt-length",
    "lengths",
    type=ListOf(WholeNumber(1, INT_MAX)),
    default=(),
    metavar="N,...",
    help="Lengths of prompt to measure one after the other: each prompt with others before it.",
)
@click.option(
    "--repeats",
    type=WholeNumber(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Measure every prompt N times.",
)
def command(
    *, temp: tuple[float, ...], lengths: tuple[int, ...], repeats: int, **parsed: Any
) -> None:
    """Measure one setting against the target alone.

    Every prompt is decoded without and with the draft, one right after the other. Prints the
    speedup with its interval, and checks that the output is the same. With several temperatures or
    lengths of prompt it prints a table.
    """
    from spectui.cli.run_bench import bench

    bench(parsed, temps=temp, lengths=lengths, repeats=repeats)
