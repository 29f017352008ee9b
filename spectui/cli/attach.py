"""``spectui attach``: the live panels over a llama-server that is already running."""

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.options import ASCII, THEME, json_option
from spectui.options.option import Decimal

SCREEN_S, JSON_S = 0.5, 1.0
"""From one look to the next where nothing else is said."""
_EXAMPLES = (
    ("Watch a server of this machine", "spectui attach localhost:8080"),
    ("What it tells now, for a script", "spectui attach localhost:8080 --json -"),
)


@request
class Attach:
    """Watch the llama-server at ADDRESS: host:port, http://host:port or https://host/path.

    Shows its slots, tokens per second, acceptance by position, model and settings, and the
    readings of GPU and host if it runs on this machine. It says most with --metrics. It is only
    asked, never changed; its API key is taken from SPECTUI_API_KEY or LLAMA_API_KEY.
    """

    address: str = argument()
    interval_s: float | None = option(
        "--interval",
        type=Decimal(0, 3600),
        metavar="SECONDS",
        help=f"From one look to the next (default: {SCREEN_S}); with --json between its two "
        f"looks, from which rates follow (default: {JSON_S:g}), 0 for a single look.",
    )
    json_path: str | None = json_option(
        "Write what the server tells now as JSON, and end; - for stdout."
    )
    theme: str | None = THEME
    ascii: bool = ASCII


command = request_command(Attach, "attach", "run_attach:attach", examples=_EXAMPLES)
