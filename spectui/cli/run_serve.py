"""Runs ``spectui serve``."""

import asyncio
import socket
import sys

import click

from spectui.cli.cockpit import command as cockpit
from spectui.cli.output import complain, say_exactly
from spectui.cli.serve import Serve
from spectui.errors import UsageError

_EXTRA = "run in spectui's folder: pip install '.[serve]'"


def serve(request: Serve) -> None:
    """Serve the screen until an interrupt.

    Raises:
        UsageError: the port is taken, textual-serve is not installed, or an option is none of the
            screen's.
    """
    port, screen = request.port, request.screen
    try:
        from aiohttp import web

        from spectui.browser.server import HOST, ScreenServer
    except ImportError as error:
        raise UsageError(
            f"spectui serve needs {error.name}, which is not installed; {_EXTRA}"
        ) from error
    if screen and not screen[0].startswith("-"):
        raise UsageError(
            f"spectui serve shows the screen alone, and {screen[0]} is no option of it"
        )
    # Options that the screen refuses are refused here, before a page is opened.
    cockpit.make_context("spectui", [*screen])
    with socket.socket() as listening:
        # A page that was just closed keeps its port for a minute.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"--port {port}: {error.strerror}; name another one, or 0 for a free one"
            ) from error
        server = ScreenServer(
            [sys.executable, "-m", "spectui", *screen], port=listening.getsockname()[1]
        )
        complain("open this address in a browser of this machine; Ctrl-C ends it")
        say_exactly(server.address)
        try:
            web.run_app(
                server.application(), sock=listening, print=None, loop=asyncio.new_event_loop()
            )
        except KeyboardInterrupt:
            raise click.Abort from None
