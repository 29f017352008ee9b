"""Progress of what has to be ready before a chat: demo models, target, draft."""

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from spectui.tui.glyphs import glyphs_of

_BAR_CELLS = 24


class Loading(Widget):
    """One line per part with its bar; hidden while there is nothing to wait for."""

    DEFAULT_CSS = """
    Loading { height: auto; max-height: 8; padding: 0 1; background: $surface; display: none; }
    Loading.-busy { display: block; }
    """

    parts: reactive[tuple[tuple[str, float | None], ...]] = reactive((), layout=True)
    """(name, fraction) of each part; None for one that cannot say how far it is."""

    def set_part(self, name: str, fraction: float | None) -> None:
        """Add a part, or move its bar."""
        known = dict(self.parts)
        known[name] = fraction
        self.parts = tuple(known.items())
        self.add_class("-busy")

    def finish(self) -> None:
        """Nothing to wait for any more."""
        self.parts = ()
        self.remove_class("-busy")

    def render(self) -> Text:
        """Draw a line per part."""
        glyphs = glyphs_of(self)
        lines = []
        for name, fraction in self.parts:
            if fraction is None:
                lines.append(Text(f"{name} {glyphs.ellipsis}"))
                continue
            n_full = round(fraction * _BAR_CELLS)
            bar = glyphs.bar[-1] * n_full + glyphs.none * (_BAR_CELLS - n_full)
            lines.append(Text(f"{bar} {fraction:4.0%}  {name}"))
        return Text("\n").join(lines)
