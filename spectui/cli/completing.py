"""Values that the shell can complete: files, presets, studies, grids.

Every press of the key starts the program: nothing here may load what takes long.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PATIENCE_S = 0.2
"""Time for which a storage that is being written is waited for."""


def files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem[Any]]":
    """Files, for a value that may be a path; the shell finds them."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def presets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of presets."""
    from spectui.presets import preset_names

    return _beginning(preset_names(), incomplete)


def grids(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of grids."""
    from spectui.sweep.grid import grid_names

    return _beginning(grid_names(), incomplete)


def studies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the studies in spectui's own file, the latest first.

    Optuna, which could tell of every storage, takes long to load.
    """
    import sqlite3

    from spectui.paths import own_storage_file

    try:
        address = f"{own_storage_file().absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, timeout=_PATIENCE_S, uri=True)) as storage:
            rows = storage.execute("SELECT study_name FROM studies ORDER BY study_id DESC")
            return _beginning((str(name) for (name,) in rows), incomplete)
    except sqlite3.Error:
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
