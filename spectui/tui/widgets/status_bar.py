"""One line above the transcript: which pair, how it drafts, what it is doing."""

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget


class StatusBar(Widget):
    """Left the pair and its settings, right the activity; the left side gives way."""

    DEFAULT_CSS = """
    StatusBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    left: reactive[str] = reactive("")
    right: reactive[str] = reactive("")

    def render(self) -> Text:
        """Draw both sides into one line."""
        width = self.size.width
        right = Text(self.right, no_wrap=True)
        right.truncate(width, overflow="ellipsis")
        left = Text(self.left, no_wrap=True)
        left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
        gap = max(1, width - left.cell_len - right.cell_len)
        return Text.assemble(left, " " * gap, right, no_wrap=True)
