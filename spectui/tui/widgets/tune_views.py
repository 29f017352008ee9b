"""The trials as a table, as a map and as plots: side by side, or as tabs where room is short."""

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static, Tab, Tabs

from spectui.tui.glyphs import glyphs_of
from spectui.tui.tune import words
from spectui.tui.tune.ledger import Ledger, Row
from spectui.tui.widgets.heatmap import Heatmap
from spectui.tui.widgets.trials_table import TrialsTable
from spectui.tui.widgets.tune_history import HistoryPlot
from spectui.tui.widgets.tune_importance import ImportanceBars

_TITLES = {"trials": "Trials", "map": "Map", "plots": "Plots"}


class TuneViews(Container):
    """Everything that is drawn from the trials."""

    def __init__(self) -> None:
        super().__init__()
        self._ledger = Ledger()

    def compose(self) -> ComposeResult:
        """The tabs, and what they choose from."""
        yield Tabs(*(Tab(title, id=f"tab-{view}") for view, title in _TITLES.items()))
        with Container(id="views"):
            with Vertical(id="trials", classes="view"):
                yield TrialsTable()
                yield Static(id="detail", markup=False)
            with Vertical(id="map", classes="view"):
                yield Heatmap()
            with Vertical(id="plots", classes="view"):
                yield HistoryPlot()
                yield ImportanceBars()

    def on_mount(self) -> None:
        """Name the views."""
        for view, title in _TITLES.items():
            self.query_one(f"#{view}").border_title = title
        self.query_one(ImportanceBars).border_title = "Importance"

    @property
    def selected(self) -> Row | None:
        """The selected trial."""
        return self.query_one(TrialsTable).selected

    def show(self, ledger: Ledger) -> None:
        """Show the trials of ``ledger``."""
        self._ledger = ledger
        self.query_one(TrialsTable).show(ledger)
        self.query_one(Heatmap).show(ledger)
        self.query_one(HistoryPlot).show(ledger)
        self._show_selected()

    def show_importance(self, importance: tuple[tuple[str, float], ...]) -> None:
        """Show (parameter, share) pairs."""
        self.query_one(ImportanceBars).importance = importance

    def choose(self, view: str) -> None:
        """Show one of the views, where they are tabs."""
        self.query_one(Tabs).active = f"tab-{view}"

    @on(TrialsTable.Selected)
    def _show_selected(self) -> None:
        row, detail = self.selected, self.query_one("#detail", Static)
        detail.display = row is not None
        if row is not None:
            detail.update(words.trial(row, self._ledger, glyphs_of(self)))

    @on(Tabs.TabActivated)
    def _on_tab(self, event: Tabs.TabActivated) -> None:
        for view in _TITLES:
            self.query_one(f"#{view}").set_class(event.tab.id == f"tab-{view}", "-active")
