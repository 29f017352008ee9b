"""``spectui studies``: what tuning has kept."""

from pathlib import Path

import click

from spectui.cli import completing
from spectui.cli.help import Group
from spectui.cli.options_common import STORAGE, json_option

_EXAMPLES = (
    ("What was tuned", "spectui studies list"),
    ("The latest verdict again", "spectui studies show"),
    ("Take a study to another machine", "spectui studies export STUDY study.json"),
)


@click.group(name="studies", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """List, show, move and delete the studies that tuning keeps."""


@command.command(name="list")
@STORAGE
@json_option()
def list_(*, storage: str | None, json_path: str | None) -> None:
    """List all studies, the latest first: state, trials, verdict, model."""
    from spectui.cli.run_studies import run_list

    run_list(storage, json_path)


@command.command(name="show")
@click.argument("study", required=False, shell_complete=completing.studies)
@STORAGE
@json_option("Write the document that tune writes with --json; - for stdout.")
def show(*, study: str | None, storage: str | None, json_path: str | None) -> None:
    """Print again what tune printed in the end of STUDY.

    STUDY is a name, or a part of one; the latest study without it. Of a study that ended early, its
    trials.
    """
    from spectui.cli.run_studies import run_show

    run_show(study, storage, json_path)


@command.command(name="export")
@click.argument("study", shell_complete=completing.studies)
@click.argument("file", type=click.Path(path_type=Path))
@STORAGE
def export(*, study: str, file: Path, storage: str | None) -> None:
    """Write STUDY to FILE, which may not exist: all trials, and what was found.

    It says where your models and prompts are.
    """
    from spectui.cli.run_studies import run_export

    run_export(study, file, storage)


@command.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "name", metavar="NAME", help="Name of the study (default: that in FILE).")
@STORAGE
def import_(*, file: Path, name: str | None, storage: str | None) -> None:
    """Store the study that FILE holds, which studies export wrote."""
    from spectui.cli.run_studies import run_import

    run_import(file, name, storage)


@command.command(name="delete")
@click.argument(
    "studies", nargs=-1, required=True, metavar="STUDY...", shell_complete=completing.studies
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@STORAGE
def delete(*, studies: tuple[str, ...], yes: bool, storage: str | None) -> None:
    """Delete each STUDY, by its whole name, with its trials and its verdict."""
    from spectui.cli.run_studies import run_delete

    run_delete(studies, storage, is_sure=yes)
