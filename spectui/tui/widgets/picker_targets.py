"""The left list: what can be started."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from textual.widgets.option_list import Option

from spectui.models.files import FoundModel
from spectui.presets import Preset
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.widgets.picker_choices import RecentPair
from spectui.tui.widgets.picker_entries import (
    fixed_sections,
    model_entry,
    models_heading,
    searched_text,
)
from spectui.tui.widgets.picker_list import Entry, PickerList, heading, note
from spectui.tui.widgets.picker_rows import Row
from spectui.tui.widgets.picker_text import short_folder, visible

OPEN_FOLDER = "open a folder"
"""Value of the row that asks for one."""


class TargetList(PickerList):
    """Last used pairs, presets, the demo pair, and the models found so far."""

    def __init__(self, recent: Sequence[RecentPair], presets: Sequence[Preset]) -> None:
        """Offer these; models come one by one."""
        super().__init__(id="targets", markup=False)
        self._recent = tuple(recent)
        self._presets = tuple(presets)
        self._folders: tuple[Path, ...] = ()
        self._models: dict[Path, FoundModel] = {}
        self._words: tuple[str, ...] = ()
        self._reasons: tuple[str, ...] = ()
        self._is_complete = False

    def on_mount(self) -> None:
        """Show what is known without looking for it."""
        self._rebuild()

    @property
    def models(self) -> Sequence[FoundModel]:
        """All models found so far, whatever the filter hides."""
        return tuple(self._models.values())

    def add(self, model: FoundModel) -> bool:
        """Add a model; False if it was there already."""
        if model.path in self._models:
            return False
        self._models[model.path] = model
        if not self.is_mounted:
            # Shown with the rest when it is.
            return True
        if self._is_complete:
            # Notes stand behind the models.
            self._rebuild()
        elif self._matches(searched_text(model)):
            self.add_option(model_entry(model, glyphs_of(self)))
        return True

    def show_recent(self, recent: Sequence[RecentPair]) -> None:
        """Offer other pairs as the last used ones. The first row stays the highlighted one."""
        if tuple(recent) == self._recent:
            return
        is_first = self.entries[:1] == [self.entry]
        self._recent = tuple(recent)
        if self.is_mounted:
            self.show_rows(self._rows(), None if is_first else self.key)

    def complete(self, reasons: Sequence[str], folders: Sequence[Path]) -> None:
        """Say that all ``folders`` were searched, and what could not be read."""
        self._is_complete = True
        self._reasons += tuple(reason for reason in reasons if reason not in self._reasons)
        self._folders = tuple(folders)
        if self.is_mounted:
            self._rebuild()

    def filter(self, text: str) -> None:
        """Show only rows that contain every word of ``text``."""
        self._words = tuple(text.casefold().split())
        self._rebuild()

    def highlight_model(self, path: Path) -> None:
        """Move to a model, if it is shown."""
        if any(entry.id == str(path) for entry in self.entries):
            self.highlighted = self.get_option_index(str(path))

    def _matches(self, text: str) -> bool:
        return all(word in text.casefold() for word in self._words)

    def _rebuild(self) -> None:
        self.show_rows(self._rows(), self.key)

    def _rows(self) -> Iterator[Option]:
        glyphs = glyphs_of(self)
        for title, entries in fixed_sections(self._recent, self._presets, glyphs):
            matching = [entry for text, entry in entries if self._matches(text)]
            if matching:
                yield heading(title, (), glyphs)
                yield from matching
        yield models_heading(glyphs)
        row = Row(f"Open a folder{glyphs.ellipsis}", ellipsis=glyphs.ellipsis)
        yield Entry(OPEN_FOLDER, row, "folder", "Looks for GGUF files in a folder of your choice.")
        shown = [model for model in self.models if self._matches(searched_text(model))]
        yield from (model_entry(model, glyphs) for model in shown)
        if self._is_complete:
            yield from self._notes(is_empty=not shown, glyphs=glyphs)

    def _notes(self, *, is_empty: bool, glyphs: Glyphs) -> Iterator[Option]:
        if is_empty and self._models:
            yield note("No model's name or folder contains this. Escape shows all again.")
        elif is_empty:
            yield note(self._where(glyphs))
        if self._reasons:
            yield heading("Could not be looked at", (), glyphs)
            yield from (note(visible(reason, glyphs)) for reason in self._reasons)

    def _where(self, glyphs: Glyphs) -> str:
        if not self._folders:
            return (
                "No GGUF file was found: none of the folders exists in which models usually "
                "lie. Open the folder of yours, or take the demo pair."
            )
        places = ", ".join(visible(short_folder(folder), glyphs) for folder in self._folders)
        return (
            f"No GGUF file was found. Looked in {places}. "
            "Open the folder of yours, or take the demo pair."
        )
