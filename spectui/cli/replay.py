"""``spectui replay``: predicts settings from a recorded trace."""

from pathlib import Path
from typing import Any

import click

from spectui.cli.click_options import listed
from spectui.cli.drafting import REPLAYED_NGRAMS, replayed_ahead, replayed_ngrams
from spectui.cli.help import Command
from spectui.cli.options import add_options
from spectui.cli.options_common import json_option
from spectui.options.drafters import DraftSimple, numbers_of

_MAX, *_OTHERS = numbers_of(DraftSimple)


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


@click.command(name="replay", cls=Command, examples=_EXAMPLES)
@click.argument("trace", type=click.Path(path_type=Path))
@add_options(
    listed(_MAX, default=None, means="1 to the longest that the trace knows"),
    *(listed(number, default=(number.default,)) for number in _OTHERS),
)
@click.option(
    "-md",
    "--model-draft",
    "drafts",
    multiple=True,
    metavar="NAME",
    help="Only this draft of the trace. May be repeated (default: all).",
)
@add_options(*REPLAYED_NGRAMS)
@json_option()
def command(
    *,
    trace: Path,
    drafts: tuple[str, ...],
    json_path: str | None,
    **numbers: Any,
) -> None:
    """Predict settings from a TRACE, without loading a model.

    Drafted and accepted counts are exact, as long as the output is the recorded one: greedy and
    seeded output does not depend on the draft, but for draws so close that batching moves them.
    """
    from spectui.cli.run_replay import Wanted, replay

    wanted = Wanted(
        draft_max=numbers[_MAX.parameter],
        others={number.name: numbers[number.parameter] for number in _OTHERS},
        drafts=drafts,
        ngrams=tuple(replayed_ngrams(numbers)),
        ahead=tuple(replayed_ahead(numbers)),
    )
    replay(trace, wanted, json_path=json_path)
