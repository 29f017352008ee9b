"""``spectui trace``: records a trace from which settings are predicted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from spectui.cli.click_options import option, request_command
from spectui.cli.given import Given
from spectui.cli.options import OF_CANDIDATES
from spectui.cli.options_common import CHATS, YES
from spectui.cli.values import Value
from spectui.options.option import Whole

_EXAMPLES = (
    ("Record the demo pair", "spectui trace --demo --out demo.trace.json.gz"),
    (
        "Your pair on your prompts, for longer drafts",
        "spectui trace -m target.gguf -md draft.gguf --prompts chat.jsonl --draft-max 32",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Record what settings can be predicted from, without measuring each.

    The target continues every prompt once, then every draft goes along its output. Ends with the
    path of the trace, for spectui replay.
    """

    given: Given
    depth: Annotated[
        int,
        option(
            "--draft-max",
            "--spec-draft-n-max",
            type=Value(Whole(1, 254)),
            show_default=True,
            metavar="N",
            help="Longest draft that the trace can answer for.",
        ),
    ] = 16
    out: Annotated[
        Path | None,
        option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Where to write it (default: a new file in spectui's data folder).",
        ),
    ] = None
    costs: Annotated[
        bool,
        option(
            "--costs/--no-costs",
            show_default=True,
            help="Also measure what rounds cost, to predict tokens per second.",
        ),
    ] = True
    keep_text: Annotated[
        bool,
        option(
            "--keep-text",
            is_flag=True,
            help=(
                "Store the tokens as they are. Without it they are numbered by first appearance, "
                "which predicts as well and cannot be read."
            ),
        ),
    ] = False


command = request_command(
    Trace, "trace", "run_trace:trace", shared=(*OF_CANDIDATES, CHATS, YES), examples=_EXAMPLES
)
