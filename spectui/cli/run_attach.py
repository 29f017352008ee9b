"""Runs ``spectui attach`` with parsed options: the screen, or the state as a document."""

import asyncio
import os
from collections.abc import Callable

from spectui.cli.attach import JSON_S, SCREEN_S, Attach
from spectui.cli.guard import MakeApp, show_screen, writable_log
from spectui.cli.output import check_writable, write_document
from spectui.errors import ServerError, UsageError
from spectui.server.address import parse_address
from spectui.server.watch.document import attach_document
from spectui.server.watch.poller import Attachment, ask
from spectui.server.watch.sample import API_KEY_VARIABLES, Failure
from spectui.server.watch.tracker import AttachState, Tracker
from spectui.settings import read_settings

_SHORTEST_S = 0.1


def attach(request: Attach) -> None:
    """Watch a server, or write its present state.

    Raises:
        UsageError: the address or the API key is none, or there is no terminal for the screen; or
            options contradict each other.
        ServerError: with ``--json``, the server tells nothing.
    """
    json_path, interval_s = request.json_path, request.interval_s
    if json_path is not None and request.theme is not None:
        raise UsageError("--theme is for the screen; leave it out, or leave out --json")
    if json_path is None and interval_s is not None and interval_s < _SHORTEST_S:
        raise UsageError(f"--interval {interval_s:g} is too short; give {_SHORTEST_S} or more")
    if interval_s is None:
        interval_s = SCREEN_S if json_path is None else JSON_S
    attachment = Attachment(address=parse_address(request.address), api_key=_api_key())
    if json_path is None:
        _show(attachment, interval_s, request)
        return
    check_writable(json_path, ())
    state = _look(attachment, interval_s)
    write_document(attach_document(state, interval_s=interval_s), json_path)


def _api_key() -> str | None:
    """The server's API key, from the environment; None if there is none.

    Raises:
        UsageError: it holds what no HTTP header can carry.
    """
    for name in API_KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"{name} is no API key: it holds characters that no HTTP header can carry; set it "
                "to the key alone"
            )
        if key:
            return key
    return None


def _look(attachment: Attachment, interval_s: float) -> AttachState:
    """Ask the server twice, or once without an interval; return its state.

    Raises:
        ServerError: the server tells nothing.
    """
    tracker = Tracker(attachment.address.url)
    for sample in asyncio.run(ask(attachment, interval_s)):
        if isinstance(sample, Failure):
            raise ServerError(sample.reason)
        tracker.add(sample)
    return tracker.state


def _show(attachment: Attachment, interval_s: float, request: Attach) -> None:
    """Show the screen until the user quits.

    Raises:
        UsageError: there is no terminal.
    """
    settings = read_settings()

    def load() -> MakeApp:
        from spectui.tui.attach import AttachApp, AttachLaunch

        launch = AttachLaunch(
            attachment=attachment,
            interval_s=interval_s,
            settings=settings,
            theme=request.theme,
            ascii=request.ascii,
        )

        def make(_log_file: int) -> tuple[AttachApp, Callable[[], None]]:
            app = AttachApp(launch)
            return app, app.close

        return make

    instead = "run spectui attach in one, or give --json - in scripts"
    show_screen(load, writable_log(), instead=instead)
