"""``spectui verify``: compares a promised speedup with the one that llama-server delivers."""

from typing import Any

import click

from spectui.cli.completing import files, studies
from spectui.cli.drafting import DRAFTING
from spectui.cli.given import Given
from spectui.cli.help import Command
from spectui.cli.options import add_options, shared_options
from spectui.cli.options_common import STORAGE, TIMEOUT
from spectui.cli.values import Value
from spectui.options.option import Whole

_VERIFY = (
    click.option(
        "--server-bin",
        metavar="PATH",
        shell_complete=files,
        help="Your llama-server (default: one that is found).",
    ),
    STORAGE,
    click.option(
        "--repeats",
        type=Value(Whole(1)),
        default=1,
        show_default=True,
        metavar="N",
        help="Send every prompt N times.",
    ),
    click.option(
        "--no-promise",
        is_flag=True,
        help="Without a study: do not measure first what is promised.",
    ),
    click.option(
        "--keep-both/--one-at-a-time",
        "keeps_both",
        default=None,
        help=(
            "Let the servers with and without speculation run beside each other, or end one "
            "before the other starts (default: both, where memory has room)."
        ),
    ),
    TIMEOUT,
)


_EXAMPLES = (
    ("What the latest tune promised", "spectui verify --server-bin ./llama-server"),
    (
        "A setting, measured with spectui's own engine first",
        "spectui verify -m target.gguf -md draft.gguf --server-bin ./llama-server",
    ),
)


@click.command(name="verify", cls=Command, examples=_EXAMPLES)
@click.argument("study", required=False, shell_complete=studies)
@add_options(*_VERIFY)
@shared_options
@add_options(*DRAFTING)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    study: str | None,
    **parsed: Any,
) -> None:
    """Run your own llama-server with and without the flags, and compare with the promise.

    STUDY is a name of what spectui tune has found, or a part of one; without it, the latest with a
    verdict. With models (-m, --demo, --preset, --from) and a setting as spectui bench takes it, the
    promise is measured first. Prompts go to both servers, whose own timings and counters tell what
    was delivered.
    """
    from spectui.cli.run_verify import run

    run(Given.of(ctx, parsed), study)
