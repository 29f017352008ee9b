"""``spectui verify``: compares a promised speedup with the one that llama-server delivers."""

from dataclasses import dataclass
from typing import Annotated

from spectui.cli.click_options import argument, option, request_command
from spectui.cli.completing import files, studies
from spectui.cli.drafting import DRAFTING
from spectui.cli.given import Given
from spectui.cli.options import OF_ONE_DRAFT
from spectui.cli.options_common import STORAGE, TIMEOUT, repeats_option

_EXAMPLES = (
    ("What the latest tune promised", "spectui verify --server-bin ./llama-server"),
    (
        "A setting, measured with spectui's own engine first",
        "spectui verify -m target.gguf -md draft.gguf --server-bin ./llama-server",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Run your own llama-server with and without the flags, and compare with the promise.

    STUDY is a name of what spectui tune has found, or a part of one; without it, the latest with a
    verdict. With models (-m, --demo, --preset, --from) and a setting as spectui bench takes it, the
    promise is measured first. Prompts go to both servers, whose own timings and counters tell what
    was delivered.
    """

    given: Given
    study: Annotated[str | None, argument(shell_complete=studies)] = None
    server_bin: Annotated[
        str | None,
        option(
            "--server-bin",
            metavar="PATH",
            shell_complete=files,
            help="Your llama-server (default: one that is found).",
        ),
    ] = None
    storage: Annotated[str | None, STORAGE] = None
    repeats: Annotated[int, repeats_option("Send every prompt N times.")] = 1
    no_promise: Annotated[
        bool,
        option(
            "--no-promise",
            is_flag=True,
            help="Without a study: do not measure first what is promised.",
        ),
    ] = False
    keeps_both: Annotated[
        bool | None,
        option(
            "--keep-both/--one-at-a-time",
            help=(
                "Let the servers with and without speculation run beside each other, or end one "
                "before the other starts (default: both, where memory has room)."
            ),
        ),
    ] = None
    timeout: Annotated[float, TIMEOUT]


command = request_command(
    Verify, "verify", "run_verify:run", shared=(*OF_ONE_DRAFT, *DRAFTING), examples=_EXAMPLES
)
