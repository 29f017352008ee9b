"""``spectui replay``: what settings would have done on a recorded trace."""

from pathlib import Path

import click

from spectui.cli.values import INT_MAX, Fraction, ListOf

_MAX_NGRAM = 1024
"""Of llama-server."""


@click.command(name="replay")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--draft-max",
    type=ListOf(click.IntRange(1, INT_MAX)),
    metavar="N,...",
    help="Most tokens per draft (default: 1 to the longest that the trace knows).",
)
@click.option(
    "--draft-min",
    type=ListOf(click.IntRange(0, INT_MAX)),
    default=(0,),
    metavar="N,...",
    help="Drop drafts shorter than this (default: 0).",
)
@click.option(
    "--draft-p-min",
    type=ListOf(Fraction(0, 1)),
    default=(0.0,),
    metavar="P,...",
    help="Stop drafting below this probability (default: 0).",
)
@click.option(
    "-md",
    "--model-draft",
    "drafts",
    multiple=True,
    metavar="NAME",
    help="Only this draft of the trace. May be repeated (default: all).",
)
@click.option(
    "--spec-ngram-simple-size-n",
    "size_n",
    type=ListOf(click.IntRange(1, _MAX_NGRAM)),
    default=(),
    metavar="N,...",
    help="Also replay the n-gram drafter that looks up N tokens (default with a size m: 4).",
)
@click.option(
    "--spec-ngram-simple-size-m",
    "size_m",
    type=ListOf(click.IntRange(1, _MAX_NGRAM)),
    default=(),
    metavar="M,...",
    help="Most tokens per draft of the n-gram drafter (default with a size n: 8).",
)
@click.option(
    "--costs",
    is_flag=True,
    help="Also show what rounds cost, and the throughput that follows over draft_max.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Write the result as JSON; - for stdout.",
)
def command(
    *,
    trace: Path,
    draft_max: tuple[int, ...] | None,
    draft_min: tuple[int, ...],
    draft_p_min: tuple[float, ...],
    drafts: tuple[str, ...],
    size_n: tuple[int, ...],
    size_m: tuple[int, ...],
    costs: bool,
    json_path: str | None,
) -> None:
    """Predict settings from a TRACE, without loading a model.

    Drafted and accepted counts are exact, as long as the output is the recorded one: greedy and
    seeded output does not depend on the draft, but for draws so close that batching moves them.
    """
    from spectui.cli.run_replay import replay

    replay(
        trace,
        draft_max=draft_max,
        draft_min=draft_min,
        draft_p_min=draft_p_min,
        drafts=drafts,
        ngrams=(size_n, size_m),
        costs=costs,
        json_path=json_path,
    )
