"""Where results go: stdout, or a JSON file."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from spectui.errors import BadInputError


def write_result(document: dict[str, Any], text: str, json_path: str | None) -> None:
    """Print ``text`` on stdout, and write ``document`` where ``--json`` says.

    ``--json -`` prints the document and nothing else.

    Raises:
        BadInputError: the file cannot be written; the text has been printed.
    """
    if json_path == "-":
        click.echo(_encode(document))
        return
    click.echo(text)
    if json_path is None:
        return
    try:
        Path(json_path).write_text(_encode(document) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInputError(
            f"{json_path} cannot be written ({error.strerror}); the result is printed above; "
            "give another --json FILE next time"
        ) from error


def check_writable(json_path: str | None, inputs: Sequence[Path | None]) -> None:
    """Find out before an hour of measuring whether its result can be written.

    Args:
        json_path: of ``--json``.
        inputs: files of the user's that must not be overwritten.

    Raises:
        BadInputError: the folder does not exist or is read-only, or the path is a folder or an
            input.
    """
    if json_path is None or json_path == "-":
        return
    path = Path(json_path).absolute()
    if any(given is not None and path.resolve() == given.resolve() for given in inputs):
        raise BadInputError(f"{json_path} is an input of this run; give --json another file")
    place = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(place, os.W_OK):
        raise BadInputError(f"{json_path} cannot be written; give a file in a writable folder")


def _encode(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, allow_nan=False)
