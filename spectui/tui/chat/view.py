"""The live screen's widgets, and what they show of the session: its owner changes that."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from spectui.display import fit
from spectui.engine.events import ModelLoaded, RoundFinished, TokenEmitted
from spectui.format import counted, percent_text
from spectui.live import sessions
from spectui.live.controller import SessionController
from spectui.live.setup import Activity, LiveSetup
from spectui.live.tally import LiveState
from spectui.tui import draw
from spectui.tui.chat.panels import (
    AcceptancePanel,
    ExpectationPanel,
    MemoryPanel,
    RoundPanel,
    ThroughputPanel,
    TrafficPanel,
)
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.transcript import Role, Token, Transcript
from spectui.tui.panel import Panel, PanelStack
from spectui.tui.widgets import KeyBar, StatusBar

_BAR_CELLS = 24
"""Cells of a bar of loading; fewer where its name needs the room."""
_SHORTEST_BAR = 4
_TWO_COLUMNS = 84
_FRAMED = 33
"""Lines from which on six panels in a column can have a frame each."""
_HELLO = "Ask something. Every token shows who wrote it: underlined ones come from the draft."
_CUT_OFF = "cut off"
_PANELS_FROM = 64
_NAME_CELLS = 12
"""Fewest cells of a model's name at the top."""
_BETWEEN, _BESIDE = " | ", " + "
_MARGINS = 3
"""Cells of the line at the top that are left empty."""


_PANELS: dict[type[Panel[Any]], str] = {
    ThroughputPanel: "throughput",
    AcceptancePanel: "acceptance",
    RoundPanel: "rounds",
    MemoryPanel: "memory",
    TrafficPanel: "traffic",
    ExpectationPanel: "expectation",
}
"""Parts of the state that the panels show, in the order on screen."""


class Panels(PanelStack):
    """The six live panels, each in the detail that its size allows."""

    def compose(self) -> ComposeResult:
        """Yield the panels in the order of the questions: does it pay, why, and what of."""
        for kind in _PANELS:
            yield kind()

    def on_resize(self, event: Resize) -> None:
        """Choose columns and frames."""
        is_wide = event.size.width >= _TWO_COLUMNS
        lines = event.size.height * (2 if is_wide else 1)
        self.set_class(is_wide, "-two-columns")
        self.set_class(lines >= _FRAMED, "-framed")

    def show(self, state: LiveState) -> None:
        """Hand every panel its part."""
        for kind, part in _PANELS.items():
            self.query_one(kind).state = getattr(state, part)


class Loading(Widget):
    """One line per part with its bar; hidden while there is nothing to wait for."""

    parts: reactive[Mapping[str, float | None]] = reactive(dict, layout=True)
    """Loaded share of each part; None where it is not known."""

    def watch_parts(self) -> None:
        """Hide where nothing is loaded."""
        self.set_class(bool(self.parts), "-busy")

    def render(self) -> Content:
        """Draw a line per part."""
        return Content("\n".join(self._line(*part) for part in self.parts.items()))

    def _line(self, name: str, fraction: float | None) -> str:
        if fraction is None:
            return f"{name} …"
        # What is read has to be prepared, which may take as long.
        progress = percent_text(fraction) if fraction < 1 else "preparing"
        done = f" {progress}  {name}"
        room = max(self.size.width - len(done), _SHORTEST_BAR)
        return draw.bar(fraction, min(room, _BAR_CELLS)) + done


class LiveView(Screen[None]):
    """Shows the chat, and beside it what speculation does while the model talks."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Screen has it
        (0, "-tiny"),
        (_PANELS_FROM, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]

    activity: reactive[Activity] = reactive(Activity.STARTING, init=False)
    setup: reactive[LiveSetup | None] = reactive(None, init=False)
    """The pair with its options; None before one was chosen."""
    tuning: reactive[str] = reactive("", init=False)
    """Activity of the search beside the chat, in a word; empty for none."""

    session: SessionController

    def __init__(self) -> None:
        """Create it with nothing said."""
        super().__init__()
        self._unshown: list[Token] = []
        """Tokens whose round has not finished yet."""
        # Kept rather than looked up: events may still come when the widgets are going.
        self.transcript = Transcript(placeholder=_HELLO)
        self.loading_bars = Loading()
        self.prompt = PromptBox(placeholder="Enter sends, Ctrl+J starts a new line")
        self.panels = Panels()
        self._status = StatusBar()

    def compose(self) -> ComposeResult:
        """Status, then transcript and prompt beside the panels."""
        yield self._status
        with Horizontal(id="body"):
            with Vertical(id="talk"):
                yield self.loading_bars
                yield self.transcript
                yield self.prompt
            yield self.panels
        yield KeyBar()

    def on_mount(self) -> None:
        """Let the user type at once, even while models load."""
        self.prompt.focus()
        for shown in ("setup", "tuning"):
            self.watch(self, shown, self._show_status)

    def watch_activity(self) -> None:
        """Show in the box that an answer is being written."""
        self.prompt.busy = self.activity is Activity.ANSWERING
        self._show_status()
        self.refresh_bindings()

    def changed(self) -> None:
        """Show the session's setup, activity, parts and waiting prompt."""
        session = self.session
        self.setup, self.activity = session.setup, session.activity
        self.loading_bars.parts = session.parts
        self.prompt.show_waiting(session.waiting)

    def begun(self, entries: Sequence[sessions.Entry]) -> None:
        """Show another conversation, with what was said in it before."""
        self._unshown.clear()
        self.transcript.clear()
        show_stored(entries, self.transcript)

    def say(self, role: Role, text: str) -> None:
        """Show a turn that is complete."""
        self.transcript.start_turn(role)
        self.transcript.append_text(text)
        self.transcript.end_turn("")

    def asked(self, text: str) -> None:
        """Show a question; its answer begins."""
        self.say("user", text)
        self.transcript.start_turn("assistant")

    def answered(self, event: TokenEmitted | RoundFinished) -> None:
        """Show tokens when their round ends: the accepted, the rejected, then the bonus one."""
        if isinstance(event, TokenEmitted):
            self._unshown.append((event.piece, event.from_draft))
            return
        self._show_tokens(len(self._unshown) - len(event.round.tokens) + event.round.n_accepted)
        if event.rejected:
            self.transcript.append_rejected(event.rejected)
        self._show_tokens()

    def _show_tokens(self, n_tokens: int | None = None) -> None:
        shown = self._unshown[:n_tokens]
        del self._unshown[:n_tokens]
        if shown:
            self.transcript.append_tokens(shown)

    def ended(self, note: str, notice: str = "") -> None:
        """End the answer, with numbers below it, or with what went wrong."""
        self._show_tokens()
        self.transcript.end_turn(note)
        if notice:
            self.say("notice", notice)

    def flush(self) -> None:
        """Bring everything that has come so far to screen and disk.

        The first token belongs to no round, and is shown as soon as it is there.
        """
        self._show_tokens()
        self.session.chat.flush()
        self.panels.show(self.session.tally.state())

    def on_resize(self) -> None:
        """Fit the line at the top to the width."""
        self._show_status()

    def _show_status(self) -> None:
        activity = " • ".join(filter(None, (self.tuning, str(self.activity))))
        width, target = self.size.width - len(activity) - _MARGINS, self.session.target
        facts = describe(self.setup, target, width) if self.setup else ("spectui",)
        self._status.left.update(_BETWEEN.join(facts))
        self._status.right.update(activity)


def show_stored(entries: Sequence[sessions.Entry], transcript: Transcript) -> None:
    """Show ``entries`` as they were, with the marks of who wrote what."""
    for entry in entries:
        match entry:
            case sessions.UserTurn():
                # The one before may have been killed in the middle of its answer.
                transcript.end_turn(_CUT_OFF)
                transcript.start_turn("user")
                transcript.append_text(entry.text)
                transcript.start_turn("assistant")
            case sessions.AnswerPart():
                transcript.append_tokens(_tokens(entry))
            case sessions.AnswerEnd():
                transcript.end_turn(entry.note)
    transcript.end_turn(_CUT_OFF)


def _tokens(part: sessions.AnswerPart) -> Iterator[Token]:
    at = 0
    for start, end in (*part.drafted, (len(part.text), len(part.text))):
        for piece, from_draft in ((part.text[at:start], False), (part.text[start:end], True)):
            if piece:
                yield piece.encode(), from_draft
        at = end


def describe(setup: LiveSetup, target: ModelLoaded | None, width: int) -> tuple[str, ...]:
    """Return the pair, where it lies, how it drafts and how it samples.

    Args:
        setup: the pair with its options.
        target: the loaded target; None before that.
        width: cells for the whole line. Where it is longer, what the models' names have in common
            and then their middles are cut out; then facts of the placement are left out, the last
            one first, and then the drafter's numbers.
    """
    models = [setup.target] if setup.draft is None else [setup.target, setup.draft]
    placed, drafting = _placed(setup, target), _drafting(setup)
    fewer = [(", ".join(placed[:n]), drafting[0]) for n in range(len(placed), 0, -1)]
    name_cells = 0
    for others in (*fewer, *((placed[0], shorter) for shorter in drafting[1:])):
        facts = *others, setup.sampling.label
        room = width - len(_BETWEEN.join(("", *facts))) - len(_BESIDE) * (len(models) - 1)
        name_cells = room // len(models)
        if name_cells >= _NAME_CELLS:
            break
    names = [one.path.stem for one in models]
    room = max(name_cells, _NAME_CELLS) * len(names)
    if sum(map(len, names)) > room:
        names = _told_apart(names)
    first, *drafts = names
    drafts = [fit(name, room // len(names)) for name in drafts]
    first = fit(first, room - sum(map(len, drafts)))
    return _BESIDE.join((first, *drafts)), *facts


def _told_apart(names: list[str]) -> list[str]:
    """Names without the words that all end with; but for the first, without those they begin with.

    A family and a quantization say nothing that tells a draft from its target.
    """
    words = [name.split("-") for name in names]
    n_last = _n_alike([one[::-1] for one in words])
    words = [one[: len(one) - n_last] or one for one in words]
    n_first = _n_alike(words)
    first, *others = words
    return ["-".join(one) for one in (first, *(one[n_first:] or one for one in others))]


def _n_alike(words: list[list[str]]) -> int:
    """Number of words that all begin with."""
    return sum(1 for _ in takewhile(lambda each: len({*each}) == 1, zip(*words, strict=False)))


def _drafting(setup: LiveSetup) -> tuple[str, ...]:
    """Drafters with all numbers, with the first number, and without any."""
    if setup.drafting is None:
        return ("draft off" if setup.can_draft else "no draft",)
    chain = setup.drafting.chain
    numbers = [(one.summary, one.summary.partition(",")[0], "") for one in chain]
    return tuple(
        ", ".join(f"{one.kind} {text}".strip() for one, text in zip(chain, texts, strict=True))
        for texts in zip(*numbers, strict=True)
    )


def _placed(setup: LiveSetup, loaded: ModelLoaded | None) -> tuple[str, ...]:
    """Experts in RAM, layers on the GPU, context, threads and quantization of the target."""
    # Where the placement was left open, what was chosen counts.
    target = (loaded and loaded.placed) or setup.target
    n_ctx, n_threads = setup.context.ctx_size, setup.context.threads
    experts = "-cmoe" if target.cpu_moe else f"-ncmoe {target.n_cpu_moe}" * bool(target.n_cpu_moe)
    tensors = (f"-ot {one.pattern}={one.buffer}" for one in target.override_tensor)
    layers = "" if target.n_gpu_layers < 0 else f"-ngl {target.n_gpu_layers}"
    if loaded is not None and loaded.memory.devices:
        n_layers = loaded.info.n_layers
        n_offloaded = n_layers if target.n_gpu_layers < 0 else min(target.n_gpu_layers, n_layers)
        layers = f"{n_offloaded} of {n_layers} layers"
    servers = target.devices.rpc
    rpc = counted(len(servers), "RPC server") if servers else ""
    quantization = "" if loaded is None else loaded.info.quantization
    size = f"-c {n_ctx}" if n_ctx % 1024 else f"-c {n_ctx // 1024}k"
    threads = f"-t {n_threads}" if n_threads else ""
    return tuple(filter(None, (experts, *tensors, layers, rpc, size, threads, quantization)))
