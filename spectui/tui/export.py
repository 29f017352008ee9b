"""The flags for the user's own llama-server: live settings, what tuning found, and off."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Static, Tabs, TextArea

from spectui.commands.command import Start
from spectui.commands.formats import Format, render
from spectui.commands.home import shell_words
from spectui.commands.launch import ExportSetup, Launch, commented, slug
from spectui.display import displayed
from spectui.errors import BadInputError
from spectui.files import write_new_file
from spectui.live.setup import LiveSetup
from spectui.options.option import Dialect
from spectui.options.speculation import Speculation
from spectui.tui import draw
from spectui.tui.widgets import KeyBar, chosen_tab, key
from spectui.tune.race import finalist

if TYPE_CHECKING:
    from spectui.tune.progress import TuningState

_DIALECTS = tuple(Dialect)

ExportChoices = dict[str, tuple[ExportSetup, str]]
"""Settings to export and a sentence about each, by a few words such as ``draft off``."""


class _Command(TextArea):
    """The text, which can be scrolled and selected."""

    def on_unmount(self) -> None:
        """Let go of the app: Textual's keeps whoever watches its theme until that changes."""
        watchers = getattr(self.app, "__watchers", {}).get("theme", [])
        watchers[:] = [each for each in watchers if each[0] is not self]


class ExportScreen(Screen[None]):
    """Shows the command of one setting in one dialect; copies it or saves it."""

    TITLE = "Export"
    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "c",
            "export.copy",
            "Copy",
            "Copy the text with the terminal's clipboard, which works over ssh too",
        ),
        key("s", "export.save", "Save", "Save the text to a new file in this folder"),
        key("escape", "export.back", "Back", "Close the export", action="dismiss"),
    ]

    def __init__(self, choices: ExportChoices) -> None:
        """Offer ``choices``, at least one; the first is shown."""
        super().__init__()
        self._choices = choices
        self.text: str | None = None
        """The exported text; None where the dialect has no words for it."""
        self._problem = ""
        """Why the dialect has no words for it."""

    def compose(self) -> ComposeResult:
        """Setting and dialect, then the text."""
        yield Tabs(*self._choices, id="choice")
        yield Tabs(*map(str, _DIALECTS), id="dialect")
        yield Static(id="note", markup=False)
        yield _Command(read_only=True, soft_wrap=True, show_line_numbers=False)
        yield Static(id="problem", markup=False)
        yield KeyBar()

    @on(Tabs.TabActivated)
    def _show(self) -> None:
        setup, note = self._choice
        try:
            launch = setup.launch(_DIALECTS[chosen_tab(self.query_one("#dialect", Tabs))])
            self.text, self._problem = render(launch, Format.LLAMA_SERVER), ""
            laid_out = _laid_out(launch)
        except BadInputError as error:
            self.text, self._problem, laid_out = None, str(error), ""
        self.query_one(TextArea).load_text(displayed(laid_out))
        self.query_one("#problem", Static).update(draw.one_line(f"▲ {self._problem}"))
        self.query_one("#note", Static).update(draw.one_line(note))
        self.set_class(self.text is None, "-failed")

    @property
    def _choice(self) -> tuple[ExportSetup, str]:
        return list(self._choices.values())[chosen_tab(self.query_one("#choice", Tabs))]

    def action_copy(self) -> None:
        """Hand the text to the terminal (OSC 52)."""
        if self.text is None:
            self._tell(self._problem, severity="warning")
        else:
            # A line end would start a pasted command before its reader has seen it.
            self.app.copy_to_clipboard(self.text.rstrip("\n"))
            self._tell("Copied, if your terminal allows it (OSC 52).")

    def action_save(self) -> None:
        """Write the text to a file that is not there yet."""
        if self.text is None:
            self._tell(self._problem, severity="warning")
            return
        path = Path.cwd() / f"{slug(self._choice[0].name)}.sh"
        try:
            write_new_file(path, self.text.encode())
        except FileExistsError:
            self._tell(f"{path} exists already; move it away, then save again.", severity="warning")
        except OSError as error:
            reason = f"{path} cannot be written ({error.strerror})"
            self._tell(f"{reason}; start spectui in another folder.", severity="warning")
        else:
            self._tell(f"Saved to {path}")

    def _tell(self, text: str, *, severity: SeverityLevel = "information") -> None:
        self.notify(draw.one_line(text), severity=severity, markup=False)


def _laid_out(launch: Launch) -> str:
    """The command with an option on each line, to be read; a shell takes it as well."""
    command = launch.command
    words = [command.start.text, *(" ".join(shell_words((item,))) for item in command.items)]
    # The program stands beside its first option.
    lines = [" ".join(words[:2]), *words[2:]]
    return commented(launch.comments) + " \\\n  ".join(lines)


def export_choices(setup: LiveSetup, state: "TuningState | None") -> ExportChoices:
    """Return the settings that can be exported, the most useful first."""
    taken = setup.taken

    def export(speculation: Speculation | None) -> ExportSetup:
        return setup.converted(
            ExportSetup,
            speculation=replace(setup, speculation=speculation).drafting,
            extra=setup.extra if taken is None else taken.kept,
            given=None if taken is None else taken.given,
            start=Start() if taken is None else taken.start,
            name=setup.target.path.stem,
        )

    found = None if state is None else _found(state)
    note = "As the chat runs now; nothing was measured for this choice."
    if found is not None and found[0] == setup.drafting:
        note = "As the chat runs now, with the setting that tuning found."
    live, off = (export(setup.speculation), note), (export(None), "The target alone.")
    if found is None:
        return {"live settings": live, "draft off": off}
    speculation, evidence, is_confirmed = found
    advised = export(speculation), evidence
    if is_confirmed:
        return {"found by tuning": advised, "live settings": live, "draft off": off}
    # What is not confirmed does not come first.
    return {"live settings": live, "best so far": advised, "draft off": off}


def _found(state: "TuningState") -> tuple[Speculation | None, str, bool] | None:
    """Return what tuning advises, the evidence, and whether that is a verdict.

    None before any measurement or forecast.
    """
    result, best = state.result, state.confirmed
    if result is not None and best is not None:
        advised = best.speculation if result.verdict.use_speculation else None
        return advised, result.verdict.reason, True
    arm = finalist(state.records, state.forecasts)
    if arm is None:
        return None
    return arm.speculation, "The best so far; whether it pays is not confirmed.", False
