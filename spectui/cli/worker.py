"""``spectui worker``: measures trials of a study beside the ``tune`` that conducts it."""

from typing import Any

import click

from spectui.cli.click_options import Repeatable
from spectui.cli.completing import studies
from spectui.cli.options import add_options, search_options
from spectui.cli.options_common import BACKEND, ISOLATE, PARALLEL, SERVER_BIN, STORAGE, YES
from spectui.cli.values import DURATION, WholeNumber

_WORKER = (
    STORAGE,
    click.option(
        "--group",
        metavar="NAME",
        help="Keep trials of other hardware in a study of their own, STUDY/NAME.",
    ),
    click.option(
        "--trials", type=WholeNumber(min=1), metavar="N", help="Measure N trials at most."
    ),
    click.option(
        "--time-budget",
        type=DURATION,
        metavar="TIME",
        help="Wait for the study, and begin trials, no longer than that: 90s, 30m, 2h.",
    ),
)


_EXAMPLES = (
    ("Measure beside the tune of a study", "spectui worker STUDY"),
    (
        "With models that lie elsewhere on this machine",
        "spectui worker STUDY -m /models/target.gguf -md /models/draft.gguf",
    ),
)


@click.command(name="worker", cls=Repeatable, examples=_EXAMPLES)
@click.argument("study", shell_complete=studies)
@add_options(*_WORKER)
@search_options
@add_options(YES, ISOLATE, *BACKEND, SERVER_BIN, PARALLEL)
def command(**options: Any) -> None:
    """Measure trials of STUDY beside the spectui tune that works on it.

    Repeats the options that the study was begun with; those given here take their place, such as
    paths of the models on this machine. Machine, engine, models, placement and prompts have to be
    the same, for trials to be comparable; another machine's stay beside (--group). Waits for a
    study that has not begun, and ends with it; Ctrl-C gives the present trial back.
    """
    from spectui.cli.run_worker import work

    work(options)
