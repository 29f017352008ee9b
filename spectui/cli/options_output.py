"""Options for a command's output files and screen."""

import click

from spectui.cli.click_options import Decorator


def json_option(what: str = "Write the result as JSON; - for stdout.") -> Decorator:
    """``--json``, with a description of the document."""
    return click.option(
        "--json", "json_path", type=click.Path(allow_dash=True), metavar="FILE", help=what
    )


QUIET: Decorator = click.option("--quiet", is_flag=True, help="Show no progress.")

LOOK: tuple[Decorator, ...] = (
    click.option("--theme", metavar="NAME", help="Look; the command palette lists them."),
    click.option("--ascii", is_flag=True, help="Draw with ASCII characters only."),
)
