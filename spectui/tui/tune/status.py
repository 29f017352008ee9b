"""The head of the tune screen: what the search does, how far it is, what it has found."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from spectui.format import counted
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.text.display import clip
from spectui.tui.tune import words
from spectui.tui.tune.ledger import Ledger
from spectui.tune.progress import Phase, TuningState
from spectui.tune.result import TuneResult
from spectui.tune.temperatures import temperatures_sentence

Fact = tuple[str, str, str | None]
"""Label, text, and the class of its look."""
_ROOMY = 36
"""Lines of a screen that has room for a paragraph."""
_MAX_ERROR = 400
"""Characters of an error; llama.cpp's log has the rest."""


class ProgressLine(Widget):
    """A bar as wide as the screen, with its percentage."""

    DEFAULT_CSS = "ProgressLine { height: 1; color: $primary; }"

    fraction: reactive[float] = reactive(0.0)

    def render(self) -> Text:
        """Draw it."""
        room = max(1, self.size.width - len(" 100%"))
        return Text(f"{glyphs_of(self).bar(self.fraction, room)} {self.fraction:>4.0%}")


class Headline(Widget):
    """One line, which is cut where the screen ends."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"headline--phase", "headline--failed"}
    DEFAULT_CSS = """
    Headline {
        height: 1;
        & > .headline--phase { color: $text-primary; text-style: bold; }
        & > .headline--failed { color: $text-error; text-style: bold; }
    }
    """

    words: reactive[tuple[str, str]] = reactive(("", ""))
    """The phase, and more about it."""
    failed: reactive[bool] = reactive(False)

    def render(self) -> Text:
        """Draw it."""
        phase, more = self.words
        look = self.get_component_rich_style(f"headline--{'failed' if self.failed else 'phase'}")
        ellipsis, width = glyphs_of(self).ellipsis, self.size.width
        return Text.assemble((phase, look), clip(more, width - len(phase), ellipsis))


class TuneStatus(Vertical):
    """Phase, progress, best so far, verdict."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--label",
        "status--good",
        "status--against",
        "status--bad",
    }
    DEFAULT_CSS = """
    TuneStatus {
        height: auto;
        & > .status--label { color: $text-muted; }
        & > .status--good { color: $text-success; text-style: bold; }
        & > .status--against { color: $text-warning; text-style: bold; }
        & > .status--bad { color: $text-error; text-style: bold; }
        #findings { height: auto; max-height: 12; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[Fact] | None = None

    def compose(self) -> ComposeResult:
        """Three parts that change at different times."""
        yield Headline()
        yield ProgressLine(id="progress")
        yield Static(id="findings", markup=False)

    def show(
        self, state: TuningState, ledger: Ledger, *, chat_is_busy: bool, prompts: str | None = None
    ) -> None:
        """Show how the search stands, and while it runs which ``prompts`` it uses."""
        glyphs, headline = glyphs_of(self), self.query_one(Headline)
        more = f" {glyphs.bullet} {words.headline(state, ledger, glyphs)}"
        is_idle = state.phase is Phase.IDLE
        phase = words.phase(state, chat_is_busy=chat_is_busy)
        headline.words = (f"Tuning: {phase}", "" if is_idle else more)
        headline.failed = state.phase is Phase.FAILED
        line = self.query_one(ProgressLine)
        line.fraction = words.progress(state, ledger)[1]
        line.display = not is_idle
        facts = self._facts(state, ledger)
        if prompts is not None and state.is_running:
            facts.append(("prompts", glyphs.own_line(prompts), None))
        if facts != self._shown:
            self._shown = facts
            findings = self.query_one("#findings", Static)
            findings.update(self._table(facts))
            findings.display = bool(facts)

    def _facts(self, state: TuningState, ledger: Ledger) -> list[Fact]:
        glyphs = glyphs_of(self)
        facts: list[Fact] = []
        if state.error is not None:
            facts.append(("reason", _cut(state.error, glyphs), "status--bad"))
        if state.current is not None:
            label = glyphs.one_line(state.current.label)
            if state.n_measured and state.phase is Phase.SEARCHING:
                prompts = counted(state.n_measured, "prompt")
                label = f"{label} {glyphs.bullet} {prompts} measured"
            facts.append(("now", label, None))
        if (best := words.best(state, ledger, glyphs)) is not None:
            facts.append(("best", glyphs.own_line(best), None))
        if state.result is not None:
            verdict, lossless = state.result.verdict, words.lossless(state.result, glyphs)
            look = "status--good" if verdict.use_speculation else "status--against"
            facts.append(("verdict", glyphs.own_line(verdict.reason), look))
            if (possibility := words.possibility(state)) is not None:
                facts.append(("schedule", possibility, "status--against"))
            if lossless is not None:
                facts.append(("output", lossless, None))
            more = (
                ("depths", words.depths(state.result)),
                ("machine", words.machine(state.result)),
            )
            facts += [(label, glyphs.own_line(text), None) for label, text in more if text]
            facts += self._reasons(state.result)
            if state.result.not_kept is not None:
                facts.append(("not kept", _cut(state.result.not_kept, glyphs), "status--bad"))
        return facts

    def _reasons(self, result: TuneResult) -> list[Fact]:
        """Reasons of the verdict, where there is room for them."""
        told = (
            ("elsewhere", temperatures_sentence(result.temperatures)),
            ("trials", words.ended_early(result)),
            ("why", words.why(result)),
        )
        if self.app.size.height < _ROOMY:
            return []
        return [
            (label, glyphs_of(self).own_line(text), None)
            for label, text in told
            if text is not None
        ]

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


def _cut(reason: str, glyphs: Glyphs) -> str:
    told = glyphs.own_line(reason)
    return told if len(told) <= _MAX_ERROR else told[:_MAX_ERROR] + glyphs.ellipsis
