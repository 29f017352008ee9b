"""``spectui studies``: what tuning has kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from spectui.cli.click_options import argument, option, request_command
from spectui.cli.completing import studies
from spectui.cli.help import Group
from spectui.cli.options_common import STORAGE, json_option

_EXAMPLES = (
    ("What was tuned", "spectui studies list"),
    ("The latest verdict again", "spectui studies show"),
    ("Take a study to another machine", "spectui studies export STUDY study.json"),
)


_FILE = argument(type=click.Path(path_type=Path))


@click.group(name="studies", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """List, show, move and delete the studies that tuning keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """List all studies, the latest first: state, trials, verdict, model."""

    storage: Annotated[str | None, STORAGE] = None
    json_path: Annotated[str | None, json_option()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Print again what tune printed in the end of STUDY.

    STUDY is a name, or a part of one; the latest study without it. Of a study that ended early, its
    trials.
    """

    study: Annotated[str | None, argument(shell_complete=studies)] = None
    storage: Annotated[str | None, STORAGE] = None
    json_path: Annotated[
        str | None, json_option("Write the document that tune writes with --json; - for stdout.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Write STUDY to FILE, which may not exist: all trials, and what was found.

    It says where your models and prompts are.
    """

    study: Annotated[str, argument(shell_complete=studies)]
    file: Annotated[Path, _FILE]
    storage: Annotated[str | None, STORAGE] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Store the study that FILE holds, which studies export wrote."""

    file: Annotated[Path, _FILE]
    name: Annotated[
        str | None,
        option("--as", metavar="NAME", help="Name of the study (default: that in FILE)."),
    ] = None
    storage: Annotated[str | None, STORAGE] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete each STUDY, by its whole name, with its trials and its verdict."""

    studies: Annotated[
        tuple[str, ...],
        argument(nargs=-1, required=True, metavar="STUDY...", shell_complete=studies),
    ]
    yes: Annotated[bool, option("--yes", is_flag=True, help="Do not ask.")] = False
    storage: Annotated[str | None, STORAGE] = None


command.add_command(request_command(List, "list", "run_studies:list_all"))
command.add_command(request_command(Show, "show", "run_studies:show"))
command.add_command(request_command(Export, "export", "run_studies:export"))
command.add_command(request_command(Import, "import", "run_studies:import_"))
command.add_command(request_command(Delete, "delete", "run_studies:delete"))
