"""Chooses one of several commands in a file, as ``FILE:NAME`` asks."""

from collections.abc import Iterable
from pathlib import Path

from spectui.errors import BadInputError

_MOST_SHOWN = 8


def chosen(names: Iterable[str], wanted: str | None, path: Path, what: str) -> str:
    """The name that is wanted, or the only one.

    Args:
        names: of what there is to choose from.
        wanted: what stood behind the file's name.
        path: of the file.
        what: they are.

    Raises:
        BadInputError: there is none of that name, none at all, or several and none was named.
    """
    found = list(names)
    if wanted is not None and wanted in found:
        return wanted
    if wanted is not None:
        has = f"; it has {_listed(found)}" if found else ""
        raise BadInputError(f"{path} has no {what} {wanted} that runs llama-server{has}")
    if not found:
        raise BadInputError(f"{path} has no {what} that runs llama-server; give another file")
    if len(found) > 1:
        raise BadInputError(
            f"{path} has {len(found)} {what}s that run llama-server; give one of them as "
            f"{path}:NAME, with {_listed(found)}"
        )
    return found[0]


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
