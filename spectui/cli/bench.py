"""``spectui bench``: one configuration against the baseline."""

from typing import Any

import click

from spectui.cli.drafting import MEASURED
from spectui.cli.options import add_options, sweep_options
from spectui.cli.options_backend import BACKEND, SERVER_BIN
from spectui.cli.values import Fraction, ListOf, WholeNumber
from spectui.options.option import INT_MAX


@click.command(name="bench")
@sweep_options
@add_options(*MEASURED, *BACKEND, SERVER_BIN)
@click.option(
    "--server-url",
    metavar="ADDRESS",
    help=(
        "Measure a llama-server that runs already, here or elsewhere, as it stands: only prompts "
        "are sent to it. Its API key is taken from SPECTUI_API_KEY or LLAMA_API_KEY, or asked for."
    ),
)
@click.option(
    "--baseline-url",
    metavar="ADDRESS",
    help="With --server-url: another one without speculation, to compare with.",
)
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
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    temp: tuple[float, ...],
    lengths: tuple[int, ...],
    repeats: int,
    **parsed: Any,
) -> None:
    """Measure one setting against the target alone.

    Every prompt is decoded without and with the draft, one right after the other. Prints the
    speedup with its interval, and checks that the output is the same. With several temperatures or
    lengths of prompt it prints a table. With --backend server your own llama-server decodes, once
    without and once with the draft, in turns.
    """
    from spectui.cli.bench_run import Kinds
    from spectui.cli.run_bench import bench

    bench(ctx, parsed, Kinds(temps=temp, lengths=lengths, repeats=repeats))
