"""The form of a search: its prompts, and the time that it may take."""

import os.path
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.message import Message
from textual.reactive import var
from textual.widgets import Input, Label, Static

from spectui.format import duration_text
from spectui.tui import draw
from spectui.tui.widgets import ChoiceRow


class PromptSource(StrEnum):
    """Source of the prompts that a search decodes."""

    BUILTIN = "built-in"
    FILES = "files"
    CHAT = "this chat"
    CHATS = "exported chats"

    @property
    def has_path(self) -> bool:
        """Whether the prompts are files."""
        return self in {PromptSource.FILES, PromptSource.CHATS}


MAX_MINUTES = 10_000
_SOURCES = tuple(PromptSource)
_PLACEHOLDERS = {
    PromptSource.FILES: "a .jsonl, .json, .csv, .txt, or a folder of them; arrows leave",
    PromptSource.CHATS: "an export of chats with this model, or a folder; arrows leave",
}
_MINUTES_HINT = "at most; the verdict is then of what was measured"
_LEAST_TEXTS = 4
"""Times that the target's text of the recording has to fit in: written, recorded, and a race."""
_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Contents of the form, right or wrong."""

    source: PromptSource = PromptSource.BUILTIN
    path: str = ""
    minutes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search that was asked for."""

    source: PromptSource = PromptSource.BUILTIN
    path: Path | None = None
    """Path of the prompts, where they are files."""
    time_budget_s: float | None = None
    """None for as long as it takes."""


def _minutes_problem(minutes: str) -> str | None:
    """The error in the minutes; None if there is none."""
    try:
        is_right = not minutes or 1 <= float(minutes) <= MAX_MINUTES
    except ValueError:
        is_right = False
    return None if is_right else f"Minutes must be 1 to {MAX_MINUTES}, or nothing for no limit."


class PathInput(Input):
    """Path of the files. While it is empty, the arrows still choose between the sources."""

    class Left(Message):
        """The user goes on to another source."""

        def __init__(self, by: int) -> None:
            """Tell whether it is the next one or the one before."""
            super().__init__()
            self.by = by

    def action_cursor_left(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - as in Input
        """Go left, or to the source before."""
        if self.value:
            super().action_cursor_left(select)
        else:
            self.post_message(self.Left(-1))

    def action_cursor_right(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - as in Input
        """Go right, or to the next source."""
        if self.value:
            super().action_cursor_right(select)
        else:
            self.post_message(self.Left(1))


class TuneSetup(Vertical):
    """The form; what is wrong with it stands under it."""

    n_chat_turns: var[int | None] = var(None)
    """Turns that could be tuned on; None if that is not known."""
    text_s: var[float | None] = var(None, init=False)
    """Seconds in which the target writes the text of a recording; None if that is not known."""

    def __init__(self, filled: Filled) -> None:
        """Begin with what is ``filled`` in already."""
        super().__init__()
        self._begin_with = filled
        self.sources = ChoiceRow(
            "prompts",
            tuple(map(str, _SOURCES)),
            index=_SOURCES.index(filled.source),
            id="sources",
        )

    def compose(self) -> ComposeResult:
        """Sources, the path that one of them needs, minutes."""
        yield self.sources
        with Horizontal(id="path-row"):
            yield Label("path")
            yield PathInput(
                self._begin_with.path,
                placeholder=_PLACEHOLDERS[PromptSource.FILES],
                id="path",
                compact=True,
            )
        with Horizontal():
            yield Label("minutes")
            yield Input(
                self._begin_with.minutes,
                id="minutes",
                type="number",
                compact=True,
                # A digit that was typed elsewhere is the first one, not to be typed over.
                select_on_focus=False,
                placeholder="no limit",
                max_length=len(str(MAX_MINUTES)),
            )
            yield Label(_MINUTES_HINT, classes="hint", id="minutes-hint")
        yield Static(id="problem", markup=False)

    def on_mount(self) -> None:
        """The path belongs to one source."""
        self._on_source()

    @property
    def source(self) -> PromptSource:
        """The chosen source of prompts."""
        return _SOURCES[self.sources.index]

    @property
    def filled(self) -> Filled:
        """Present contents of the form."""
        return Filled(
            source=self.source,
            path=self._path.value,
            minutes=self.query_one("#minutes", Input).value.strip(),
        )

    def read(self) -> Wanted | None:
        """Return the wanted search; None if it cannot be, and then say why."""
        filled = self.filled
        source = filled.source
        # Not Path.expanduser and Path.exists: those raise for some paths that cannot be.
        path = os.path.expanduser(filled.path.strip())  # noqa: PTH111
        problem = self._problem(source, path) or _minutes_problem(filled.minutes)
        self.tell(problem)
        if problem is not None:
            return None
        return Wanted(
            source=source,
            path=Path(path) if source.has_path else None,
            time_budget_s=float(filled.minutes) * _MINUTE_S if filled.minutes else None,
        )

    def _problem(self, source: PromptSource, path: str) -> str | None:
        if source is PromptSource.CHAT and self.n_chat_turns == 0:
            return "This chat has no turns yet; say something first, or choose other prompts."
        if source.has_path and not path:
            return f"Which files? Give the path of {_PLACEHOLDERS[source].partition(';')[0]}."
        if source.has_path and not os.path.exists(path):  # noqa: PTH110
            return "There is nothing at this path; correct it, or choose other prompts."
        return None

    def watch_text_s(self) -> None:
        """Say whether there is time for a verdict."""
        self._hint()

    def begin(self) -> None:
        """Give the keys to what is to be filled in: a path where the prompts are files."""
        if self.source.has_path:
            self._path.focus()
        else:
            self.sources.focus()

    @property
    def _path(self) -> PathInput:
        return self.query_one(PathInput)

    def tell(self, problem: str | None) -> None:
        """Say what is wrong; None for nothing."""
        line = self.query_one("#problem", Static)
        line.update("" if problem is None else draw.one_line(f"▲ {problem}"))
        line.display = problem is not None

    @on(ChoiceRow.Changed)
    def _on_source(self) -> None:
        is_being_chosen = self.sources.has_focus or self._path.has_focus
        self.query_one("#path-row").display = self.source.has_path
        self._path.placeholder = _PLACEHOLDERS.get(self.source, "")
        self.tell(None)
        if is_being_chosen:
            self.begin()

    @on(Input.Changed)
    def _forget_problem(self) -> None:
        self.tell(None)

    @on(Input.Changed, "#minutes")
    def _hint(self) -> None:
        hint, minutes = _MINUTES_HINT, self.filled.minutes
        if self.text_s is not None and minutes and _minutes_problem(minutes) is None:
            least_s = _LEAST_TEXTS * self.text_s
            if float(minutes) * _MINUTE_S < least_s:
                hint = f"too few for a verdict, which takes some {duration_text(least_s)} here"
        self.query_one("#minutes-hint", Label).update(hint)

    def on_key(self, event: Key) -> None:
        """A digit is meant for the minutes, the next field, where it chooses no source."""
        digit = event.character
        if self.sources.has_focus and digit is not None and digit.isdecimal():
            event.stop()
            event.prevent_default()
            minutes = self.query_one("#minutes", Input)
            minutes.focus()
            minutes.insert_text_at_cursor(digit)

    @on(PathInput.Left)
    def _on_left(self, message: PathInput.Left) -> None:
        self.sources.action_move(message.by)
