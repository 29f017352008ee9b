"""The live screen: its keys, and the session that they lead."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType

from spectui.live.setup import Activity, Launch, LiveSetup
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.chat.session import SessionController
from spectui.tui.chat.settings import SettingsScreen
from spectui.tui.chat.view import LiveView
from spectui.tui.threads import Threads
from spectui.tui.widgets import hidden, key


class LiveScreen(LiveView):
    """Shows the session that it owns, and takes what the user wants to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "live.stop", "Stop", "Stop the answer or the load"),
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
        self._warn = warn
        self.session = SessionController(
            launch, self, threads, choose_models=choose_models, warn=warn
        )

    def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        """Send the prompt."""
        self.session.ask(message.text)

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
