"""``spectui verify``: compares a promised speedup with the one that llama-server delivers."""

from spectui.cli.click_options import argument, request, request_command, switch
from spectui.cli.completion import studies
from spectui.cli.given import Given
from spectui.cli.options import (
    DRAFTING,
    OF_ONE_DRAFT,
    STORAGE,
    TIMEOUT,
    repeats_option,
    server_bin_option,
)

_EXAMPLES = (
    ("What the latest tune promised", "spectui verify --server-bin ./llama-server"),
    (
        "A setting, measured with spectui's own engine first",
        "spectui verify -m target.gguf -md draft.gguf --server-bin ./llama-server",
    ),
)


@request
class Verify:
    """Run your own llama-server with and without the flags, and compare with the promise.

    STUDY is a name of what spectui tune has found, or a part of one; without it, the latest with a
    verdict. With models (-m, --demo, --preset, --from) and a setting as spectui bench takes it, the
    promise is measured first. Prompts go to both servers, whose own timings and counters tell what
    was delivered.
    """

    given: Given
    study: str | None = argument(required=False, shell_complete=studies)
    server_bin: str | None = server_bin_option("Your llama-server (default: one that is found).")
    storage: str | None = STORAGE
    repeats: int = repeats_option("Send every prompt N times.")
    no_promise: bool = switch(
        "--no-promise", help="Without a study: do not measure first what is promised."
    )
    keeps_both: bool | None = switch(
        "--keep-both/--one-at-a-time",
        default=None,
        help=(
            "Let the servers with and without speculation run beside each other, or end one before "
            "the other starts (default: both, where memory has room)."
        ),
    )
    timeout: float = TIMEOUT


command = request_command(
    Verify, "verify", "run_verify:run", shared=(*OF_ONE_DRAFT, *DRAFTING), examples=_EXAMPLES
)
