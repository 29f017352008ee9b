"""Runs ``spectui attach`` with parsed options: the screen, or the state as a document."""

from dataclasses import replace

from spectui.cli.attach import JSON_S, SCREEN_S, Attach
from spectui.cli.output import check_writable, write_document
from spectui.cli.run_cockpit import default_launch, show
from spectui.cli.running_server import api_key_from_environment, look, unlocked
from spectui.errors import UsageError
from spectui.server.address import parse_address
from spectui.server.watch.document import attach_document
from spectui.server.watch.poller import Attachment

_SHORTEST_S = 0.1


def attach(request: Attach) -> None:
    """Watch a server, or write its present state.

    Raises:
        UsageError: the address is none, or that of a router, or there is no terminal for the
            screen; or options contradict each other.
        ServerError: with ``--json``, the server tells nothing.
    """
    json_path, interval_s = request.json_path, request.interval_s
    if json_path is not None and request.theme is not None:
        raise UsageError("--theme is for the screen; leave it out, or leave out --json")
    if json_path is None and interval_s is not None and interval_s < _SHORTEST_S:
        raise UsageError(f"--interval {interval_s:g} is too short; give {_SHORTEST_S} or more")
    if interval_s is None:
        interval_s = SCREEN_S if json_path is None else JSON_S
    address, api_key = parse_address(request.address), api_key_from_environment()
    attachment = Attachment(address=address, api_key=api_key)
    if json_path is not None:
        check_writable(json_path, ())
        state = look(attachment, interval_s)
        write_document(attach_document(state, interval_s=interval_s), json_path)
        return
    launch = replace(
        default_launch(),
        watched=unlocked(attachment),
        look_s=interval_s,
        theme=request.theme,
        ascii=request.ascii,
    )
    show(launch, instead="run spectui attach in one, or give --json - in scripts")
