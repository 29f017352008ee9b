"""Parts of the tune screen and their words: the verdict, what the search does, the settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.console import JustifyMethod
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from spectui.format import counted, duration_text, left_text, percent_text, times_text
from spectui.live.recording import ChatRecording
from spectui.measure.arm import Arm
from spectui.options.drafters import MTP_KIND
from spectui.trace.replay import Total
from spectui.tui import draw
from spectui.tui.tune.ledger import FORECAST, Ledger, Row
from spectui.tui.widgets import hidden, key
from spectui.tune.explain import cache_sentence, explain_result
from spectui.tune.forecast import best_by_drafter
from spectui.tune.page import lossless_lines
from spectui.tune.progress import Phase, TuningState
from spectui.tune.result import TuneResult

INTRODUCTION = """\
Enter starts. It records some answers, forecasts every setting on them, and measures the best \
against the target alone; then it says whether a draft pays, with which flags. How long that \
takes is told once the target is timed. The chat has priority; what was measured is kept, so stop \
and go on at will."""
COMING = "Settings are listed here once some answers are recorded and every setting is forecast."
_UNCONFIRMED = ", not confirmed"
_VERDICT = ("advice", "interval", "because")
_INTERVAL = 48
"""Cells of the verdict's interval; a narrow screen has a third of its width for it."""
_FEW_TOKENS = 200
"""Replayed tokens below which an acceptance rate is uncertain by 7 points or more: two standard
errors of a share of one half."""
_BAR = 16
_BAR_FROM = 100
"""Width from which there is room for the bar of the progress beside its words."""


def phase(state: TuningState, *, chat_is_busy: bool) -> str:
    """Return the activity of the search."""
    if state.is_running and state.phase is not Phase.STOPPING:
        if chat_is_busy:
            return "held back by the chat"
        if state.current is not None and state.current.is_off:
            return "measuring the target alone"
    if state.phase is Phase.IDLE:
        return "not started"
    if state.phase is Phase.FINISHED and state.result is not None and state.result.interrupted:
        return "stopped early"
    return str(state.phase)


def progress(state: TuningState, ledger: Ledger) -> tuple[str, float]:
    """Return the progress of the search, in words and as a fraction."""
    fraction = min(1.0, state.n_done / state.n_steps) if state.n_steps else 0.0
    if state.is_confirming:
        return f"prompt {state.n_done} of at most {state.n_steps}", fraction
    if state.phase is Phase.RECORDING:
        further = "further prompts, " if state.looked else ""
        return f"{further}step {state.n_done} of {state.n_steps}", fraction
    if state.current is not None:
        trial = "" if state.current.is_off else f"trial {ledger.n_tried}, "
        return f"{trial}prompt {state.n_done} of {state.n_steps}", fraction
    words = counted(ledger.n_tried, "trial") if ledger.n_tried else ""
    if state.forecasts:
        words = f"{counted(len(state.forecasts), 'setting')} replayed"
    is_early = state.phase in {Phase.PREPARING, Phase.STARTING}
    return words, float(bool(words) and not is_early)


def headline(state: TuningState, ledger: Ledger, running_s: int | None = None) -> str:
    """Return the time that is left, or has passed, the progress, and the name of the study."""
    facts = []
    if state.is_running and state.seconds_left is not None:
        facts.append(left_text(state.seconds_left))
    elif state.is_running and running_s is not None:
        facts.append(duration_text(running_s))
    facts.append(progress(state, ledger)[0])
    if state.study is not None:
        facts.append(f"study {draw.one_line(state.study)}")
    return " • ".join(filter(None, facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """First line of the screen."""

    advice: str
    """A few words: what to do, or that it is not known yet."""
    because: str = ""
    """Data behind the advice."""
    speedup: float | None = None
    """Speedup over off; None where none is known."""
    interval: tuple[float, float] | None = None
    """The interval of a verdict's speedup; None where it is not known."""
    pays: bool | None = None
    """The verdict; None before there is one."""


def verdict(state: TuningState, ledger: Ledger) -> Headline:
    """Return the verdict; before there is one, the best so far."""
    result = state.result
    if result is not None and result.speedup is not None:
        has_interval = result.speedup.capped.interval is not None
        return Headline(
            advice=result.verdict.advice,
            because=result.verdict.because,
            # A factor without an interval would look like the answer.
            speedup=result.speedup.capped.estimate if has_interval else None,
            interval=result.speedup.capped.interval,
            pays=result.verdict.use_speculation,
        )
    looked = state.looked
    if state.is_running and looked is not None and looked.speedup.capped.interval is not None:
        return Headline(
            advice=f"So far, on {counted(looked.speedup.n_prompts, 'prompt')}",
            because=draw.one_line(looked.arm.label),
            speedup=looked.speedup.capped.estimate,
            interval=looked.speedup.capped.interval,
        )
    so_far = _best_so_far(ledger)
    if state.is_running or result is None:
        return so_far
    # The verdict advises to leave it off, which nothing has shown.
    known = so_far.advice[:1].lower() + so_far.advice[1:].removesuffix(_UNCONFIRMED)
    best = ""
    if so_far.because:
        best = f"; {known}: {so_far.because} ({times_text(so_far.speedup)})"
    because = f"{result.verdict.because.removesuffix('.')}{best}; Start goes on from here"
    # A factor that nothing has confirmed would look like the answer.
    return Headline(advice="Nothing was decided", because=because)


def _best_so_far(ledger: Ledger) -> Headline:
    if ledger.best is None:
        return Headline(advice="No speedup yet" if ledger.n_tried else "Nothing measured yet")
    label, estimate = draw.one_line(ledger.best.arm.label), ledger.best.speedup
    if estimate is None:
        return Headline(advice="No speedup yet", because=f"off was not measured; {label}")
    if estimate <= 1:
        because = f"best setting so far: {label}"
        return Headline(advice="Nothing faster than off yet", because=because, speedup=estimate)
    source = "Best forecast" if ledger.best.origin == FORECAST else "Best so far"
    return Headline(advice=source + _UNCONFIRMED, because=label, speedup=estimate)


Fact = tuple[str, str]
"""A label and a sentence."""


def facts(state: TuningState, prompts: str | None) -> Iterator[Fact]:
    """Yield the reasons of the verdict, and errors.

    Args:
        state: state of the search.
        prompts: which prompts it uses, in words; None if that is not known.
    """
    if state.error is not None:
        yield "reason", state.error
    if prompts is not None and state.is_running:
        yield "prompts", prompts
    if state.earlier is not None and state.is_running:
        yield "earlier", state.earlier
    if state.notice and state.is_running:
        yield "note", state.notice
    if state.phase is Phase.SEARCHING and state.current is not None and not state.current.is_off:
        yield "now", state.current.label
    if state.result is not None:
        yield from _findings(state.result)


def _findings(result: TuneResult) -> Iterator[Fact]:
    if result.not_kept is not None:
        yield "not kept", result.not_kept
    if result.speedup is not None:
        for index, reason in enumerate(explain_result(result).sentences):
            yield "" if index else "why", f"• {reason}"
    for one in () if result.leader is None else result.leader.categories:
        accepted = f"{percent_text(one.acceptance_rate)} accepted"
        n_prompts = counted(one.n_prompts, "prompt")
        yield one.category, f"{times_text(one.speedup)}, {accepted}, {n_prompts}"
    yield from _other_drafts(result)
    for request in result.requests.value or ():
        yield "request", f"of {request.summary}"
    if (cache := cache_sentence(result.experts)) is not None:
        yield "cache", cache
    if result.lossless is not None:
        yield from (("output", line) for line in lossless_lines(result.lossless))
    if result.conditions is not None and result.conditions.notes:
        yield "machine", " ".join(result.conditions.notes)


def _other_drafts(result: TuneResult) -> Iterator[Fact]:
    """Drafts that the best setting does without: their best forecast, or why they were left out."""
    own = None if result.best is None else result.best.draft
    for one in best_by_drafter(result.outlook.forecasts):
        if one.arm.draft not in {None, own}:
            yield "draft", f"at best {times_text(one.speedup)} is forecast, with {one.arm.label}"
    for draft, reason in result.outlook.left_out.items():
        yield "left out", f"{draft}: {reason}"


def basis(recording: ChatRecording, totals: tuple[Total, ...]) -> str:
    """Return how much of a chat is replayed, and why no speedups are known if none are."""
    n_decoded = sum(one.n_decoded for one in recording.recordings)
    n_tokens = counted(n_decoded, "token")
    answers = counted(len(recording.recordings), "answer")
    few = ", too few to choose by" if n_decoded < _FEW_TOKENS else ""
    text = f"What if {recording.draft} drafts: {n_tokens} of {answers}{few}, replayed exactly."
    if totals[0].speedup is None:
        return f"{text} No speedup is known before a search has measured what rounds cost."
    return f"{text} Speeds follow from what rounds cost in the last search."


class VerdictBox(Vertical):
    """The verdict: its advice, its interval, and the data behind it."""

    def compose(self) -> ComposeResult:
        """A line each."""
        for part in _VERDICT:
            yield Static(id=part, markup=False)

    def show(self, found: Headline) -> None:
        """Show the verdict, or the best setting so far."""
        is_judged = found.pays is not None and found.speedup is not None
        self.set_class(is_judged and bool(found.pays), "-gain")
        self.set_class(is_judged and (found.speedup or 1.0) < 1, "-loss")
        factor = "" if found.speedup is None else f"{times_text(found.speedup)}  "
        bar = ""
        if found.interval is not None and found.speedup is not None:
            (low, high), width = found.interval, min(_INTERVAL, self.app.size.width // 3)
            drawn = draw.on_scale(low, found.speedup, high, 1.0, width)
            bar = f"{drawn}  {low:.2f} to {high:.2f}, │ 1.00: no draft"
        lines = (f"{factor}{found.advice}", bar, found.because)
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
        self,
        state: TuningState,
        ledger: Ledger,
        *,
        chat_is_busy: bool,
        running_s: int | None,
        prompts: str | None,
    ) -> None:
        """Show the state of the search, and while it runs since when and with which prompts."""
        is_idle = state.phase is Phase.IDLE
        box = self.query_one(VerdictBox)
        box.display = not is_idle or bool(state.records)
        box.show(verdict(state, ledger))
        activity = phase(state, chat_is_busy=chat_is_busy)
        parts = [(f"Tuning: {activity}", "bold $loss" if state.phase is Phase.FAILED else "bold")]
        if state.is_running and state.n_steps:
            fraction = progress(state, ledger)[1]
            bar = f"{draw.bar(fraction, _BAR)} " if self.app.size.width >= _BAR_FROM else ""
            parts.append((f"  {bar}{percent_text(fraction)}", "$primary"))
        if not is_idle and (more := headline(state, ledger, running_s)):
            parts.append((f" • {more}", ""))
        self.query_one("#state", Static).update(Content.assemble(*parts))
        found = list(facts(state, prompts))
        if found != self._shown:
            self._shown = found
            findings = self.query_one("#findings")
            findings.query_one(Static).update(_table(found))
            findings.display = bool(found)


def _table(found: list[Fact]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, text in found:
        table.add_row(label, Text(draw.one_line(text)))
    return table


_COLUMNS = "speedup", "tokens/s", "accepted", "from", "setting"
_NUMBERS = frozenset(_COLUMNS[:3])
_DRAFT = "draft"
"""In place of a draft's name that all rows share, where that is longer than ``draft-mtp``."""


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

    @property
    def selected(self) -> Row | None:
        """The row with the cursor; None without rows."""
        return self._rows[self.cursor_row] if self._rows else None

    def show(self, ledger: Ledger) -> None:
        """Show all rows, with the cursor and the view where they were.

        A narrow screen cuts the end of the setting.
        """
        # The top stays the top, whatever comes in there.
        selected, at = self.selected if self.cursor_row else None, self.scroll_offset
        self._rows = ledger.rows
        has_speeds = any(row.tokens_per_s is not None for row in self._rows)
        columns = [title for title in _COLUMNS if title != "tokens/s" or has_speeds]
        self.clear(columns=True)
        for title in columns:
            width = len(title) if title in _NUMBERS else None
            self.add_column(Text(title, justify=_side(title)), width=width)
        for row in self._rows:
            cells = self._cells(row, is_best=row is ledger.leader)
            self.add_row(*(cells[title] for title in columns))
        arms = [row.arm for row in self._rows]
        if selected is not None and selected.arm in arms:
            self.move_cursor(row=arms.index(selected.arm), scroll=False)
            self.scroll_to(*at, animate=False)

    def label(self, arm: Arm) -> str:
        """Name of a setting; a long name that all drafts share would hide what differs."""
        label, draft = draw.one_line(arm.label), arm.draft or ""
        is_shared = len({row.arm.draft for row in self._rows} - {None}) == 1
        is_long = len(draft) > len(MTP_KIND)
        return label.replace(draft, _DRAFT, 1) if is_shared and is_long else label

    def _cells(self, row: Row, *, is_best: bool) -> dict[str, Text]:
        look = Style.null()
        if is_best:
            look = self.get_component_rich_style("settings--best", partial=True)
        elif not row.is_known:
            look = self.get_component_rich_style("settings--unknown", partial=True)
        texts = (
            times_text(row.speedup),
            draw.number(row.tokens_per_s, 1),
            percent_text(row.acceptance_rate),
            f"{row.origin}, best" if is_best else row.origin,
            self.label(row.arm),
        )
        cells = zip(_COLUMNS, texts, strict=True)
        return {title: Text(text, look, justify=_side(title)) for title, text in cells}


def _side(title: str) -> JustifyMethod:
    """Numbers stand at the right of their column."""
    return "right" if title in _NUMBERS else "left"
