"""``spectui serve``: the screen in a browser of this machine."""

import asyncio
import socket
import sys

import click

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.output import complain, say_exactly
from spectui.errors import UsageError
from spectui.options.option import Whole

_MOST_PORT = 65535
_EXAMPLES = (
    ("The demo models", "spectui serve --demo"),
    ("A pair, on another port", "spectui serve --port 9000 -m target.gguf -md draft.gguf"),
)


@request
class Serve:
    """Show the screen in a browser.

    Prints an address with a token; who has it has the screen, and with it your models. Only this
    machine can reach it: from another one, ssh -L 8765:127.0.0.1:8765 HOST makes a tunnel. Each
    page has a spectui of its own, which ends with the page; chats are kept as everywhere.

    What follows are the screen's own options: spectui serve --demo.
    """

    port: int = option(
        "--port", default=8765, type=Whole(0, _MOST_PORT), help="On 127.0.0.1; 0 for a free one."
    )
    screen: tuple[str, ...] = argument(
        nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF THE SCREEN]..."
    )


command = request_command(Serve, "serve", "serve:serve", examples=_EXAMPLES)
command.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


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
    from spectui.cli.cockpit import command as cockpit

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
