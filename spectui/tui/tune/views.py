"""Parts of the tune screen: the verdict, what the search does, what is behind it, the settings."""

from typing import ClassVar

from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from spectui.format import percent_text, times_text
from spectui.tui import draw
from spectui.tui.tune import words
from spectui.tui.tune.ledger import Ledger, Row
from spectui.tui.tune.words import Fact, Headline
from spectui.tui.widgets import hidden, key
from spectui.tune.progress import Phase, TuningState

_VERDICT = ("advice", "interval", "because")
_INTERVAL = 48
"""Cells of the verdict's interval; a narrow screen has a third of its width for it."""
_BAR = 16


class VerdictBox(Vertical):
    """The answer: the advice, the interval, and what it rests on."""

    def compose(self) -> ComposeResult:
        """A line each."""
        for part in _VERDICT:
            yield Static(id=part, markup=False)

    def show(self, told: Headline) -> None:
        """Show ``told``."""
        is_judged = told.pays is not None and told.speedup is not None
        self.set_class(is_judged and bool(told.pays), "-gain")
        self.set_class(is_judged and (told.speedup or 1.0) < 1, "-loss")
        factor = "" if told.speedup is None else f"{times_text(told.speedup)}  "
        bar = words.interval(told, min(_INTERVAL, self.app.size.width // 3))
        lines = (f"{factor}{told.advice}", bar, told.because)
        for part, text in zip(_VERDICT, lines, strict=True):
            self.query_one(f"#{part}", Static).update(text)
            self.query_one(f"#{part}").display = bool(text)


class TuneStatus(Vertical):
    """The verdict, the state of the search on a line, and the facts behind both."""

    def __init__(self) -> None:
        """Begin without facts."""
        super().__init__()
        self._shown: list[Fact] | None = None

    def compose(self) -> ComposeResult:
        """Three parts that change at different times."""
        yield VerdictBox()
        yield Static(id="state")
        with VerticalScroll(id="findings"):
            yield Static(markup=False)

    def show(
        self, state: TuningState, ledger: Ledger, *, chat_is_busy: bool, prompts: str | None
    ) -> None:
        """Show how the search stands, and while it runs which ``prompts`` it uses."""
        is_idle = state.phase is Phase.IDLE
        box = self.query_one(VerdictBox)
        box.display = not is_idle or bool(state.records)
        box.show(words.verdict(state, ledger))
        phase = words.phase(state, chat_is_busy=chat_is_busy)
        parts = [(f"Tuning: {phase}", "bold $loss" if state.phase is Phase.FAILED else "bold")]
        if state.is_running:
            fraction = words.progress(state, ledger)[1]
            parts.append((f"  {draw.bar(fraction, _BAR)} {fraction:.0%}", "$primary"))
        if not is_idle and (more := words.headline(state, ledger)):
            parts.append((f" • {more}", ""))
        self.query_one("#state", Static).update(Content.assemble(*parts))
        facts = list(words.facts(state, prompts))
        if facts != self._shown:
            self._shown = facts
            findings = self.query_one("#findings")
            findings.query_one(Static).update(_table(facts))
            findings.display = bool(facts)


def _table(facts: list[Fact]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, text in facts:
        table.add_row(label, Text(draw.one_line(text)))
    return table


_NUMBERS = ("speedup", "tokens/s", "accepted")


class SettingsTable(DataTable[Text]):
    """A row each, the best first; the cursor stays on its setting when rows are added."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key(
            "enter",
            "tune.apply_selected",
            "Apply",
            "Use the selected setting in the chat",
            action="screen.apply_selected",
            display="enter",
        ),
        hidden("home", "tune.first_row", "First row", action="scroll_top"),
        hidden("end", "tune.last_row", "Last row", action="scroll_bottom"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"settings--best", "settings--unknown"}

    def __init__(self) -> None:
        """Begin without rows."""
        super().__init__(cursor_type="row")
        self._rows: tuple[Row, ...] = ()

    def on_mount(self) -> None:
        """Name the columns: what is cut on a narrow screen is the end of the setting."""
        for title in _NUMBERS:
            self.add_column(Text(title, justify="right"), width=len(title))
        self.add_columns("from", "setting")

    @property
    def selected(self) -> Row | None:
        """The row with the cursor; None without rows."""
        return self._rows[self.cursor_row] if self._rows else None

    def show(self, ledger: Ledger) -> None:
        """Show all rows, with the cursor and the view where they were."""
        # The top stays the top, whatever comes in there.
        selected, at = self.selected if self.cursor_row else None, self.scroll_offset
        self._rows = ledger.rows
        self.clear()
        for row in self._rows:
            self.add_row(*self._cells(row, is_best=row is ledger.leader))
        arms = [row.arm for row in self._rows]
        if selected is not None and selected.arm in arms:
            self.move_cursor(row=arms.index(selected.arm), scroll=False)
            self.scroll_to(*at, animate=False)

    def _cells(self, row: Row, *, is_best: bool) -> list[Text]:
        look = Style.null()
        if is_best:
            look = self.get_component_rich_style("settings--best", partial=True)
        elif not row.is_known:
            look = self.get_component_rich_style("settings--unknown", partial=True)
        numbers = (
            times_text(row.speedup),
            draw.number(row.tokens_per_s, 1),
            percent_text(row.acceptance_rate),
        )
        origin = f"{row.origin}, best" if is_best else row.origin
        return [
            *(Text(text, look, justify="right") for text in numbers),
            Text(origin, look),
            Text(draw.one_line(row.arm.label), look),
        ]
