"""``spectui replay``: predicts settings from a recorded trace."""

from pathlib import Path

from spectui.cli.click_options import argument, listed, option, request, request_command
from spectui.cli.given import Given
from spectui.cli.options import REPLAYED_NGRAMS, json_option
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.options.option import File

MAX, *OTHERS = numbers_of(DraftSimple)
"""Numbers of a draft model."""
_EXAMPLES = (
    (
        "Counts of a grid of settings",
        "spectui replay demo.trace.json.gz --draft-max 1,2,4,8,16 --draft-p-min 0,0.5,0.9",
    ),
    (
        "What rounds cost as well, for a script",
        "spectui replay demo.trace.json.gz --json -",
    ),
)


@request
class Replay:
    """Predict settings from a TRACE, without loading a model.

    Drafted and accepted counts are exact, as long as the output is the recorded one: greedy and
    seeded output does not depend on the draft, but for draws so close that batching moves them.
    """

    given: Given
    trace: Path = argument(type=File())
    drafts: tuple[str, ...] = option(
        "-md",
        "--model-draft",
        multiple=True,
        metavar="NAME",
        help="Only this draft of the trace. May be repeated (default: all).",
    )
    json_path: str | None = json_option()


command = request_command(
    Replay,
    "replay",
    "run_replay:replay",
    shared=(
        listed(MAX, default=None, means="1 to the longest that the trace knows"),
        *(listed(number, default=(number.default,)) for number in OTHERS),
        *REPLAYED_NGRAMS,
    ),
    examples=_EXAMPLES,
)
