"""``spectui attach``: the live panels over a llama-server that is already running."""

import click

from spectui.cli.help import Command
from spectui.cli.options import add_options
from spectui.cli.options_common import LOOK, json_option
from spectui.cli.values import Value
from spectui.options.option import Decimal

_SCREEN_S = 0.5
_JSON_S = 1.0
_SHORTEST_S = 0.1


_EXAMPLES = (
    ("Watch a server of this machine", "spectui attach localhost:8080"),
    ("What it tells now, for a script", "spectui attach localhost:8080 --json -"),
)


@click.command(name="attach", cls=Command, examples=_EXAMPLES)
@click.argument("address")
@click.option(
    "--interval",
    "interval_s",
    type=Value(Decimal(0, 3600)),
    metavar="SECONDS",
    help=(
        f"From one look to the next (default: {_SCREEN_S}); with --json between its two looks, "
        f"from which rates follow (default: {_JSON_S:g}), 0 for a single look."
    ),
)
@json_option("Write what the server tells now as JSON, and end; - for stdout.")
@click.option("--model", metavar="NAME", help="Of a router: which of its models to watch.")
@add_options(*LOOK)
def command(
    *,
    address: str,
    interval_s: float | None,
    json_path: str | None,
    model: str | None,
    theme: str | None,
    ascii: bool,  # noqa: A002 - the option's name
) -> None:
    """Watch the llama-server at ADDRESS: host:port, http://host:port or https://host/path.

    Shows its slots, tokens per second, acceptance by position, model and settings, and the
    readings of GPU and host if it runs on this machine. It says most with --metrics. It is only
    asked, never changed; its API key is taken from SPECTUI_API_KEY or LLAMA_API_KEY, or asked for.
    """
    from spectui.cli.run_attach import attach
    from spectui.errors import UsageError

    if json_path is not None and theme is not None:
        raise UsageError("--theme is for the screen; leave it out, or leave out --json")
    if json_path is None and interval_s is not None and interval_s < _SHORTEST_S:
        raise UsageError(f"--interval {interval_s:g} is too short; give {_SHORTEST_S} or more")
    default_s = _SCREEN_S if json_path is None else _JSON_S
    attach(
        address,
        model=model,
        interval_s=default_s if interval_s is None else interval_s,
        json_path=json_path,
        theme=theme,
        ascii=ascii,
    )
