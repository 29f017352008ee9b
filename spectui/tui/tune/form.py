"""The form of a search: its prompts, and the time that it may take."""

import os.path
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.validation import Number
from textual.widgets import Input, Label, Static, Tabs

from spectui.prompts import builtin_suite
from spectui.tui import draw
from spectui.tui.widgets import chosen_tab


class PromptSource(StrEnum):
    """Source of the prompts that a search decodes."""

    BUILTIN = "built-in"
    FILES = "files"
    EXPORT = "exported chats"
    CHAT = "this chat"


MAX_MINUTES = 10_000
_SOURCES = tuple(PromptSource)
_PLACEHOLDERS = {
    PromptSource.FILES: "a .jsonl, .json, .csv, .txt, or a folder of them",
    PromptSource.EXPORT: "an export of Open WebUI, LM Studio, SillyTavern, llama-server, ...",
}
"""Sources that have a path, and what it leads to."""
_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A search as the form describes it."""

    source: PromptSource = PromptSource.BUILTIN
    path: Path | None = None
    """Path of the prompts, where they are files."""
    time_budget_s: float | None = None
    """None for as long as it takes."""


class TuneSetup(Vertical):
    """The form of a search."""

    def compose(self) -> ComposeResult:
        """Sources, the path that one of them needs, minutes."""
        with Horizontal(id="source-row"):
            yield Label("prompts")
            yield Tabs(*map(str, _SOURCES), id="sources")
        with Horizontal(id="path-row"):
            yield Label("path")
            yield Input(id="path", compact=True)
        yield Static(id="about", markup=False)
        with Horizontal():
            yield Label("minutes")
            yield Input(
                id="minutes",
                type="number",
                compact=True,
                placeholder="no limit",
                validators=[Number(1, MAX_MINUTES)],
                valid_empty=True,
            )
            yield Label("at most; the verdict is then of what was measured", classes="hint")
        yield Static(id="problem", markup=False)

    @property
    def sources(self) -> Tabs:
        """The row of the sources of prompts."""
        return self.query_one("#sources", Tabs)

    @property
    def source(self) -> PromptSource:
        """The chosen source of prompts."""
        return _SOURCES[chosen_tab(self.sources)]

    def read(self) -> Wanted | None:
        """Return the search that the form describes; None if a field is wrong, and show it."""
        source, minutes = self.source, self.query_one("#minutes", Input)
        limit = minutes.validate(minutes.value)
        # Not Path.expanduser and Path.exists: those raise for some paths that cannot be.
        path = os.path.expanduser(self._path.value.strip())  # noqa: PTH111
        problem = None
        if source in _PLACEHOLDERS and not os.path.exists(path):  # noqa: PTH110
            problem = f"There is nothing at this path; give that of {_PLACEHOLDERS[source]}."
            self._path.focus()
        elif limit is not None and not limit.is_valid:
            problem = f"Minutes must be 1 to {MAX_MINUTES}, or nothing for no limit."
        self.tell(problem)
        if problem is not None:
            return None
        return Wanted(
            source=source,
            path=Path(path) if source in _PLACEHOLDERS else None,
            time_budget_s=float(minutes.value) * _MINUTE_S if minutes.value else None,
        )

    def begin(self) -> None:
        """Focus the path where the prompts are files, else the sources."""
        if self.source in _PLACEHOLDERS:
            self._path.focus()
        else:
            self.sources.focus()

    @property
    def _path(self) -> Input:
        return self.query_one("#path", Input)

    def tell(self, problem: str | None) -> None:
        """Show what is wrong with the form; None for nothing."""
        line = self.query_one("#problem", Static)
        line.update("" if problem is None else draw.one_line(f"▲ {problem}"))
        line.display = problem is not None

    @on(Tabs.TabActivated)
    def _on_source(self) -> None:
        about = self.query_one("#about", Static)
        about.update(_about(self.source))
        about.display = self.source not in _PLACEHOLDERS
        self.query_one("#path-row").display = self.source in _PLACEHOLDERS
        self._path.placeholder = _PLACEHOLDERS.get(self.source, "")
        self.tell(None)

    @on(Input.Changed)
    def _forget_problem(self) -> None:
        self.tell(None)


def _about(source: PromptSource) -> str:
    """Describe the prompts of a source without a path."""
    if source is PromptSource.CHAT:
        return "the turns of this chat, each with what was said before it"
    suite = builtin_suite()
    kinds = list(dict.fromkeys(prompt.category for prompt in suite))
    return f"{len(suite)} prompts of {len(kinds)} kinds, from {kinds[0]} to {kinds[-1]}"
