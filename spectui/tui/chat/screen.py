"""The live screen: a chat, and beside it what speculation does while the model talks."""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from spectui.live.setup import Activity, Launch, LiveSetup
from spectui.live.tally import LiveState
from spectui.tui import draw
from spectui.tui.chat.panels import AcceptancePanel, ExpectationPanel, RoundPanel, ThroughputPanel
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.session import SessionController
from spectui.tui.chat.settings import SettingsScreen
from spectui.tui.chat.transcript import Transcript
from spectui.tui.panels.base import PanelStack
from spectui.tui.panels.machine import MemoryPanel, TrafficPanel
from spectui.tui.threads import Threads
from spectui.tui.widgets import KeyBar, StatusBar, hidden, key

_BAR_CELLS = 24
_TWO_COLUMNS = 84
_FRAMED = 33
"""Lines from which on six panels in a column can have a frame each."""
_HELLO = "Ask something. Every token shows who wrote it: underlined ones come from the draft."
_PANELS_FROM = 64
_NARROW = f"Panels: widen the terminal to {_PANELS_FROM} columns or more."


class Panels(PanelStack):
    """The six live panels, each in the detail that its size allows."""

    def compose(self) -> ComposeResult:
        """Yield the panels in the order of the questions: does it pay, why, and what of."""
        yield ThroughputPanel()
        yield AcceptancePanel()
        yield RoundPanel()
        yield MemoryPanel()
        yield TrafficPanel()
        yield ExpectationPanel()

    def on_resize(self, event: Resize) -> None:
        """Choose columns and frames."""
        is_wide = event.size.width >= _TWO_COLUMNS
        lines = event.size.height * (2 if is_wide else 1)
        self.set_class(is_wide, "-two-columns")
        self.set_class(lines >= _FRAMED, "-framed")

    def show(self, state: LiveState) -> None:
        """Hand every panel its part."""
        self.query_one(ThroughputPanel).state = state.throughput
        self.query_one(AcceptancePanel).state = state.acceptance
        self.query_one(RoundPanel).state = state.rounds
        self.query_one(MemoryPanel).state = state.memory
        self.query_one(TrafficPanel).state = state.traffic
        self.query_one(ExpectationPanel).state = state.expectation


class Loading(Widget):
    """One line per part with its bar; hidden while there is nothing to wait for."""

    parts: reactive[tuple[tuple[str, float | None], ...]] = reactive((), layout=True)
    """(name, fraction) of each part; None for one that cannot say how far it is."""

    def set_part(self, name: str, fraction: float | None) -> None:
        """Add a part, or move its bar."""
        known = dict(self.parts)
        known[name] = fraction
        self.parts = tuple(known.items())
        self.add_class("-busy")

    def finish(self) -> None:
        """Hide the progress."""
        self.parts = ()
        self.remove_class("-busy")

    def render(self) -> Text:
        """Draw a line per part."""
        lines = []
        for name, fraction in self.parts:
            if fraction is None:
                lines.append(Text(f"{name} …"))
                continue
            lines.append(Text(f"{draw.bar(fraction, _BAR_CELLS)} {fraction:4.0%}  {name}"))
        return Text("\n").join(lines)


class LiveScreen(Screen[None]):
    """Shows the session that it owns, and takes what the user wants to it."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Screen has it
        (0, "-tiny"),
        (_PANELS_FROM, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012 - as Screen has it

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "live.stop", "Stop", "Stop the answer or the load"),
        key("f2", "live.rejected", "Rejected", "Show the drafted tokens that the target refused"),
        key("f3", "live.settings", "Settings", "Change drafting and sampling of the next answer"),
        key("f4", "live.draft", "Draft", "Let the next answer use the draft, or the target alone"),
        hidden("ctrl+n", "live.new", "New chat", "Begin another conversation with the same pair"),
        key("f9", "live.copy", "Copy", "Copy the last answer to the clipboard"),
    ]

    activity: reactive[Activity] = reactive(Activity.STARTING, init=False)
    setup: reactive[LiveSetup | None] = reactive(None, init=False)
    """Whether the readings of the machine come from a recording."""
    tuning: reactive[str] = reactive("", init=False)
    """Activity of the search beside the chat, in a word; empty for none."""

    def __init__(
        self,
        launch: Launch,
        threads: Threads,
        *,
        choose_models: Callable[[str | None], None],
        warn: Callable[[str], None],
    ) -> None:
        """Create it with nothing said.

        Args:
            launch: options of the command line.
            threads: start the engine.
            choose_models: opens the picker, with a reason if something failed.
            warn: shows a sentence.
        """
        super().__init__()
        # Kept rather than looked up: events may still come when the widgets are going.
        self.transcript = Transcript(placeholder=_HELLO)
        self.loading_bars = Loading()
        self.prompt = PromptBox(placeholder="Enter sends, Ctrl+J starts a new line")
        self.panels = Panels()
        self._status = StatusBar()
        self._warn = warn
        self.session = SessionController(
            launch, self, threads, choose_models=choose_models, warn=warn
        )

    def compose(self) -> ComposeResult:
        """Status, then transcript and prompt beside the panels."""
        yield self._status
        yield Static(_NARROW, id="narrow", markup=False)
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

    def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        """Send the prompt."""
        self.session.ask(message.text)

    def watch_activity(self) -> None:
        """The box shows that an answer is being written."""
        self.prompt.busy = self.activity is Activity.ANSWERING
        self._show_status()
        self.refresh_bindings()

    def _show_status(self) -> None:
        bar = self._status
        bar.left = describe(self.setup) if self.setup else ("spectui",)
        bar.right = " • ".join(part for part in (self.tuning, str(self.activity)) if part)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stop only what runs."""
        del parameters
        if action == "stop":
            return self.activity in {Activity.LOADING, Activity.ANSWERING}
        if action == "draft":
            return self.setup is not None and self.setup.can_draft
        return True

    def action_stop(self) -> None:
        """End the answer or the load."""
        self.session.stop()

    def action_rejected(self) -> None:
        """Show or hide what the target refused."""
        transcript = self.transcript
        transcript.show_rejected = not transcript.show_rejected

    def action_settings(self) -> None:
        """Let the user change drafting and sampling."""
        setup, engine = self.setup, self.session.engine
        if setup is None or engine is None:
            self._warn("There is nothing to set before a pair is chosen.")
            return

        def change(changed: LiveSetup | None) -> None:
            if changed is not None:
                self.session.adopt(changed)

        self.app.push_screen(SettingsScreen(setup, engine.max_draft), change)

    def action_draft(self) -> None:
        """Draft on or off."""
        if self.setup is None:
            return
        self.session.speculate(self.setup.wanted if self.setup.speculation is None else None)
        if self.activity is Activity.ANSWERING:
            word = "off" if self.setup.speculation is None else "on"
            self.notify(f"The draft is {word} from the next answer on; this one goes on as it is.")

    def action_new(self) -> None:
        """Begin another conversation."""
        self.session.new_chat()

    def action_copy(self) -> None:
        """Copy the last answer (OSC 52)."""
        answer = self.transcript.last_answer
        if answer:
            self.app.copy_to_clipboard(answer)
            self.notify("The last answer was copied.")


def describe(setup: LiveSetup) -> tuple[str, ...]:
    """Return the pair, how it drafts, where it lies and how it samples, each with its name."""
    name = setup.target.path.stem
    sampled = _placed(setup), f"sampling {setup.sampling.label}"
    if setup.drafting is None:
        off = f"draft off ({_resting(setup)})" if setup.can_draft else "no draft"
        return name, off, *sampled
    *ahead, last = (f"{one.kind} {one.summary}".strip() for one in setup.drafting.chain)
    if setup.drafting.is_mtp:
        pair = name if setup.draft is None else f"{name} + {setup.draft.path.stem}"
        return pair, *ahead, last, *sampled
    if setup.draft is None or not setup.drafting.needs_draft:
        return name, *ahead, last, *sampled
    pair = f"{name} + {setup.draft.path.stem}"
    return pair, *ahead, f"draft {setup.drafting.own.summary}", *sampled


def _placed(setup: LiveSetup) -> str:
    """The target's layers and experts, the context and the threads, as llama-server's options."""
    target, context = setup.target, setup.context
    layers = "" if target.n_gpu_layers < 0 else f"-ngl {target.n_gpu_layers}"
    experts = "-cmoe" if target.cpu_moe else f"-ncmoe {target.n_cpu_moe}" * bool(target.n_cpu_moe)
    tensors = " ".join(f"-ot {one.pattern}={one.buffer}" for one in target.override_tensor)
    size = f"-c {context.ctx_size}"
    threads = f"-t {context.threads}" if context.threads else ""
    return " ".join(part for part in (layers, experts, tensors, size, threads) if part)


def _resting(setup: LiveSetup) -> str:
    """Names of the drafters that are switched off."""
    *ahead, last = (one.kind for one in setup.wanted.chain)
    if setup.draft is not None and setup.wanted.needs_draft:
        last = setup.draft.path.stem
    return ", ".join((*ahead, last))
