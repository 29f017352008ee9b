"""The left list: what can be started, and how far the searches for models are."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from textual.widgets.option_list import Option

from spectui.commands.sources.processes import RunningServer
from spectui.demo import DemoModel
from spectui.display import visible
from spectui.format import bytes_text, counted
from spectui.live.sessions import Session
from spectui.models.files import FoundModel
from spectui.presets import Preset
from spectui.tui.picker.list import (
    Cell,
    Entry,
    PickerList,
    Row,
    heading,
    note,
    short_folder,
)

_SIZE_CELLS, _LABEL_CELLS, _FOLDER_CELLS = 8, 18, 16
_PROSE_CELLS, _SAID_CELLS = 48, 20
_PROCESS_CELLS = 15
_PORT = "8080"
"""Where llama-server listens if its command does not say."""
_DAY = "%m-%d %H:%M"
"""Format that is as wide as its output."""
OPEN_FOLDER, PASTE = "open a folder", "paste a command"
"""Values of the rows that ask for one."""


Section = tuple[str, list[tuple[str, Entry]]]
"""A title and its rows, each with the text that a filter looks at."""


def sections_above(
    running: Sequence[RunningServer], recent: Sequence[Session]
) -> Iterator[Section]:
    """Entries above the models that are found: in use now, or used last."""
    yield "Running llama-server", [_running_entry(server) for server in running]
    yield "Last used", [_recent_entry(one, index) for index, one in enumerate(recent)]


def sections_below(presets: Sequence[Preset]) -> Iterator[Section]:
    """Entries below the user's own models: other things that can be started."""
    command = "llama-server's, with Ctrl+Shift+V in most terminals: its models and options"
    demo = "SmolLM2-135M and a target made from it"
    yield (
        "Or begin with",
        [
            _entry(PASTE, "Paste a command", command),
            *(_entry(preset, preset.name, preset.description) for preset in presets),
            _entry(DemoModel.DENSE, "Demo pair", demo),
        ],
    )


def _entry(value: object, name: str, about: str) -> tuple[str, Entry]:
    cells = (Cell(about, _PROSE_CELLS, share=4, is_prose=True),)
    row = Row(name, cells)
    return f"{name} {about}", Entry(value, row, f"{type(value).__name__} {name}", about)


def _running_entry(server: RunningServer) -> tuple[str, Entry]:
    command = server.command
    if command is None:
        target, draft, port, about = "not readable", "", "", f"{server.problem}."
    else:
        target = Path(command.value("model") or "no file of a target").stem
        drafts = command.value("model-draft")
        draft = f"with {Path(drafts).stem}" if drafts else "alone"
        port = command.value("port") or _PORT
        about = (
            "Takes over its models and options, to chat with them and to tune them here. Both need "
            f"memory meanwhile. To watch it instead: spectui attach http://127.0.0.1:{port}"
        )
    cells = (
        Cell(draft, _LABEL_CELLS, share=1),
        Cell(f"process {server.pid}", _PROCESS_CELLS),
        Cell(f"port {port}" if port else "", _PROCESS_CELLS),
    )
    row = Row(target, cells, style="" if command else "dim")
    entry = Entry(server, row, f"running {server.pid}", about)
    return f"{target} {draft} {server.pid}", entry


def _recent_entry(session: Session, index: int) -> tuple[str, Entry]:
    header, prompts = session.header, session.prompts
    draft = f"with {Path(header.draft).stem}" if header.draft else "alone"
    said = prompts[0].strip().partition("\n")[0] if prompts else ""
    when = header.started.astimezone()
    cells = (
        Cell(draft, _LABEL_CELLS, share=1),
        Cell(said, _SAID_CELLS, share=2, is_prose=True),
        Cell(when.strftime(_DAY), len(_DAY)),
    )
    row = Row(Path(header.target).stem, cells)
    about = f"{when:%Y-%m-%d %H:%M}, {counted(len(prompts), 'turn')}. "
    about += "Starts this pair again and takes the chat up."
    entry = Entry(session, row, f"recent {index}", about)
    return f"{header.target} {header.draft or ''} {said}", entry


def model_entry(model: FoundModel) -> Entry:
    """Row of a model that was found."""
    is_unfit = bool(model.missing)
    label, size = "incomplete" if is_unfit else model.label, bytes_text(model.size_bytes)
    cells = _model_cells(size, label, short_folder(model.path.parent))
    row = Row(model.name, cells, style="dim" if is_unfit else "")
    return Entry(model, row, str(model.path))


def _model_cells(size: str, label: str, folder: str) -> tuple[Cell, ...]:
    return (
        Cell(size, _SIZE_CELLS, to_right=True),
        Cell(label, _LABEL_CELLS),
        Cell(folder, _FOLDER_CELLS, share=1),
    )


def searched_text(model: FoundModel) -> str:
    """Text that a filter looks at."""
    return f"{model.name} {model.path.parent}"


class TargetList(PickerList):
    """Last used pairs, the models found so far, presets and the demo pair."""

    def __init__(self, recent: Sequence[Session], presets: Sequence[Preset]) -> None:
        """Offer these; models come one by one."""
        super().__init__(id="targets", markup=False)
        self._recent = tuple(recent)
        self._presets = tuple(presets)
        self._servers: tuple[RunningServer, ...] = ()
        self._folders: tuple[Path, ...] = ()
        self._models: dict[Path, FoundModel] = {}
        self._words: tuple[str, ...] = ()
        self._reasons: tuple[str, ...] = ()
        self._is_complete = False
        self._is_stale = False
        """Whether models were found that are not shown yet."""

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
        if not self._is_stale:
            # Once, however many are found until then.
            self._is_stale = True
            self.call_later(self._show_found)
        return True

    def _show_found(self) -> None:
        """Show what was found. The first row stays the highlighted one."""
        self._is_stale = False
        is_first = self.entries[:1] == [self.entry]
        self.show_rows(self._rows(), None if is_first else self.key)

    def show_running(self, running: Sequence[RunningServer]) -> None:
        """Offer what these llama-servers run. The first row stays the highlighted one."""
        self._servers = tuple(running)
        if self.is_mounted and self._servers:
            self._show_found()

    def show_recent(self, recent: Sequence[Session]) -> None:
        """Offer other pairs as the last used ones. The first row stays the highlighted one."""
        if tuple(recent) == self._recent:
            return
        self._recent = tuple(recent)
        if self.is_mounted:
            self._show_found()

    def complete(self, reasons: Sequence[str], folders: Sequence[Path]) -> None:
        """Say that all ``folders`` were searched, and what could not be read."""
        self._is_complete = True
        self._reasons += tuple(reason for reason in reasons if reason not in self._reasons)
        self._folders = tuple(folders)
        if self.is_mounted:
            self._show_found()

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
        yield from self._matching(sections_above(self._servers, self._recent))
        titles = _model_cells("size", "parameters, quant", "folder")
        yield heading("Models found", titles)
        shown = [model for model in self.models if self._matches(searched_text(model))]
        yield from (model_entry(model) for model in shown)
        if self._is_complete and not shown:
            yield note(self._none_shown())
        row = Row("Open a folder…")
        yield Entry(OPEN_FOLDER, row, "folder", "Looks for GGUF files in a folder of your choice.")
        yield from self._matching(sections_below(self._presets))
        if self._is_complete and self._reasons:
            yield heading("Could not be looked at", ())
            yield from (note(visible(reason)) for reason in self._reasons)

    def _matching(self, sections: Iterable[Section]) -> Iterator[Option]:
        for title, entries in sections:
            matching = [entry for text, entry in entries if self._matches(text)]
            if matching:
                yield heading(title, ())
                yield from matching

    def _none_shown(self) -> str:
        if self._models:
            return "No model's name or folder contains this. Escape shows all again."
        return self._where()

    def _where(self) -> str:
        if not self._folders:
            return (
                "No GGUF file was found: none of the folders exists in which models usually "
                "lie. Open the folder of yours, or take the demo pair."
            )
        places = ", ".join(visible(short_folder(folder)) for folder in self._folders)
        return (
            f"No GGUF file was found. Looked in {places}. "
            "Open the folder of yours, or take the demo pair."
        )


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
        """Folder that the dialog begins in."""
        if self._opened is not None:
            return self._opened
        try:
            return Path.cwd()
        except OSError:
            # It was removed.
            return Path(os.path.expanduser("~"))  # noqa: PTH111 - there may be no home

    def arrival(self, models: Sequence[FoundModel]) -> FoundModel | None:
        """Return the first model of the folder opened last, once, when there is one."""
        first = self._first_of_opened(models) if self._is_awaited else None
        self._is_awaited = self._is_awaited and first is None
        return first

    def _first_of_opened(self, models: Sequence[FoundModel]) -> FoundModel | None:
        if self._opened is None:
            return None
        return next((m for m in models if m.path.is_relative_to(self._opened)), None)

    def status(self, models: Sequence[FoundModel]) -> str:
        """Say how many there are, and whether there may be more."""
        found = counted(len(models), "model")
        if self._n_running > 0:
            return f"looking… {found}"
        if self._opened is not None and self._first_of_opened(models) is None:
            return f"no GGUF file in {visible(short_folder(self._opened))}"
        return found
