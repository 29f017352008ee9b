"""``spectui trace``: records a trace from which settings are predicted."""

from pathlib import Path

from spectui.cli.click_options import option, request, request_command, switch
from spectui.cli.given import Given
from spectui.cli.options import CHATS, OF_CANDIDATES, YES
from spectui.options.option import File, Whole

_EXAMPLES = (
    ("Record the demo pair", "spectui trace --demo --out demo.trace.json.gz"),
    (
        "Your pair on your prompts, for longer drafts",
        "spectui trace -m target.gguf -md draft.gguf --prompts chat.jsonl --draft-max 32",
    ),
)


@request
class Trace:
    """Record what settings can be predicted from, without measuring each.

    The target continues every prompt once, then every draft goes along its output. Ends with the
    path of the trace, for spectui replay.
    """

    given: Given
    depth: int = option(
        "--draft-max",
        "--spec-draft-n-max",
        default=16,
        type=Whole(1, 254),
        help="Longest draft that the trace can answer for.",
    )
    out: Path | None = option(
        "--out",
        type=File(),
        metavar="FILE",
        help="Where to write it (default: a new file in spectui's data folder).",
    )
    costs: bool = switch(
        "--costs/--no-costs",
        default=True,
        help="Also measure what rounds cost, to predict tokens per second.",
    )
    keep_text: bool = switch(
        "--keep-text",
        help=(
            "Store the tokens as they are. Without it they are numbered by first appearance, which "
            "predicts as well and cannot be read."
        ),
    )


command = request_command(
    Trace, "trace", "run_trace:trace", shared=(*OF_CANDIDATES, CHATS, YES), examples=_EXAMPLES
)
