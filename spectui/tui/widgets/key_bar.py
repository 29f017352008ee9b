"""The footer: the keys of the moment."""

from rich.cells import cell_len
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey  # Textual exports it nowhere else


class KeyBar(Footer):
    """A footer that is built anew only when it shows something else.

    Textual announces bindings whenever the focus, the screen or an action's state changes; most of
    these announcements change nothing here.
    """

    def __init__(self) -> None:
        """Show nothing yet. Compact, so that 80 columns hold every screen's keys."""
        super().__init__(show_command_palette=False, compact=True)
        self._shown: object = None

    async def recompose(self) -> None:
        """Build the keys, and show those for which there is room."""
        await super().recompose()
        self._fit()

    def on_resize(self) -> None:
        """There may be room for more, or for fewer."""
        self._fit()

    def _fit(self) -> None:
        """Leave out keys from the end rather than cut one; the help and the palette have all.

        The way out is the last to go.
        """
        room = self.size.width
        for key in sorted(self.query(FooterKey), key=lambda key: key.key != "escape"):
            room -= cell_len(key.render().plain)
            key.display = room >= 0
            room -= 1

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
