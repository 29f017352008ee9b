"""One choice among a few, all of them in sight."""

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

_LABEL_CELLS = 11


class ChoiceRow(Widget, can_focus=True):
    """A label and its options, on as many lines as they need.

    Brackets stand around what is chosen, and ``>`` before the row that has the keys.
    """

    DEFAULT_CSS = """
    ChoiceRow { height: auto; width: 100%; }
    ChoiceRow:focus { background: $boost; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Previous", show=False, id="choice.previous"),
        Binding(
            "right,l,space",
            "move(1)",
            "Choose",
            key_display="arrows",
            id="choice.next",
            tooltip="Choose the next option; up and down change the row",
        ),
        Binding("up,k", "app.focus_previous", "Row up", show=False, id="choice.up"),
        Binding("down,j,enter", "app.focus_next", "Row down", show=False, id="choice.down"),
    ]

    index: reactive[int] = reactive(0)

    @dataclass
    class Changed(Message):
        """Another option is chosen."""

        row: "ChoiceRow"
        index: int

    def __init__(
        self,
        label: str,
        options: tuple[str, ...],
        *,
        index: int = 0,
        id: str,  # noqa: A002 - Textual's name
        disabled: bool = False,
    ) -> None:
        """Offer ``options``, at least one; the one at ``index`` is chosen."""
        super().__init__(id=id, disabled=disabled)
        self.set_reactive(ChoiceRow.index, index)
        self._label = label
        self._options = options

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the options take."""
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        """Label and options."""
        return Text("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Text]:
        """Whole options on each line, below each other."""
        mark = ">" if self.has_focus else " "
        label = f"{mark} {self._label}".ljust(_LABEL_CELLS)
        lines = [Text(no_wrap=True).append(label, "bold")]
        for index, option in enumerate(self._options):
            chosen = index == self.index
            shown = f"[{option}]" if chosen else f" {option} "
            is_first = lines[-1].cell_len <= _LABEL_CELLS
            if not is_first and lines[-1].cell_len + cell_len(shown) > width:
                lines.append(Text(" " * _LABEL_CELLS, no_wrap=True))
            style = Style(bold=chosen, reverse=chosen, meta={"option": index})
            lines[-1].append(shown, style)
        return lines

    def validate_index(self, index: int) -> int:
        """Go around at both ends."""
        return index % len(self._options)

    def watch_index(self) -> None:
        """Tell the screen."""
        if self.is_mounted:
            self.post_message(self.Changed(self, self.index))

    def action_move(self, by: int) -> None:
        """Choose a neighbour."""
        self.index += by

    def on_click(self, event: Click) -> None:
        """Choose what is under the pointer."""
        option = event.style.meta.get("option")
        if isinstance(option, int):
            self.index = option
