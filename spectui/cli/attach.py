"""``spectui attach``: panels over a llama-server that is already running."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.options import json_option
from spectui.cli.output import check_writable, write_document
from spectui.errors import ServerError, UsageError
from spectui.options.option import Decimal

if TYPE_CHECKING:
    from spectui.server.watch.locator import Address
    from spectui.server.watch.tracker import AttachState

_SCREEN_S, _JSON_S = 0.5, 1.0
"""From one look to the next where nothing else is said."""
_SHORTEST_S = 0.1
_EXAMPLES = (
    ("Watch a server of this machine", "spectui attach localhost:8080"),
    ("What it tells now, for a script", "spectui attach localhost:8080 --json -"),
)


@request
class Attach:
    """Watch the llama-server at ADDRESS: host:port, http://host:port or https://host/path.

    Shows its slots, tokens per second, acceptance by position, model and settings. It says most
    with --metrics. It is only asked, never changed; its API key is taken from SPECTUI_API_KEY or
    LLAMA_API_KEY. If it runs on this machine, F5 loads what it runs, to tune it.
    """

    address: str = argument()
    interval_s: float | None = option(
        "--interval",
        type=Decimal(0, 3600),
        metavar="SECONDS",
        help=f"From one look to the next (default: {_SCREEN_S}); with --json between its two "
        f"looks, from which rates follow (default: {_JSON_S:g}), 0 for a single look.",
    )
    json_path: str | None = json_option(
        "Write what the server tells now as JSON, and end; - for stdout."
    )


command = request_command(Attach, "attach", "attach:attach", examples=_EXAMPLES)


def attach(request: Attach) -> None:
    """Watch a server, or write its present state.

    Raises:
        UsageError: the address is none, or there is no terminal for the screen.
        ServerError: with ``--json``, the server tells nothing.
    """
    from spectui.server.watch.locator import parse_address

    json_path, interval_s = request.json_path, request.interval_s
    if json_path is None and interval_s is not None and interval_s < _SHORTEST_S:
        raise UsageError(f"--interval {interval_s:g} is too short; give {_SHORTEST_S} or more")
    if interval_s is None:
        interval_s = _SCREEN_S if json_path is None else _JSON_S
    address = parse_address(request.address, _api_key())
    if json_path is None:
        from spectui.cli.cockpit import default_launch, show

        launch = replace(default_launch(), watched=address, look_s=interval_s)
        show(launch, instead="run spectui attach in one, or give --json - in scripts")
        return
    from spectui.server.watch.tracker import attach_document

    check_writable(json_path, ())
    state = _look(address, interval_s)
    write_document(attach_document(state, interval_s=interval_s), json_path)


def _api_key() -> str | None:
    """The key of the environment; None if there is none.

    Raises:
        UsageError: it holds what no HTTP header can carry.
    """
    from spectui.server.watch.sample import API_KEY_VARIABLES

    for name in API_KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if not key.isascii() or not key.isprintable():
            raise UsageError(
                f"{name} is no API key: it holds characters that no HTTP header can carry; set it "
                "to the key alone"
            )
        if key:
            return key
    return None


def _look(address: "Address", interval_s: float) -> "AttachState":
    """Ask the server twice, or once without an interval; return its state.

    Raises:
        ServerError: the server tells nothing.
    """
    import asyncio

    from spectui.server.watch.poller import ask
    from spectui.server.watch.sample import Failure
    from spectui.server.watch.tracker import Tracker

    tracker = Tracker(address.url)
    for sample in asyncio.run(ask(address, interval_s)):
        if isinstance(sample, Failure):
            raise ServerError(sample.reason)
        tracker.add(sample)
    return tracker.state
