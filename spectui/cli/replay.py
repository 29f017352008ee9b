"""``spectui replay``: predicts settings from a recorded trace."""

from pathlib import Path

from spectui.cli.click_options import argument, request, request_command
from spectui.cli.options import json_option
from spectui.options.option import File

_EXAMPLES = (
    ("The best setting of each draft and length", "spectui replay demo.trace.json.gz"),
    ("Every setting, and what rounds cost", "spectui replay demo.trace.json.gz --json -"),
)


@request
class Replay:
    """Predict all settings that spectui tune searches from a TRACE, without loading a model.

    Drafted and accepted counts are exact, as long as the output is the recorded one: greedy and
    seeded output does not depend on the draft, but for draws so close that batching moves them.
    """

    trace: Path = argument(type=File())
    json_path: str | None = json_option()


command = request_command(Replay, "replay", "run_replay:replay", examples=_EXAMPLES)
