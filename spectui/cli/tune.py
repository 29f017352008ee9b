"""``spectui tune``: finds the best setting, and decides whether it is worth using."""

from typing import Any

import click

from spectui.cli.click_options import Repeatable
from spectui.cli.completing import files, studies
from spectui.cli.given import Given
from spectui.cli.options import add_options, search_options
from spectui.cli.options_common import BACKEND, CHATS, PARALLEL, REQUEST, STORAGE, YES
from spectui.cli.values import DURATION, ListOf, Value
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.options.option import Decimal, Whole

_TUNE = (
    click.option(
        "--trials",
        type=Value(Whole(1)),
        metavar="N",
        help=(
            "Time N settings in trials before the best is confirmed, those of a resumed study "
            "included (default: none where they are forecast; else 50)."
        ),
    ),
    click.option(
        "--time-budget",
        type=DURATION,
        metavar="TIME",
        help=(
            "Stop trying in time to confirm the best by then, from when the models are loaded: "
            "90s, 30m, 2h, with the unit. The prompt at work is finished, and the first ones that "
            "confirm it may take half the time again."
        ),
    ),
    click.option(
        "--study",
        metavar="NAME",
        shell_complete=studies,
        help="Name of the study (default: made from the run).",
    ),
    STORAGE,
    click.option(
        "--repeats",
        type=Value(Whole(1)),
        default=1,
        show_default=True,
        metavar="N",
        help="Confirm the best N times on every prompt.",
    ),
    click.option("--resume", is_flag=True, help="Refuse to start a new study."),
    click.option(
        "--tune",
        "tuned",
        metavar="LIST",
        default=",".join([*(number.name for number in numbers_of(DraftSimple)), "ahead"]),
        show_default=True,
        help=(
            "Parameters to vary, or all; the others stay as the command or llama-server has them, "
            "and the draft is a choice wherever there are several. threads, threads_batch, "
            "ubatch_size, split_mode, n_cpu_moe (layers with their experts in RAM) and "
            "moe_cache_mib (a cache of these on a GPU) are searched first, without a draft; "
            "n_cpu_moe leaves room for each draft as well."
        ),
    ),
    click.option(
        "--min-gain",
        type=Value(Decimal(0)),
        default=0.02,
        show_default=True,
        metavar="SHARE",
        help="Least gain that makes speculation worth it.",
    ),
    click.option(
        "--until",
        type=click.Choice(["decided", "precise"]),
        default="decided",
        show_default=True,
        help=(
            "End once the answer is decided (a gain also known within ±7 %, or after as long "
            "again), or with the time budget and the prompts, for a narrower interval."
        ),
    ),
    REQUEST,
    click.option(
        "--depth",
        "depths",
        type=ListOf(Value(Whole(0))),
        default=(),
        metavar="N,...",
        help=(
            "In the end, measure the best behind prompts of N tokens, made of all prompts; 0 is "
            "for the prompts as they are. Says up to which depth it pays."
        ),
    ),
    click.option(
        "--dialect",
        type=click.Choice(["llama.cpp", "llama.cpp-legacy", "ik"]),
        default="llama.cpp",
        show_default=True,
        help="Whose option names the printed command uses.",
    ),
    click.option(
        "--server-bin",
        metavar="PATH",
        shell_complete=files,
        help=(
            "In the end, measure the best on your own llama-server as spectui verify does, which "
            "takes as long as confirming it, and a quarter of --time-budget; where its ranking is "
            "another one, it counts. With --backend server, the one that measures everything."
        ),
    ),
    click.option(
        "--pin",
        is_flag=True,
        help="Write the layers and experts that --fit has chosen, not leave them to the server.",
    ),
)


_EXAMPLES = (
    (
        "See what the answer looks like, on the demo models, in four minutes",
        "spectui tune --demo --time-budget 4m",
    ),
    (
        "Compare two drafts, with the experts in RAM",
        "spectui tune -m target.gguf -md small.gguf -md tiny.gguf --cpu-moe",
    ),
    (
        "Improve a command that you have, and confirm it on your llama-server",
        "spectui tune --from serve.sh --server-bin ./llama-server",
    ),
)


@click.command(name="tune", cls=Repeatable, examples=_EXAMPLES)
@search_options
@add_options(CHATS, YES, *_TUNE, *BACKEND, PARALLEL)
@click.pass_context
def command(context: click.Context, /, **_options: Any) -> None:
    """Find the fastest draft and settings on this machine, and say whether they pay.

    Records a few prompts once and replays every setting on them, then measures the best against the
    target alone on other prompts. Ends with the verdict, why it is so, and a llama-server command.
    Ctrl-C keeps what was measured; the same command goes on from there. With --backend server your
    own llama-server measures: it shows what each draft length accepts and costs, and where it
    cannot, settings are tried one by one, and each starts a server; with -np it searches with as
    many streams at once as the first number says, and measures the best with the others.
    """
    from spectui.cli.run_tune import tune

    tune(Given.of(context))
