"""``spectui studies``: what tuning has kept."""

import click

from spectui.cli.click_options import argument, request, request_command, switch
from spectui.cli.help import Group
from spectui.cli.options import STORAGE, json_option

_EXAMPLES = (
    ("What was tuned", "spectui studies list"),
    ("The latest verdict again", "spectui studies show"),
)


@click.group(name="studies", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """List, show and delete the studies that tuning keeps."""


@request
class List:
    """List all studies with their verdicts, the latest first."""

    storage: str | None = STORAGE
    json_path: str | None = json_option()


@request
class Show:
    """Print again what tune printed in the end of STUDY.

    STUDY is a name, or a part of one; the latest study without it.
    """

    study: str | None = argument(required=False)
    storage: str | None = STORAGE
    json_path: str | None = json_option(
        "Write the document that tune writes with --json; - for stdout."
    )


@request
class Delete:
    """Delete each STUDY, by its whole name, with its trials and its verdict."""

    studies: tuple[str, ...] = argument(nargs=-1, required=True, metavar="STUDY...")
    yes: bool = switch("--yes", help="Do not ask.")
    storage: str | None = STORAGE


command.add_command(request_command(List, "list", "run_studies:list_all"))
command.add_command(request_command(Show, "show", "run_studies:show"))
command.add_command(request_command(Delete, "delete", "run_studies:delete"))
