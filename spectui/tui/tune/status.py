"""The head of the tune screen: the verdict, what the search does, and what is behind it."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Digits, Static

from spectui.display import clip
from spectui.tui import draw
from spectui.tui.tune import words
from spectui.tui.tune.ledger import Ledger
from spectui.tui.tune.words import Headline
from spectui.tune.expert_use import cache_sentence
from spectui.tune.progress import Phase, TuningState
from spectui.tune.result import TuneResult

Fact = tuple[str, str, str | None]
"""Label, text, and the class of its look."""
_ROOMY = 36
"""Lines of a screen that has room for reasons."""
_MAX_ERROR = 400
"""Characters of an error; llama.cpp's log has the rest."""
_INTERVAL = 48
"""Cells of the verdict's interval; a narrow screen has a third of its width for it."""
_BAR = 24
"""Cells of the bar; a narrow screen has a quarter of its width for it."""


class VerdictBox(Horizontal):
    """The answer, as large as a terminal draws: digits of three lines where there is room."""

    def compose(self) -> ComposeResult:
        """The speedup, the advice, the interval, and what the answer rests on."""
        yield Digits()
        with Vertical(classes="told"):
            yield Static(id="advice", markup=False)
            yield Static(id="interval", markup=False)
            yield Static(id="because", markup=False)

    def show(self, told: Headline) -> None:
        """Show ``told``."""
        is_decided = told.pays is not None and told.speedup is not None
        self.set_class(is_decided and bool(told.pays), "-gain")
        self.set_class(is_decided and (told.speedup or 1.0) < 1, "-loss")
        is_large = told.is_decided and told.speedup is not None
        is_roomy = self.app.size.height >= _ROOMY and not self.app.has_class("-ascii")
        self.set_class(is_large and is_roomy, "-large")
        if told.speedup is not None:
            self.query_one(Digits).update(f"{told.speedup:.2f}x")
        advice = told.advice
        if told.speedup is not None and not self.has_class("-large"):
            advice = f"{draw.speedup(told.speedup)}  {advice}"
        bar = words.interval(told, min(_INTERVAL, self.app.size.width // 3))
        shown = ((advice, "#advice"), (bar, "#interval"), (told.because, "#because"))
        for text, place in shown:
            self.query_one(place, Static).update(text)
            self.query_one(place).display = bool(text)


class StateLine(Widget):
    """Phase, progress and study on one line, with a bar at its end while the search runs."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"state--phase", "state--failed", "state--bar"}
    words: reactive[tuple[str, str]] = reactive(("", ""))
    """The phase, and more about it."""
    fraction: reactive[float | None] = reactive(None)
    """Progress; None where there is none to show."""
    failed: reactive[bool] = reactive(False)

    def render(self) -> Text:
        """Draw it; the words give way to the bar."""
        phase, more = self.words
        look = self.get_component_rich_style(f"state--{'failed' if self.failed else 'phase'}")
        bar, percent = "", ""
        if self.fraction is not None:
            bar = draw.bar(self.fraction, min(_BAR, self.size.width // 4))
            percent = f" {self.fraction:>4.0%}"
        room = self.size.width - len(phase) - len(bar) - len(percent) - bool(bar)
        told = clip(more, max(room, 0))
        told += " " * max(room - len(told), 0)
        bar_look = self.get_component_rich_style("state--bar")
        return Text.assemble(
            (phase, look), told, " " * bool(bar), (bar, bar_look), percent, no_wrap=True
        )


class Findings(VerticalScroll):
    """Facts that can be scrolled through, by keys only where they do not fit."""

    def watch_virtual_size(self) -> None:
        """Take the focus only where there is more to see."""
        self.can_focus = self.max_scroll_y > 0


class TuneStatus(Vertical):
    """The verdict, the state of the search on a line, and the facts behind both."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--label", "status--bad"}

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[Fact] | None = None

    def compose(self) -> ComposeResult:
        """Three parts that change at different times."""
        yield VerdictBox()
        yield StateLine()
        with Findings(id="findings"):
            yield Static(markup=False)

    def show(
        self, state: TuningState, ledger: Ledger, *, chat_is_busy: bool, prompts: str | None = None
    ) -> None:
        """Show how the search stands, and while it runs which ``prompts`` it uses."""
        line = self.query_one(StateLine)
        # So that the trials keep some lines.
        self.set_class(self.app.size.height < _ROOMY, "-short")
        is_idle = state.phase is Phase.IDLE
        told = words.verdict(state, ledger)
        box = self.query_one(VerdictBox)
        box.display = not is_idle or bool(state.records)
        box.show(told)
        more = "" if is_idle else words.headline(state, ledger)
        phase = words.phase(state, chat_is_busy=chat_is_busy)
        line.words = (f"Tuning: {phase}", more and f" • {more}")
        line.failed = state.phase is Phase.FAILED
        line.fraction = words.progress(state, ledger)[1] if state.is_running else None
        facts = self._facts(state)
        if prompts is not None and state.is_running:
            facts.append(("prompts", draw.one_line(prompts), None))
        if facts != self._shown:
            self._shown = facts
            findings = self.query_one(Findings)
            findings.query_one(Static).update(self._table(facts))
            findings.display = bool(facts)

    def _facts(self, state: TuningState) -> list[Fact]:
        facts: list[Fact] = []
        if state.error is not None:
            facts.append(("reason", _cut(state.error), "status--bad"))
        current = state.current if state.phase is Phase.SEARCHING else None
        if current is not None and not current.is_off:
            facts.append(("now", draw.one_line(current.label), None))
        if (result := state.result) is not None:
            facts += self._reasons(result)
            more = (
                ("output", words.lossless(result)),
                ("forecasts", words.forecast_error(result)),
                ("machine", words.machine(result)),
            )
            facts += [(label, draw.one_line(text), None) for label, text in more if text]
            if result.not_kept is not None:
                facts.append(("not kept", _cut(result.not_kept), "status--bad"))
        return facts

    def _reasons(self, result: TuneResult) -> list[Fact]:
        """Reasons of the verdict, a line each, where there is room for them."""
        if self.app.size.height < _ROOMY:
            return []
        told: list[Fact] = [
            ("" if index else "why", f"• {draw.one_line(reason)}", None)
            for index, reason in enumerate(words.why(result))
        ]
        more = (
            ("cache", cache_sentence(result.experts)),
            ("trials", words.ended_early(result)),
        )
        return told + [(label, draw.one_line(text), None) for label, text in more if text]

    def _table(self, facts: list[Fact]) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column()
        for label, text, look in facts:
            styled = Text(text, self._style(look) if look else "")
            table.add_row(Text(label, self._style("status--label")), styled)
        return table

    def _style(self, name: str) -> str:
        return str(self.get_component_rich_style(name))


def _cut(reason: str) -> str:
    told = draw.one_line(reason)
    return told if len(told) <= _MAX_ERROR else told[:_MAX_ERROR] + "…"
