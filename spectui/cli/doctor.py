"""``spectui doctor``: what works here, what fits and what is slow, without loading weights."""

from typing import Any

import click

from spectui.cli.click_options import Repeatable
from spectui.cli.given import Given
from spectui.cli.options import add_options, candidate_options
from spectui.cli.values import Value
from spectui.options.option import Whole

_LONGEST = click.option(
    "--draft-max",
    "--spec-draft-n-max",
    "draft_max",
    type=Value(Whole(1)),
    default=16,
    show_default=True,
    metavar="N",
    help="Longest draft to make room for.",
)


_LIBRARIES = click.option(
    "--libraries",
    is_flag=True,
    help=(
        "List the llama.cpp libraries of this machine, say why one cannot be used and, with a "
        "target, what a batch of 1 and of 4 tokens costs with each."
    ),
)
_WITHOUT_EFFECT = (
    *("temp", "top_k", "top_p", "min_p", "seed", "ignore_eos"),
    *("prompts", "n_predict"),
)
"""Options of ``tune`` that examine nothing, so that its commands can be examined."""
_EXAMPLES = (
    ("This machine alone", "spectui doctor"),
    ("Whether a pair fits and can pay", "spectui doctor -m target.gguf -md draft.gguf -c 32768"),
    ("What each llama.cpp here makes of it", "spectui doctor --libraries -m target.gguf"),
)


@click.command(name="doctor", cls=Repeatable, examples=_EXAMPLES, without_effect=_WITHOUT_EFFECT)
@candidate_options
@add_options(_LONGEST, _LIBRARIES)
@click.pass_context
def command(context: click.Context, /, *, draft_max: int, libraries: bool, **shared: Any) -> None:
    """Examine the machine, and a target with its drafts: can it work, does it fit, can it pay?

    Reads headers alone. Takes the options of tune, so that a command can be examined before it is
    run.
    """
    from spectui.engine.planning import Planner
    from spectui.options.reading import endpoints

    # The planner's process starts while the rest is imported.
    with Planner(rpc=endpoints(shared["rpc"])) as planner:
        from spectui.cli.run_doctor import doctor

        doctor(planner, Given.of(context), draft_max=draft_max, prices_libraries=libraries)
