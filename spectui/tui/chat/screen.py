"""The live screen: its keys, its session, and the form of the settings."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.validation import Integer, Number
from textual.widgets import Input, Label

from spectui.errors import ReadsFromDiskError, SpectuiError
from spectui.live.controller import SessionController
from spectui.live.setup import Activity, LiveSetup
from spectui.options import catalogue, drafters
from spectui.options.option import INT_MAX, Decimal, Whole
from spectui.options.speculation import Speculation
from spectui.tui.chat.loading import PairLoader
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.view import LiveView
from spectui.tui.dialogs import QuestionScreen
from spectui.tui.launch import Launch
from spectui.tui.threads import Threads
from spectui.tui.widgets import KeyBar, hidden, key, key_of

_TOKENS = "n_predict"


class LiveScreen(LiveView):
    """Shows its session, and passes the user's actions on to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "live.stop", "Stop", "Stop the answer or the load"),
        key("escape", "live.back", "Back", "Watch the server again; its models stay loaded here"),
        key("f2", "live.rejected", "Rejected", "Show the drafted tokens that the target refused"),
        key("f3", "live.settings", "Settings", "Change drafting and sampling of the next answer"),
        key("f4", "live.draft", "Draft", "Let the next answer use the draft, or the target alone"),
        hidden("ctrl+n", "live.new", "New chat", "Begin another conversation with the same pair"),
        key("f9", "live.copy", "Copy", "Copy the last answer to the clipboard"),
    ]

    def __init__(
        self,
        launch: Launch,
        threads: Threads,
        *,
        choose_models: Callable[[str | None], None],
        warn: Callable[[str], None],
    ) -> None:
        """Begin without a session.

        Args:
            launch: options of the command line.
            threads: start the engine.
            choose_models: opens the picker, with a reason if something failed.
            warn: shows a sentence.
        """
        super().__init__()
        self._choose_models = choose_models
        self.warn = warn
        self.session = SessionController(self, keeps_sessions=launch.settings.keep_sessions)
        self.watch_again: Callable[[], Awaitable[None]] | None = None
        """Opens the screen over the server whose models were taken over; None without one."""
        self.loader = PairLoader(
            self.session, launch, threads, choose_models=choose_models, warn=warn
        )

    def on_mount(self) -> None:
        """Name the key of the log in the session's sentences."""
        super().on_mount()
        self.session.log = f"the log ({key_of(self.app, 'app.log')})"

    def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        """Send the prompt."""
        if not self.session.ask(message.text):
            self.prompt.put_back(message.text)
            if self.activity is Activity.NO_MODEL:
                self._choose_models(None)

    def on_key(self, event: Key) -> None:
        """Type into the prompt, whatever has the focus and leaves the key."""
        if event.is_printable and event.character is not None:
            event.stop()
            self.prompt.focus()
            self.prompt.insert(event.character)

    def unloaded(self, error: SpectuiError) -> None:
        """Have another pair chosen, or ask whether to load what would be slow."""
        if not isinstance(error, ReadsFromDiskError):
            self._choose_models(str(error))
            return

        def answered(loads: bool | None) -> None:  # noqa: FBT001 - a screen's result
            if loads:
                self.loader.load_from_disk()
            else:
                self._choose_models(None)

        question = QuestionScreen(
            f"{error.reason}.", yes="Load it all the same", no="Choose another pair"
        )
        self.app.push_screen(question, answered)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stop only what runs."""
        del parameters
        if action == "stop":
            return self.activity in {Activity.LOADING, Activity.ANSWERING}
        if action == "copy":
            return self.activity is Activity.READY
        if action == "back":
            is_idle = self.activity in {Activity.READY, Activity.NO_MODEL}
            return is_idle and self.watch_again is not None
        if action == "draft":
            return self.setup is not None and self.setup.can_draft
        return True

    def action_stop(self) -> None:
        """End the answer or the load. A prompt that waits for it goes back to the user."""
        if (text := self.session.take_back()) is not None:
            self.prompt.put_back(text)
        self.loader.stop()

    async def action_back(self) -> None:
        """Watch the server again."""
        if self.watch_again is not None:
            await self.watch_again()

    def action_rejected(self) -> None:
        """Show or hide what the target refused."""
        transcript = self.transcript
        transcript.show_rejected = not transcript.show_rejected

    def action_settings(self) -> None:
        """Let the user change drafting and sampling."""
        setup, engine = self.setup, self.session.engine
        if setup is None or engine is None:
            self.warn("There is nothing to set before a pair is chosen.")
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


def number_field(name: str, value: float, values: Whole | Decimal, why: str = "") -> Input:
    """Return the field of a number.

    Args:
        name: its id.
        value: the number now.
        values: those that it may have.
        why: reason for the limit, as it goes on after "must be 1 to 16".
    """
    is_whole = isinstance(values, Whole)
    has_limit = values.high not in {None, INT_MAX}
    bounds = f"{values.low:g} to {values.high:g}" if has_limit else f"at least {values.low:g}"
    check = (Integer if is_whole else Number)(
        values.low, values.high, failure_description=f"{name} must be {bounds}{why}"
    )
    text = str(int(value)) if is_whole else f"{value:g}"
    return Input(text, id=name, compact=True, validators=[check], validate_on=["submitted"])


def drafter_fields(drafter: drafters.DrafterSetting, max_draft: int) -> Iterator[Input]:
    """Yield the fields of a drafter, for a pair loaded for drafts up to ``max_draft``."""
    is_model = isinstance(drafter, drafters.ModelDrafter)
    for number in drafters.numbers_of(type(drafter)):
        values, why = number.values, ""
        # Of a model's drafts the shortest cannot be longer than the longest.
        bounds_drafts = number.bounds_drafts or is_model
        if isinstance(values, Whole) and bounds_drafts and max_draft < values.high:
            values = Whole(values.low, max_draft)
            why = ", which is what the pair was loaded for"
        if number.is_read:
            yield number_field(number.name, getattr(drafter, number.name), values, why)


def answer_fields(setup: LiveSetup) -> Iterator[Input]:
    """Yield the fields of every answer, independent of the drafter."""
    yield number_field(_TOKENS, setup.n_predict, Whole(-1, INT_MAX))
    samplers = (catalogue.TEMPERATURE, *(one for one in catalogue.SAMPLING if not one.is_switch))
    for option in samplers:
        values = option.values
        assert isinstance(values, Whole | Decimal)  # noqa: S101 - a sampler takes a number
        yield number_field(option.parameter, getattr(setup.sampling, option.parameter), values)


class SettingsScreen(ModalScreen[LiveSetup | None]):
    """A form; returns the changed setup, or None."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (64, "-normal")]  # noqa: RUF012 - as Screen has it

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "settings.cancel", "Cancel", "Change nothing", action="dismiss"),
        key("ctrl+s,f3", "settings.apply", "Apply", "Use these from now on"),
    ]

    def __init__(self, setup: LiveSetup, max_draft: int) -> None:
        """Show what ``setup`` says; the pair was loaded for drafts up to ``max_draft``."""
        super().__init__()
        self._setup = setup
        self._drafting = tuple(drafter_fields(setup.wanted.own, max_draft))
        self._answer = tuple(answer_fields(setup))
        self._system = Input(setup.system, id="system", compact=True)

    def compose(self) -> ComposeResult:
        """The drafter's numbers, then the fields of every answer."""
        with VerticalScroll() as form:
            form.border_title = "Settings of the next answer"
            form.border_subtitle = f"Enter applies, {key_of(self, 'settings.cancel')} cancels"
            for fields in (self._drafting, self._answer):
                with Grid():
                    for field in fields:
                        yield Label(str(field.id))
                        yield field
            yield Label("system message")
            yield self._system
            yield Label("", id="error", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Focus the first field."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query(Input).first().focus()

    def on_input_changed(self) -> None:
        """Take the error away."""
        self.query_one("#error", Label).update("")

    def on_input_submitted(self) -> None:
        """Enter applies the form."""
        self.action_apply()

    def action_apply(self) -> None:
        """Return the changed setup, or say what is wrong with it."""
        try:
            changed = self._changed()
        except ValueError as error:
            label = self.query_one("#error", Label)
            label.update(str(error))
            self.call_after_refresh(label.scroll_visible)
            return
        self.dismiss(changed)

    def _changed(self) -> LiveSetup:
        """Return the setup of the form. Raises ``ValueError`` with a sentence."""
        setup, own = self._setup, self._setup.wanted.own
        drafter = type(own)(**own.numbers | dict(map(_typed, self._drafting)))
        if (problem := drafter.check()) is not None:
            raise ValueError(problem)
        speculation = Speculation(drafter, setup.wanted.ahead)
        answer = dict(map(_typed, self._answer))
        n_predict = answer.pop(_TOKENS)
        if n_predict == 0:
            raise ValueError("0 tokens would be no answer; -1 is as many as fit")
        return replace(
            setup,
            speculation=None if setup.speculation is None else speculation,
            resting=speculation,
            sampling=replace(setup.sampling, **answer),
            n_predict=n_predict,
            system=self._system.value,
        )


def _typed(field: Input) -> tuple[str, Any]:
    """Return the id and the number of a field. Raises ``ValueError`` with a sentence."""
    checked = field.validate(field.value)
    if checked is not None and not checked.is_valid:
        raise ValueError(checked.failure_descriptions[0])
    is_whole = isinstance(field.validators[0], Integer)
    return str(field.id), int(field.value) if is_whole else float(field.value)
