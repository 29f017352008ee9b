"""Which parameter the speedup depends on."""

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from spectui.tui.glyphs import glyphs_of
from spectui.tui.tune.words import one_line
from spectui.tui.widgets.charts import bar

_UNKNOWN = "Not known yet: it takes eight measured trials that differ."


class ImportanceBars(Widget):
    """How much of the speedup's variance each parameter explains."""

    DEFAULT_CSS = "ImportanceBars { height: auto; }"

    importance: reactive[tuple[tuple[str, float], ...]] = reactive((), layout=True)
    """(parameter, share) pairs, largest first."""

    def render(self) -> Text:
        """One bar per parameter."""
        if not self.importance:
            return Text(_UNKNOWN)
        glyphs = glyphs_of(self)
        names = max(len(name) for name, _ in self.importance)
        room = max(1, self.size.width - names - len("  100%"))
        return Text("\n", no_wrap=True).join(
            Text(f"{one_line(name, glyphs):<{names}} {bar(share, room, glyphs)} {share:>4.0%}")
            for name, share in self.importance
        )
