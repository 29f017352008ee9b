"""``spectui serve``: the screen in a browser of this machine."""

import click

from spectui.cli.click_options import argument, option, request, request_command
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


command = request_command(Serve, "serve", "run_serve:serve", examples=_EXAMPLES)
command.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
