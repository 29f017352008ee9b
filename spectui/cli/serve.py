"""``spectui serve``: the screen in a browser of this machine."""

import click

from spectui.cli.help import Command
from spectui.cli.values import Value
from spectui.options.option import Whole

_MOST_PORT = 65535


@click.command(
    name="serve",
    cls=Command,
    examples=(
        ("The demo models", "spectui serve --demo"),
        ("A pair, on another port", "spectui serve --port 9000 -m target.gguf -md draft.gguf"),
    ),
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--port",
    type=Value(Whole(0, _MOST_PORT)),
    default=8765,
    show_default=True,
    metavar="N",
    help="On 127.0.0.1; 0 for a free one.",
)
@click.argument("screen", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF THE SCREEN]...")
def command(port: int, screen: tuple[str, ...]) -> None:
    """Show the screen in a browser.

    Prints an address with a token; who has it has the screen, and with it your models. Only this
    machine can reach it: from another one, ssh -L 8765:127.0.0.1:8765 HOST makes a tunnel. Each
    page has a spectui of its own, which ends with the page; chats are kept as everywhere.

    What follows are the screen's own options: spectui serve --demo.
    """
    from spectui.cli.run_serve import serve

    serve(port, screen)
