"""How far the searches for models are, and where they look."""

import os
from collections.abc import Sequence
from pathlib import Path

from spectui.models.files import FoundModel
from spectui.models.sizes import counted
from spectui.tui.glyphs import Glyphs
from spectui.tui.widgets.picker_text import short_folder, visible


class Scans:
    """Counts the searches: one of the usual folders, one of each folder that is opened."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Begin with the search of ``folders`` under way."""
        self.folders = list(folders)
        self._opened: Path | None = None
        self._is_awaited = False
        self._n_running = 1

    def open(self, folder: Path) -> None:
        """Note that ``folder`` is searched, too."""
        self.folders.append(folder)
        self._opened = folder
        self._is_awaited = True
        self._n_running += 1

    def finish(self) -> None:
        """Note that one search has ended."""
        self._n_running -= 1

    def start_folder(self) -> Path:
        """Where to begin asking for a folder."""
        return self._opened or Path(os.path.expanduser("~"))  # noqa: PTH111 - there may be no home

    def arrival(self, models: Sequence[FoundModel]) -> FoundModel | None:
        """Return the first model of the folder opened last, once, when there is one."""
        first = self._first_of_opened(models) if self._is_awaited else None
        self._is_awaited = self._is_awaited and first is None
        return first

    def _first_of_opened(self, models: Sequence[FoundModel]) -> FoundModel | None:
        if self._opened is None:
            return None
        return next((m for m in models if m.path.is_relative_to(self._opened)), None)

    def status(self, models: Sequence[FoundModel], glyphs: Glyphs) -> str:
        """Say how many there are, and whether there may be more."""
        found = counted(len(models), "model")
        if self._n_running > 0:
            return f"looking{glyphs.ellipsis} {found}"
        if self._opened is not None and self._first_of_opened(models) is None:
            return f"no GGUF file in {visible(short_folder(self._opened), glyphs)}"
        return found
