"""What any setting would have done on this session's own answers, at once."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from spectui.live.whatif import WhatIf, WhatIfState
from spectui.options.drafters import MTP_KIND, DraftSimple, Model, with_kind
from spectui.tui.glyphs import ASCII, glyphs_of
from spectui.tui.tune.words import own
from spectui.tui.widgets import whatif_words as words
from spectui.tui.widgets.key_bar import KeyBar
from spectui.tui.widgets.whatif_curve import curve
from spectui.tui.widgets.whatif_numbers import Numbers
from spectui.tui.widgets.whatif_plot import WhatIfPlot
from spectui.tui.widgets.whatif_stepper import Stepper
from spectui.tui.widgets.whatif_steppers import Steppers
from spectui.tui.widgets.whatif_style import CSS

_WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (64, "-narrow"), (110, "-wide")]
_HEIGHTS: list[tuple[int, str]] | None = [(0, "-short"), (22, "-tall")]


class WhatIfScreen(Screen[None]):
    """Give it states with ``show``, and handle what it posts."""

    DEFAULT_CSS = CSS

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a", "apply", "Apply", id="whatif.apply", tooltip="Draft so from the next answer on"
        ),
        Binding("b", "best", "Best", id="whatif.best", tooltip="Go to the best predicted setting"),
        Binding(
            "s",
            "save",
            "Save trace",
            id="whatif.save",
            tooltip="Write the recorded answers as a trace into the data folder",
        ),
        Binding(
            "t",
            "toggle_text",
            "Text",
            id="whatif.text",
            tooltip="Whether a saved trace holds the text",
        ),
        Binding("escape", "back", "Back", id="whatif.back", tooltip="Close the screen"),
        Binding("pageup", "move_page(-1)", "Page up", show=False, id="whatif.page_up"),
        Binding("pagedown", "move_page(1)", "Page down", show=False, id="whatif.page_down"),
    ]
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS
    AUTO_FOCUS = "Stepper"

    class Applied(Message):
        """Use a setting in the chat."""

        def __init__(self, setting: Model) -> None:
            """Ask for it."""
            super().__init__()
            self.setting = setting

    class SaveRequested(Message):
        """Write a trace."""

        def __init__(self, *, keep_text: bool) -> None:
            """Ask for it, with or without its text."""
            super().__init__()
            self.keep_text = keep_text

    def __init__(self, state: WhatIfState) -> None:
        """Begin with ``state``, at the setting that is applied."""
        super().__init__()
        self._state = state
        self._whatif: WhatIf | None = None
        """What is shown; it has replayed the whole space."""
        self._keep_text = False
        """Whether a saved trace holds the text."""

    def compose(self) -> ComposeResult:
        """What it rests on; the setting and its numbers; the curve.

        Where room is short, a line says what it rests on, and the whole of it is the last to be
        scrolled to.
        """
        yield Static(id="heading", markup=False)
        yield Static(id="basis", classes="basis", markup=False)
        with Vertical(id="found"):
            with Horizontal(id="top"):
                yield Steppers(self._state.applied or DraftSimple())
                yield Numbers()
            yield Static(id="counts", markup=False)
            yield Static(id="best", markup=False)
            yield WhatIfPlot()
            yield Static(id="whole", classes="basis", markup=False)
        yield Static(id="empty", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show what there is."""
        self.set_class(glyphs_of(self) is ASCII, "-ascii")
        self._take_up()

    @property
    def setting(self) -> Model:
        """What the steppers say, for who is replayed."""
        is_mtp = self._whatif is not None and self._whatif.is_mtp
        setting = self.query_one(Steppers).setting
        return with_kind(setting, MTP_KIND) if is_mtp else setting

    def show(self, state: WhatIfState) -> None:
        """Show a state. To be called on the app's thread."""
        self._state = state
        if self.is_mounted:
            self._take_up()

    def _take_up(self) -> None:
        """Show the state; what has to be replayed for it first is replayed aside."""
        self.workers.cancel_group(self, "replay")
        fresh = _whatif_of(self._state)
        if fresh is None:
            self._whatif = None
        elif self._whatif is None or not self._whatif.is_like(fresh):
            self._adopt(fresh)
        self._show_all()

    @work(group="state", exclusive=True)
    async def show_made(self, make: Callable[[], WhatIfState]) -> None:
        """Show the state that ``make`` returns; it works aside."""
        self.show(await asyncio.to_thread(make))

    @work(group="replay")
    async def _adopt(self, fresh: WhatIf) -> None:
        """Replay everything aside, then show it."""
        await asyncio.to_thread(fresh.replay_space)
        self._whatif = fresh
        self.query_one(Steppers).longest = fresh.longest
        self._show_all()
        if self.focused is None:
            self.query_one(Stepper).focus()

    def on_steppers_changed(self) -> None:
        """Show the numbers of another setting."""
        self._show_setting()

    def _show_all(self) -> None:
        glyphs, whatif = glyphs_of(self), self._whatif
        reason = own(words.empty(self._state), glyphs)
        self.set_class(whatif is None, "-empty")
        self.set_class(whatif is not None, "-found")
        self.query_one("#empty", Static).update(f"What if\n\n{reason}")
        if whatif is not None:
            self.query_one("#heading", Static).update(words.heading(self._state, whatif))
            for basis in self.query(".basis").results(Static):
                basis.update(own(words.basis(self._state, whatif, glyphs), glyphs))
            best = self.query_one("#best", Static)
            best.update(own(words.best(whatif, glyphs), glyphs))
            best.display = whatif.best is not None
            self._show_setting()
        self.refresh_bindings()

    def _show_setting(self) -> None:
        whatif, wanted = self._whatif, self.setting
        if whatif is None:
            return
        if not whatif.knows(wanted):
            self.query_one(Numbers).show(None)
            self._replay(whatif, wanted)
            return
        total = whatif.at(wanted)
        self.query_one(Numbers).show(total)
        counts = words.counts(total, self._state, glyphs_of(self))
        self.query_one("#counts", Static).update(counts)
        self.query_one(WhatIfPlot).show(curve(whatif.line(wanted), wanted, self._state.measured))

    @work(group="line", exclusive=True)
    async def _replay(self, whatif: WhatIf, wanted: Model) -> None:
        """Replay a line between the steps aside, then show it."""
        await asyncio.to_thread(whatif.line, wanted)
        self._show_setting()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what makes no sense now."""
        del parameters
        if action in {"apply", "best", "save", "toggle_text"}:
            return True if self._whatif is not None else None
        return True

    def action_apply(self) -> None:
        """Use the shown setting in the chat."""
        self.query_one(Steppers).take_typed()
        self.post_message(self.Applied(self.setting))
        self.notify(words.applied(self.setting), markup=False)

    def action_best(self) -> None:
        """Go to the best predicted setting, or say why there is none."""
        steppers = self.query_one(Steppers)
        steppers.take_typed()
        best = None if self._whatif is None else self._whatif.best
        if best is None:
            self.notify(own(words.no_best(self._state), glyphs_of(self)), markup=False)
        else:
            steppers.setting = best.model

    def action_save(self) -> None:
        """Ask for a trace."""
        self.query_one(Steppers).take_typed()
        self.post_message(self.SaveRequested(keep_text=self._keep_text))

    def action_toggle_text(self) -> None:
        """Store the text, or do not."""
        self._keep_text = not self._keep_text
        self.notify(words.saving(keep_text=self._keep_text), markup=False)

    def action_move_page(self, direction: int) -> None:
        """Scroll to what has no room."""
        found = self.query_one("#found")
        if direction < 0:
            found.scroll_page_up()
        else:
            found.scroll_page_down()

    def action_back(self) -> None:
        """Close."""
        self.dismiss()


def _whatif_of(state: WhatIfState) -> WhatIf | None:
    """Return what would answer for ``state``; None if there is nothing to replay."""
    recording = state.recording
    if recording is None or not recording.recordings:
        return None
    return WhatIf(
        recording.recordings,
        recording.draft,
        longest=recording.longest,
        costs=state.known.costs,
    )
