"""The dialog that asks for a folder: typed, completed, or walked through."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static

from spectui.display import visible
from spectui.gguf_names import SUFFIX
from spectui.models.files import is_pseudo
from spectui.tui.picker.list import Entry, PickerList, Row, note
from spectui.tui.widgets import KeyBar, key

_MAX_SHOWN = 200


class FolderScreen(ModalScreen[Path | None]):
    """Ends with an existing folder, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("tab", "folder.complete", "Complete", "Complete with the first folder of the list"),
        key(
            "down",
            "folder.list",
            "Folders",
            "Go to the list of folders",
            action="to_list",
            display="down",
        ),
        key("escape", "folder.cancel", "Cancel", "Close without a folder"),
    ]

    def __init__(self, start: Path) -> None:
        """Begin in ``start``."""
        super().__init__()
        self._start = start

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical():
            yield Static("Look for GGUF files in a folder and all below it", markup=False)
            yield Input(_typed(self._start), compact=True, select_on_focus=False, id="folder-path")
            yield PickerList(id="folder-list", markup=False)
            yield Static("", id="folder-error", markup=False)
            with Horizontal():
                yield Button("Open", variant="primary", compact=True, id="folder-open")
                yield Button("Cancel", compact=True, id="folder-cancel")
        yield KeyBar()

    def on_mount(self) -> None:
        """Let the user type at once."""
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _follow(self, event: Input.Changed) -> None:
        self._show_error("")
        self._list_folders(event.value)

    @work(exclusive=True)
    async def _list_folders(self, typed: str) -> None:
        # A folder on a sleeping disk or a dead network mount takes its time.
        names = await asyncio.to_thread(_sub_folders, typed)
        rows = [Entry(path, Row(name), name) for name, path in names]
        # None is there any more if the dialog was closed meanwhile.
        for folders in self.query(PickerList):
            folders.show_rows(rows or [note("No folder below this one.")], None)

    @on(OptionList.OptionSelected)
    def _go_into(self, event: OptionList.OptionSelected) -> None:
        if isinstance(event.option, Entry) and isinstance(event.option.value, str):
            self._type(event.option.value)

    def _type(self, path: str) -> None:
        field = self.query_one(Input)
        field.value = path
        field.cursor_position = len(path)
        field.focus()

    @on(Input.Submitted)
    @on(Button.Pressed, "#folder-open")
    @work(exclusive=True, group="open")
    async def _open(self) -> None:
        typed = self.query_one(Input).value
        folder, error = await asyncio.to_thread(_checked, typed)
        if not (self.is_current and self.is_attached):
            return  # closed meanwhile
        if folder is None:
            self._show_error(visible(error))
        else:
            self.dismiss(folder)

    def _show_error(self, sentence: str) -> None:
        self.query_one("#folder-error", Static).update(sentence)

    def action_complete(self) -> None:
        """Complete what is typed with the first sub-folder of the list; else go on to the list."""
        entries = self.query_one(PickerList).entries
        if isinstance(self.focused, Input) and entries and isinstance(entries[0].value, str):
            self._type(entries[0].value)
        else:
            self.focus_next()

    def action_to_list(self) -> None:
        """Go to the list of sub-folders."""
        self.query_one(PickerList).focus()

    @on(Button.Pressed, "#folder-cancel")
    def action_cancel(self) -> None:
        """Close without a folder."""
        self.dismiss(None)


def _typed(folder: Path) -> str:
    return str(folder).rstrip("/") + "/"


def _sub_folders(typed: str) -> list[tuple[str, str]]:
    """Names and paths of the folders that complete ``typed``."""
    parent, prefix = os.path.split(os.path.expanduser(typed))  # noqa: PTH111 - may have no home
    return sorted(_matching(parent or ".", prefix))[:_MAX_SHOWN]


def _matching(parent: str, prefix: str) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(parent) as entries:
            for entry in entries:
                if _completes(entry.name, prefix) and entry.is_dir():
                    yield entry.name, f"{parent.rstrip('/')}/{entry.name}/"
    except OSError:
        # Opening it says why.
        return


def _completes(name: str, prefix: str) -> bool:
    is_hidden = name.startswith(".") and not prefix.startswith(".")
    # A name that cannot be typed cannot be opened by typing it.
    return name.startswith(prefix) and not is_hidden and name.isprintable()


def _checked(typed: str) -> tuple[Path | None, str]:
    """Return the folder that was typed, or a sentence about why there is none."""
    text = typed.strip()
    if not text:
        return None, "Type the folder that holds your models"
    path = Path(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - as above
    try:
        if path.is_file() and path.suffix.lower() == SUFFIX:
            return path.parent, ""
        if is_pseudo(path):
            return None, f"{path} holds no files; give the folder that holds your models"
        with os.scandir(path):
            return path, ""
    except NotADirectoryError:
        return None, f"{path} is a file, not a folder; give the folder that holds your models"
    except ValueError:
        return None, "This is no path; give the folder that holds your models"
    except OSError as error:
        return None, f"{path} cannot be opened ({error.strerror}); give another folder"
