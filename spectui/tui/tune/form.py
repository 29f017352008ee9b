"""The form of a search: its prompts, the time that it may take, and depths."""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click, Key
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from spectui.format import duration_text
from spectui.options.option import INT_MAX
from spectui.tui import draw
from spectui.tui.tune.controller import PromptSource
from spectui.tui.widgets import hidden

MAX_MINUTES = 10_000
_MARK = "(x) "
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
    depths: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search that was asked for."""

    source: PromptSource = PromptSource.BUILTIN
    path: Path | None = None
    """Path of the prompts, where they are files."""
    time_budget_s: float | None = None
    """None for as long as it takes."""
    depths: tuple[int, ...] = ()
    """Lengths of prompts to measure the best setting at."""


def _minutes_problem(minutes: str) -> str | None:
    """The error in the minutes; None if there is none."""
    try:
        is_right = not minutes or 1 <= float(minutes) <= MAX_MINUTES
    except ValueError:
        is_right = False
    return None if is_right else f"Minutes must be 1 to {MAX_MINUTES}, or nothing for no limit."


def _depth_problem(depths: Sequence[str]) -> str | None:
    """The error in the depths; None if there is none."""
    if all(depth.isascii() and depth.isdecimal() and int(depth) <= INT_MAX for depth in depths):
        return None
    return "Depths are numbers of tokens with commas between them, such as 0,4096,16384."


class SourceChoice(Widget, can_focus=True):
    """One of the sources of prompts."""

    class Typed(Message):
        """A digit was typed, which chooses no source."""

        def __init__(self, digit: str) -> None:
            """Tell which one."""
            super().__init__()
            self.digit = digit

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("left", "tune.previous_source", "Previous source", action="step(-1)"),
        hidden("right", "tune.next_source", "Next source", action="step(1)"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"source--chosen"}
    source: reactive[PromptSource] = reactive(PromptSource.BUILTIN)

    def render(self) -> Text:
        """All sources, the chosen one marked."""
        chosen = self.get_component_rich_style("source--chosen")
        mark = "•"
        parts = [
            Text(f"({mark}) {source}", chosen) if source is self.source else Text(f"( ) {source}")
            for source in PromptSource
        ]
        return Text("   ").join(parts)

    def action_step(self, n: int) -> None:
        """Choose the next source, or the one before."""
        sources = list(PromptSource)
        self.source = sources[(sources.index(self.source) + n) % len(sources)]

    def on_key(self, event: Key) -> None:
        """A number is meant for the minutes, the next field."""
        if event.character is not None and event.character.isdecimal():
            event.stop()
            event.prevent_default()
            self.post_message(self.Typed(event.character))

    def on_click(self, event: Click) -> None:
        """Choose what was clicked."""
        offset, x = event.get_content_offset(self), 0
        for source in PromptSource:
            x += len(_MARK) + len(source) + 3
            if offset is not None and offset.x < x:
                self.source = source
                return


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

    n_chat_turns: int | None = None
    """Turns that could be tuned on; None if that is not known."""

    def __init__(self, filled: Filled) -> None:
        """Begin with what is ``filled`` in already."""
        super().__init__()
        self._begin_with = filled
        self._text_s: float | None = None

    def compose(self) -> ComposeResult:
        """Sources, the path that one of them needs, minutes, depths."""
        with Horizontal():
            yield Label("prompts")
            yield SourceChoice()
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
        with Horizontal():
            yield Label("depths")
            yield Input(
                self._begin_with.depths,
                id="depths",
                compact=True,
                placeholder="none",
            )
            yield Label("tokens before the answer, such as 0,4096,16384", classes="hint")
        yield Static(id="problem", markup=False)

    def on_mount(self) -> None:
        """The path belongs to one source."""
        self.query_one(SourceChoice).source = self._begin_with.source
        self.watch(self.query_one(SourceChoice), "source", self._on_source)

    @property
    def filled(self) -> Filled:
        """Present contents of the form."""
        return Filled(
            source=self.query_one(SourceChoice).source,
            path=self._path.value,
            minutes=self.query_one("#minutes", Input).value.strip(),
            depths=self.query_one("#depths", Input).value,
        )

    def read(self) -> Wanted | None:
        """Return the wanted search; None if it cannot be, and then say why."""
        filled = self.filled
        source = filled.source
        # Not Path.expanduser and Path.exists: those raise for some paths that cannot be.
        path = os.path.expanduser(filled.path.strip())  # noqa: PTH111
        depths = filled.depths.replace(",", " ").split()
        problem = (
            self._problem(source, path)
            or _minutes_problem(filled.minutes)
            or _depth_problem(depths)
        )
        self._tell(problem)
        if problem is not None:
            return None
        return Wanted(
            source=source,
            path=Path(path) if source.has_path else None,
            time_budget_s=float(filled.minutes) * _MINUTE_S if filled.minutes else None,
            depths=tuple(dict.fromkeys(map(int, depths))),
        )

    def _problem(self, source: PromptSource, path: str) -> str | None:
        if source is PromptSource.CHAT and self.n_chat_turns == 0:
            return "This chat has no turns yet; say something first, or choose other prompts."
        if source.has_path and not path:
            return f"Which files? Give the path of {_PLACEHOLDERS[source].partition(';')[0]}."
        if source.has_path and not os.path.exists(path):  # noqa: PTH110
            return "There is nothing at this path; correct it, or choose other prompts."
        return None

    def show_text_s(self, seconds: float | None) -> None:
        """Say whether there is time for a verdict.

        Args:
            seconds: in which the target writes the text of a recording; None if not known.
        """
        self._text_s = seconds
        self._hint()

    def refuse(self, reason: str) -> None:
        """Say why nothing was started."""
        self._tell(reason)

    def begin(self) -> None:
        """Give the keys to what is to be filled in: a path where the prompts are files."""
        choice = self.query_one(SourceChoice)
        if choice.source.has_path:
            self._path.focus()
        else:
            choice.focus()

    @property
    def _path(self) -> PathInput:
        return self.query_one(PathInput)

    def _tell(self, problem: str | None) -> None:
        line = self.query_one("#problem", Static)
        line.update("" if problem is None else draw.one_line(f"▲ {problem}"))
        line.display = problem is not None

    def _on_source(self, source: PromptSource) -> None:
        is_being_chosen = self.query_one(SourceChoice).has_focus or self._path.has_focus
        self.query_one("#path-row").display = source.has_path
        self._path.placeholder = _PLACEHOLDERS.get(source, "")
        self._tell(None)
        if is_being_chosen:
            self.begin()

    @on(Input.Changed)
    def _forget_problem(self) -> None:
        self._tell(None)

    @on(Input.Changed, "#minutes")
    def _hint(self) -> None:
        hint, minutes = _MINUTES_HINT, self.filled.minutes
        if self._text_s is not None and minutes and _minutes_problem(minutes) is None:
            least_s = _LEAST_TEXTS * self._text_s
            if float(minutes) * _MINUTE_S < least_s:
                hint = f"too few for a verdict, which takes some {duration_text(least_s)} here"
        self.query_one("#minutes-hint", Label).update(hint)

    @on(SourceChoice.Typed)
    def _on_digit(self, message: SourceChoice.Typed) -> None:
        minutes = self.query_one("#minutes", Input)
        minutes.focus()
        minutes.insert_text_at_cursor(message.digit)

    @on(PathInput.Left)
    def _on_left(self, message: PathInput.Left) -> None:
        self.query_one(SourceChoice).action_step(message.by)

    @on(Input.Changed, "#path")
    def _on_path(self) -> None:
        self._tell(None)
