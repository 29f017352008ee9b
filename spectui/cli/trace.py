"""``spectui trace``: records a trace from which settings are predicted."""

from pathlib import Path
from typing import Any

import click

from spectui.cli.given import Given
from spectui.cli.help import Command
from spectui.cli.options import add_options, candidate_options
from spectui.cli.options_common import CHATS, YES
from spectui.cli.values import Value
from spectui.options.option import Whole

_TRACE = (
    click.option(
        "--draft-max",
        "--spec-draft-n-max",
        "depth",
        type=Value(Whole(1, 254)),
        default=16,
        show_default=True,
        metavar="N",
        help="Longest draft that the trace can answer for.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Where to write it (default: a new file in spectui's data folder).",
    ),
    click.option(
        "--costs/--no-costs",
        default=True,
        show_default=True,
        help="Also measure what rounds cost, to predict tokens per second.",
    ),
    click.option(
        "--keep-text",
        is_flag=True,
        help="Store the tokens as they are. Without it they are numbered by first appearance, "
        "which predicts as well and cannot be read.",
    ),
)


_EXAMPLES = (
    ("Record the demo pair", "spectui trace --demo --out demo.trace.json.gz"),
    (
        "Your pair on your prompts, for longer drafts",
        "spectui trace -m target.gguf -md draft.gguf --prompts chat.jsonl --draft-max 32",
    ),
)


@click.command(name="trace", cls=Command, examples=_EXAMPLES)
@candidate_options
@add_options(CHATS, YES, *_TRACE)
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    depth: int,
    out: Path | None,
    costs: bool,
    keep_text: bool,
    **_shared: Any,
) -> None:
    """Record what settings can be predicted from, without measuring each.

    The target continues every prompt once, then every draft goes along its output. Ends with the
    path of the trace, for spectui replay.
    """
    from spectui.cli.run_trace import trace

    trace(Given.of(context), depth=depth, out=out, costs=costs, keep_text=keep_text)
