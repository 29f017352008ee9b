"""Parts of several screens: keys, the footer, the line at the top."""

from functools import partial

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import Horizontal
from textual.dom import DOMNode
from textual.keys import format_key
from textual.screen import Screen
from textual.widgets import Footer, Static, Tab, Tabs
from textual.widgets._footer import FooterKey  # Textual exports it nowhere else

from spectui.settings import Settings


def key(
    keys: str,
    name: str,
    label: str = "",
    about: str = "",
    *,
    action: str = "",
    is_shown: bool = True,
    display: str | None = None,
) -> Binding:
    """Return a binding; those of an app go before those of its widgets.

    Args:
        keys: its keys, with commas between them.
        name: its id, by which users give it other keys: a place, a point, and a word.
        label: for the footer.
        about: for the help.
        action: what it does; without it, the id's word.
        is_shown: whether the footer has it.
        display: the key's name in the footer, if not the usual one.
    """
    place, word = name.split(".")
    return Binding(
        keys,
        action or word,
        label,
        show=is_shown,
        key_display=display,
        priority=place == "app",
        tooltip=about,
        id=name,
    )


QUIT_DISPLAY = "^Q"
"""Ctrl+Q in footers: it is on every screen, and 80 columns are few."""
hidden = partial(key, is_shown=False)
"""A binding that the footer leaves out."""


def key_of(node: DOMNode, name: str) -> str:
    """The keys of a node's action, the user's if there are any, as sentences have them: Ctrl+R."""
    settings = getattr(node.app, "settings", None)
    users = settings.keys if isinstance(settings, Settings) else {}
    bound = (one for kind in type(node).__mro__ for one in kind.__dict__.get("BINDINGS", ()))
    own = next(one.key for one in bound if isinstance(one, Binding) and one.id == name)
    return " or ".join(key_name(each.strip()) for each in users.get(name, own).split(","))


def key_name(keys: str) -> str:
    """Name a key as footers, helps and sentences do: F5, Esc, Ctrl+R, s."""
    *modifiers, last = keys.split("+")
    drawn = format_key(last)
    # Arrows have signs, which sentences do without.
    word = drawn if drawn.isascii() else last
    is_word = bool(modifiers) or len(word) > 1
    return "+".join([*map(str.title, modifiers), word.title() if is_word else word])


def chosen_tab(tabs: Tabs) -> int:
    """Return the place of the active tab, from 0 on."""
    return 0 if tabs.active_tab is None else list(tabs.query(Tab)).index(tabs.active_tab)


class KeyBar(Footer):
    """A footer that is built anew only when its keys differ.

    Textual announces bindings whenever the focus, the screen or an action's state changes; most of
    these announcements change nothing here.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__(show_command_palette=False)
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """The screen's own actions, the way out, then function keys by number, then the rest.

        A function key that repeats an action of the screen, or opens the screen, is left out.
        """
        by_label = dict[str, ActiveBinding]()
        for one in self.screen.active_bindings.values():
            if one.binding.show and one.binding.description != self.screen.TITLE:
                by_label.setdefault(one.binding.description, one)
        order = sorted(by_label.values(), key=lambda one: _place(one.binding))
        for _, binding, enabled, tooltip in order:
            name, label = self.app.get_key_display(binding), binding.description
            keys = FooterKey(binding.key, name, label, binding.action, not enabled, tooltip)
            keys.compact = False
            yield keys

    async def recompose(self) -> None:
        """Build the keys, and show those for which there is room."""
        await super().recompose()
        self._fit()

    def on_resize(self) -> None:
        """There may be room for more, or for fewer."""
        self._fit()

    def _fit(self) -> None:
        """Close ranks, and leave out keys from the end rather than cut one; the help has all.

        The ways out and the help are the last to go.
        """
        room, keys = self.size.width, list(self.query(FooterKey))
        texts = {key: cell_len(key.key_display) + cell_len(key.description) for key in keys}
        self.set_class(sum(texts.values()) + 2 * len(keys) > room, "-dense")
        for key in sorted(keys, key=lambda key: key.key not in _LAST_TO_GO):
            room -= texts[key] + (1 if self.has_class("-dense") else 2)
            key.display = room >= 0
            key.refresh(layout=True)

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Build the keys anew if they differ."""
        if not screen.app.app_focus:
            # Announced again when the terminal has the focus.
            return
        active = screen.active_bindings.values()
        shown = [(each.binding, each.enabled) for each in active if each.binding.show]
        if shown != self._shown:
            self._shown = shown
            super().bindings_changed(screen)


_LAST_TO_GO = frozenset({"escape", "f1", "ctrl+q"})


def _place(binding: Binding) -> tuple[int, int]:
    """Order of a key in the footer; those of one place stay as their screen has them."""
    key = binding.key
    if key[:1] == "f" and key[1:].isdecimal():
        return 2, int(key[1:])
    return (3 if (binding.id or "").startswith("app.") else int(key == "escape")), 0


class StatusBar(Horizontal):
    """The pair and its settings left, the activity right; the left side gives way."""

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self.left = Static(markup=False, classes="left")
        self.right = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Both sides on one line."""
        yield self.left
        yield self.right
