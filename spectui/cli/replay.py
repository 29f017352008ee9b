"""``spectui replay``: predicts settings from a recorded trace."""

from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.click_options import argument, request, request_command
from spectui.cli.options import json_option
from spectui.cli.output import check_writable
from spectui.errors import BadInputError
from spectui.options.option import Form

if TYPE_CHECKING:
    from spectui.trace.record import Trace
    from spectui.tune.space import SearchSpace

_EXAMPLES = (
    ("The best setting of each draft and length", "spectui replay demo.trace.json.gz"),
    ("Every setting", "spectui replay demo.trace.json.gz --json -"),
)


@request
class Replay:
    """Predict all settings that spectui tune searches from a TRACE, without loading a model.

    Drafted and accepted counts are exact, as long as the output is the recorded one: greedy and
    seeded output does not depend on the draft, but for draws so close that batching moves them.
    """

    trace: Path = argument(type=Form.FILE)
    json_path: str | None = json_option()


command = request_command(Replay, "replay", "replay:replay", examples=_EXAMPLES)


def replay(request: Replay) -> None:
    """Read the trace, replay it, and print the results.

    Raises:
        BadInputError: the trace cannot be read, or holds nothing that can be replayed.
    """
    from spectui.cli.page import write_result
    from spectui.trace.file import read_trace
    from spectui.tune.recorded import Recorded, replayed_document, replayed_page

    check_writable(request.json_path, (request.trace,))
    trace = read_trace(request.trace)
    recorded = Recorded.of(trace, _space_of(trace))
    totals = tuple(recorded.totals())
    if not totals:
        raise BadInputError(f"{request.trace} holds too little to replay; record it again")
    document = replayed_document(totals, request.trace)
    write_result(document, replayed_page(recorded, totals), request.json_path)


def _space_of(trace: "Trace") -> "SearchSpace":
    """The space of a search, as far as the trace answers for it."""
    from spectui.tune.space import LEAST_P_MIN, MAX_DRAFT, SearchSpace

    chains = [one for recording in trace.recordings for one in recording.chains.values()]
    first = trace.recordings[0].chains
    return SearchSpace(
        drafts=tuple(trace.drafts),
        max_draft=min((one.depth for one in chains), default=MAX_DRAFT),
        with_p_min=all(one.floor <= LEAST_P_MIN for one in chains),
        mtp_layers={name: one.mtp_layers for name, one in first.items()},
    )
