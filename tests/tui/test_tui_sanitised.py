"""Nothing of others reaches the terminal as a command, whatever widget shows it."""

from collections.abc import Sequence

from rich.segment import Segment
from textual.app import ComposeResult
from textual.color import Color
from textual.widgets import Log, Static

from spectui.settings import Settings
from spectui.tui.base_app import BaseApp
from spectui.tui.glyphs import SanitisingFilter
from tests.support.cockpit import handled, screen_lines

HOSTILE = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\u202e"


class Shown(BaseApp):
    """Shows hostile text in a log and elsewhere."""

    def compose(self) -> ComposeResult:
        """Two widgets that know nothing of it."""
        yield Static(HOSTILE, markup=False)
        yield Log()

    def _show_events(self, events: Sequence[object]) -> None: ...


async def test_no_widget_draws_what_a_terminal_obeys() -> None:
    app = Shown(Settings(), theme=None, ascii=False)
    async with app.run_test() as pilot:
        app.query_one(Log).write_line(HOSTILE)
        await handled(pilot)
        drawn = "".join(screen_lines(app))
    assert "]0;title" in drawn
    assert not any(one in drawn for one in "\x1b\x07\x9b\u202e")


def test_a_line_stays_as_wide_as_it_was() -> None:
    kept = [Segment("plain"), Segment("é\u0301 👩\u200d💻\u00a0x")]
    found = SanitisingFilter().apply([*kept, Segment(HOSTILE)], Color.parse("black"))
    assert found[:2] == kept
    assert sum(one.cell_length for one in found) == sum(
        one.cell_length for one in [*kept, Segment(HOSTILE)]
    )
