"""``spectui studies``: what tuning has kept."""

from pathlib import Path

import click

from spectui.cli.click_options import argument, option, request, request_command, switch
from spectui.cli.help import Group
from spectui.cli.options import STORAGE, json_option
from spectui.options.option import Form

_EXAMPLES = (
    ("What was tuned", "spectui studies list"),
    ("The latest verdict again", "spectui studies show"),
    ("Take a study to another machine", "spectui studies export STUDY study.json"),
)


_FILE = argument(type=Form.FILE)


@click.group(name="studies", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """List, show, move and delete the studies that tuning keeps."""


@request
class List:
    """List all studies, the latest first: state, trials, verdict, model."""

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
class Export:
    """Write STUDY to FILE, which may not exist: all trials, and what was found.

    It says where your models and prompts are.
    """

    study: str = argument()
    file: Path = _FILE
    storage: str | None = STORAGE


@request
class Import:
    """Store the study that FILE holds, which studies export wrote."""

    file: Path = _FILE
    name: str | None = option(
        "--as", metavar="NAME", help="Name of the study (default: that in FILE)."
    )
    storage: str | None = STORAGE


@request
class Delete:
    """Delete each STUDY, by its whole name, with its trials and its verdict."""

    studies: tuple[str, ...] = argument(nargs=-1, required=True, metavar="STUDY...")
    yes: bool = switch("--yes", help="Do not ask.")
    storage: str | None = STORAGE


command.add_command(request_command(List, "list", "run_studies:list_all"))
command.add_command(request_command(Show, "show", "run_studies:show"))
command.add_command(request_command(Export, "export", "run_studies:export"))
command.add_command(request_command(Import, "import", "run_studies:import_"))
command.add_command(request_command(Delete, "delete", "run_studies:delete"))
