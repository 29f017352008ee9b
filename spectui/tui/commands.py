"""The one registry of actions: the bindings of the app and its screens, by their stable ids."""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

if TYPE_CHECKING:
    from spectui.tui.base_app import BaseApp


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a key does, and where."""

    id: str
    keys: str
    label: str
    help: str
    action: str
    is_shown: bool
    """Whether the footer shows it."""

    @property
    def place(self) -> str:
        """The screen that it belongs to: the first part of the id."""
        return self.id.split(".", 1)[0]


def own_bindings(node_type: type[DOMNode]) -> Iterator[Binding]:
    """Bindings with an id that a class and its parents define."""
    for kind in node_type.__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                yield binding


def actions_of(node_type: type[DOMNode], app: "BaseApp") -> Iterator[Action]:
    """Actions of a class, with the keys that the user has chosen."""
    for binding in own_bindings(node_type):
        keys = app.settings.keys.get(str(binding.id), binding.key)
        yield Action(
            id=str(binding.id),
            keys=", ".join(
                app.get_key_display(Binding(key.strip(), "")) for key in keys.split(",")
            ),
            label=binding.description,
            help=binding.tooltip or binding.description,
            action=binding.action,
            is_shown=binding.show,
        )


def all_actions(app: "BaseApp") -> tuple[Action, ...]:
    """Every action of every screen, by screen."""
    # Imported here: the screens of later use are not needed to start.
    from spectui.tui.screens.export import ExportScreen  # noqa: PLC0415
    from spectui.tui.screens.live import LiveScreen  # noqa: PLC0415
    from spectui.tui.screens.picker import PickerScreen  # noqa: PLC0415
    from spectui.tui.screens.settings import SettingsScreen  # noqa: PLC0415
    from spectui.tui.screens.tune import TuneScreen  # noqa: PLC0415
    from spectui.tui.screens.whatif import WhatIfScreen  # noqa: PLC0415
    from spectui.tui.widgets.picker_folder import FolderScreen  # noqa: PLC0415
    from spectui.tui.widgets.picker_list import PickerList  # noqa: PLC0415
    from spectui.tui.widgets.prompt_box import PromptBox  # noqa: PLC0415
    from spectui.tui.widgets.whatif_stepper import Stepper  # noqa: PLC0415

    places = (
        type(app),
        LiveScreen,
        PromptBox,
        SettingsScreen,
        TuneScreen,
        WhatIfScreen,
        Stepper,
        ExportScreen,
        PickerScreen,
        PickerList,
        FolderScreen,
    )
    found = {action.id: action for place in places for action in actions_of(place, app)}
    return tuple(found.values())


def attach_actions(app: "BaseApp") -> tuple[Action, ...]:
    """Every action of the screen over a running server, which is an app of its own."""
    from spectui.tui.attach.app import AttachApp  # noqa: PLC0415
    from spectui.tui.screens.attach import AttachScreen  # noqa: PLC0415

    places = (AttachApp, AttachScreen)
    return tuple(action for place in places for action in actions_of(place, app))


def system_commands(app: "BaseApp", screen: Screen[object]) -> Iterable[SystemCommand]:
    """Offer what can be done now in the command palette, each once, by the key that is shown."""
    for node in (screen, app):
        # The last of each action counts: the one whose key the footer shows.
        found = sorted(actions_of(type(node), app), key=lambda action: action.is_shown)
        for action in {action.action: action for action in found}.values():
            if node.check_action(action.action, ()):
                yield SystemCommand(
                    f"{action.label} ({action.keys})",
                    action.help,
                    _runner(app, action, node),
                )


def _runner(
    app: "BaseApp", action: Action, node: DOMNode
) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        await app.run_action(action.action, node)

    return run
