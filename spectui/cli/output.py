"""Where results go: stdout, or a JSON file."""

import json
from pathlib import Path
from typing import Any

import click

from spectui.errors import BadInputError


def write_result(document: dict[str, Any], text: str, json_path: str | None) -> None:
    """Print ``text`` on stdout, and write ``document`` where ``--json`` says.

    ``--json -`` prints the document and nothing else.

    Raises:
        BadInputError: the file cannot be written.
    """
    encoded = json.dumps(document, indent=2, allow_nan=False)
    if json_path == "-":
        click.echo(encoded)
        return
    if json_path is not None:
        try:
            Path(json_path).write_text(encoded + "\n", encoding="utf-8")
        except OSError as error:
            click.echo(text)
            raise BadInputError(
                f"{json_path} cannot be written ({error.strerror}); give another --json FILE"
            ) from error
    click.echo(text)


def check_writable(json_path: str | None) -> None:
    """Find out before an hour of measuring whether its result can be written.

    Raises:
        BadInputError: the folder does not exist, or the path is a folder.
    """
    if json_path is None or json_path == "-":
        return
    path = Path(json_path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadInputError(f"{json_path} cannot be written; give a file in an existing folder")
