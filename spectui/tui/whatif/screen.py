"""The what-if screen: any setting replayed on this session's own answers, at once."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Digits, Static

from spectui.live.whatif import WhatIf, WhatIfState
from spectui.options.drafters import MTP_KIND, DraftSimple, Model, with_kind
from spectui.trace.replay import Total
from spectui.tui.glyphs import ASCII, Glyphs, glyphs_of
from spectui.tui.whatif import words
from spectui.tui.whatif.plot import WhatIfPlot, curve
from spectui.tui.whatif.stepper import Stepper, Steppers
from spectui.tui.widgets import KeyBar, hidden, key

if TYPE_CHECKING:
    from spectui.tui.whatif.controller import WhatIfController

CSS = """
WhatIfScreen {
    #heading { display: none; height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; }
    .basis { height: auto; padding: 0 1; color: $text-muted; }
    #whole { display: none; }
    /* Two lines even where one is enough: the plot stays where it is. */
    #counts { height: auto; min-height: 2; padding: 0 1; }
    #best { height: auto; padding: 0 1; color: $gain; }
    #empty { height: 1fr; padding: 1 2; }
    #found { height: 1fr; overflow-y: auto; scrollbar-size-vertical: 1; }
    #top { height: auto; padding: 0 1; layout: vertical; }
    Steppers { height: 3; width: 1fr; }
    Numbers { width: 1fr; }
    WhatIfPlot { min-height: 8; }
    /* The legend says it too. */
    #unit { display: none; }
    &.-roomy #unit { display: block; }
    &.-wide #top { layout: horizontal; padding: 1 1 0 1; }
    &.-wide Numbers { padding-left: 4; }

    &.-tiny, &.-short {
        #heading { display: block; }
        #basis { display: none; }
        #whole { display: block; }
        #counts { min-height: 0; }
        #empty { padding: 0 1; }
        #top { padding: 0 1; }
        Numbers { layout: grid; grid-size: 2 2; grid-rows: 1; grid-gutter: 0 1; height: 2; }
        BigNumber { layout: horizontal; height: 1; }
        BigNumber Digits { display: none; }
        BigNumber .plain { display: block; width: auto; margin-right: 1; }
        BigNumber .name { width: 1fr; }
        WhatIfPlot { min-height: 10; }
        /* The last one alone, below the steppers and as wide as there is room. */
        ToastRack { max-height: 6; }
        ToastHolder { display: none; }
        ToastHolder:last-child { display: block; }
        Toast { width: 100%; max-width: 100%; margin: 0; padding: 0 1; }
    }

    &.-empty #found, &.-empty #heading, &.-empty .basis { display: none; }
    &.-found #empty { display: none; }
}
"""


_NAMES = ("tokens/s", "of off", "acceptance", "tokens/round")
"""Labels below the numbers."""


class BigNumber(Vertical):
    """A number with its name under it; bold where there are no large digits.

    There are none in ASCII. In Unicode the style of a screen chooses between both.
    """

    DEFAULT_CSS = """
    BigNumber {
        width: 1fr; height: auto;
        & Digits { width: auto; color: $foreground; }
        & .plain { text-style: bold; }
        &.-digits .plain { display: none; }
        & .name { color: $text-muted; }
    }
    """

    def __init__(self, name: str) -> None:
        """Start without a number; ``name`` stands below it."""
        super().__init__()
        self._label = name

    def compose(self) -> ComposeResult:
        """The number, then its name."""
        if glyphs_of(self) is not ASCII:
            self.add_class("-digits")
            yield Digits()
        yield Static(classes="plain", markup=False)
        yield Static(self._label, classes="name", markup=False)

    def show(self, number: str) -> None:
        """Show ``number``, which has characters that large digits have."""
        self.query_one(".plain", Static).update(number)
        for digits in self.query(Digits):
            digits.update(number)


class Numbers(Horizontal):
    """Throughput, speedup, acceptance rate and mean accepted length; below, the counts."""

    DEFAULT_CSS = "Numbers { height: auto; }"

    def compose(self) -> ComposeResult:
        """One after the other."""
        for name in _NAMES:
            yield BigNumber(name)

    def show(self, total: Total | None) -> None:
        """Show what a setting would do; None while that is being worked out."""
        glyphs = glyphs_of(self)
        texts = ("-",) * len(_NAMES) if total is None else _texts(total, glyphs)
        for number, text in zip(self.query(BigNumber), texts, strict=True):
            number.show(text)


def _texts(total: Total, glyphs: Glyphs) -> tuple[str, ...]:
    speed = "-" if total.tokens_per_s is None else glyphs.tokens_per_s(total.tokens_per_s)
    factor = "-" if total.speedup is None else f"{total.speedup:.2f}x"
    rate = "-" if total.acceptance_rate is None else f"{100 * total.acceptance_rate:.0f}%"
    length = "-" if total.tokens_per_round is None else f"{total.tokens_per_round:.2f}"
    return speed.removesuffix(" tokens/s"), factor, rate, length


class WhatIfScreen(Screen[None]):
    """Shows the states that it is given; wishes go to the controller."""

    DEFAULT_CSS = CSS

    BINDINGS: ClassVar[list[BindingType]] = [
        key("a", "whatif.apply", "Apply", "Draft so from the next answer on"),
        key("b", "whatif.best", "Best", "Go to the best predicted setting"),
        key(
            "s",
            "whatif.save",
            "Save trace",
            "Write the recorded answers as a trace into the data folder",
        ),
        key("t", "whatif.text", "Text", "Whether a saved trace holds the text"),
        key("escape", "whatif.back", "Back", "Close the screen"),
        hidden("pageup", "whatif.page_up", "Page up", action="move_page(-1)"),
        hidden("pagedown", "whatif.page_down", "Page down", action="move_page(1)"),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Screen has it
        (0, "-tiny"),
        (64, "-narrow"),
        (110, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as Screen has it
        (0, "-short"),
        (22, "-tall"),
        (28, "-roomy"),
    ]
    AUTO_FOCUS = "Stepper"

    def __init__(self, controller: "WhatIfController", state: WhatIfState) -> None:
        """Begin with ``state``, at the setting that is applied; wishes go to ``controller``."""
        super().__init__()
        self._controller = controller
        self._state = state
        self._whatif: WhatIf | None = None
        """The results shown; the whole space has been replayed."""
        self._keep_text = False
        """Whether a saved trace holds the text."""

    def compose(self) -> ComposeResult:
        """Its basis; the setting and its numbers; the curve.

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
        """Setting of the steppers, for the drafter that is replayed."""
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
        reason = glyphs.own_line(words.empty(self._state))
        self.set_class(whatif is None, "-empty")
        self.set_class(whatif is not None, "-found")
        self.query_one("#empty", Static).update(f"What if\n\n{reason}")
        if whatif is not None:
            self.query_one("#heading", Static).update(words.heading(self._state, whatif))
            for basis in self.query(".basis").results(Static):
                basis.update(glyphs.own_line(words.basis(self._state, whatif, glyphs)))
            best = self.query_one("#best", Static)
            best.update(glyphs.own_line(words.best(whatif, glyphs)))
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
        self.query_one(WhatIfPlot).show(
            curve(whatif.line(wanted), wanted, self._state.measured, whatif.best)
        )

    @work(group="line", exclusive=True)
    async def _replay(self, whatif: WhatIf, wanted: Model) -> None:
        """Replay a line between the steps aside, then show it."""
        await asyncio.to_thread(whatif.line, wanted)
        self._show_setting()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what makes no sense now."""
        del parameters
        if action in {"apply", "best", "save", "text"}:
            return True if self._whatif is not None else None
        return True

    def action_apply(self) -> None:
        """Use the shown setting in the chat."""
        self.query_one(Steppers).take_typed()
        self._controller.apply(self.setting)
        self.notify(words.applied(self.setting), markup=False)

    def action_best(self) -> None:
        """Go to the best predicted setting, or say why there is none."""
        steppers = self.query_one(Steppers)
        steppers.take_typed()
        best = None if self._whatif is None else self._whatif.best
        if best is None:
            self.notify(glyphs_of(self).own_line(words.no_best(self._state)), markup=False)
        else:
            steppers.setting = best.model

    def action_save(self) -> None:
        """Ask for a trace."""
        self.query_one(Steppers).take_typed()
        self._controller.save(keep_text=self._keep_text)

    def action_text(self) -> None:
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
    """Return the replay that would answer for ``state``; None if there is nothing to replay."""
    recording = state.recording
    if recording is None or not recording.recordings:
        return None
    return WhatIf(
        recording.recordings, recording.draft, longest=recording.longest, costs=state.known.costs
    )
