"""Finds the files that change a systemd unit: ``NAME.service.d/*.conf``, as in systemd.unit(5)."""

from collections.abc import Iterator
from pathlib import Path

from spectui.errors import BadInputError

_FOLDERS = (
    Path("/etc/systemd/system"),
    Path("/run/systemd/system"),
    Path("/usr/local/lib/systemd/system"),
    Path("/usr/lib/systemd/system"),
    Path("/lib/systemd/system"),
)
"""Where systemd looks for units, the first of which counts most."""
_MOST_BYTES = 1 << 20


def drop_ins(path: Path) -> Iterator[str]:
    """Yield their texts in the order in which they count: beside the unit, or where systemd looks.

    Raises:
        BadInputError: one cannot be read.
    """
    folders = _FOLDERS if path.absolute().parent in _FOLDERS else (path.parent,)
    found: dict[str, Path] = {}
    for folder in folders:
        for beside in _folders(path):
            for file in (folder / beside).glob("*.conf"):
                found.setdefault(file.name, file)
    for _name, file in sorted(found.items()):
        try:
            text = file.read_text("utf-8") if file.stat().st_size <= _MOST_BYTES else None
        except (OSError, UnicodeDecodeError):
            text = None
        if text is None:
            raise BadInputError(
                f"{file}, which changes {path.name}, cannot be read; give a unit whose parts are "
                "there"
            )
        yield text


def _folders(path: Path) -> Iterator[str]:
    """Of the unit itself, of its template, of what its name begins with, and of all services."""
    stem, suffix = path.stem, path.suffix
    yield f"{path.name}.d"
    template, at, _instance = stem.partition("@")
    if at:
        yield f"{template}@{suffix}.d"
    parts = stem.split("-")
    for n in range(len(parts) - 1, 0, -1):
        yield f"{'-'.join(parts[:n])}-{suffix}.d"
    yield f"{suffix.removeprefix('.')}.d"
