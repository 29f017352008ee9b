"""``spectui verify``: compares a promised speedup with the one that llama-server delivers."""

from pathlib import Path

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.options import (
    QUIET,
    STORAGE,
    TIMEOUT,
    YES,
    json_option,
    repeats_option,
    server_bin_option,
)
from spectui.options.option import Form

_EXAMPLES = (("What the latest tune promised", "spectui verify --server-bin ./llama-server"),)


@request
class Verify:
    """Run your own llama-server with and without the flags, and compare with the promise.

    STUDY is a name of what spectui tune has found, or a part of one; without it, the latest with a
    verdict. Prompts go to both servers, whose own timings and counters tell what was delivered.
    """

    study: str | None = argument(required=False)
    server_bin: str | None = server_bin_option("Your llama-server (default: one that is found).")
    storage: str | None = STORAGE
    prompts: Path | None = option(
        "--prompts", type=Form.FILE, help="Other prompts than those of the study."
    )
    repeats: int = repeats_option("Send every prompt N times.")
    timeout: float = TIMEOUT
    yes: bool = YES
    json_path: str | None = json_option()
    quiet: bool = QUIET


command = request_command(Verify, "verify", "run_verify:run", examples=_EXAMPLES)
