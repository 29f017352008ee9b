"""Rows of the left list."""

from collections.abc import Iterator, Sequence

from textual.widgets.option_list import Option

from spectui.models.files import FoundModel
from spectui.models.sizes import bytes_text, counted
from spectui.presets import Preset
from spectui.tui.glyphs import Glyphs
from spectui.tui.widgets.picker_choices import (
    Choice,
    DemoChoice,
    PresetChoice,
    RecentChoice,
    RecentPair,
)
from spectui.tui.widgets.picker_list import Entry, heading
from spectui.tui.widgets.picker_rows import Cell, Row
from spectui.tui.widgets.picker_text import short_folder, visible

_SIZE_CELLS, _LABEL_CELLS, _FOLDER_CELLS = 8, 18, 16
_PROSE_CELLS, _SAID_CELLS = 48, 20
_DAY = "%m-%d %H:%M"
"""As wide as what it writes."""


def fixed_sections(
    recent: Sequence[RecentPair], presets: Sequence[Preset], glyphs: Glyphs
) -> Iterator[tuple[str, list[tuple[str, Entry]]]]:
    """Titles and rows, each with the text that a filter looks at."""
    yield "Last used", [_recent_entry(pair, index, glyphs) for index, pair in enumerate(recent)]
    yield (
        "Presets",
        [
            _entry(PresetChoice(name=preset.name), preset.name, preset.description, glyphs)
            for preset in presets
        ],
    )
    about = "SmolLM2-135M and a target made from it; built in seconds the first time"
    yield "Demo", [_entry(DemoChoice(), "Demo pair", about, glyphs)]


def _entry(value: Choice, name: str, about: str, glyphs: Glyphs) -> tuple[str, Entry]:
    cells = (Cell(text=visible(about, glyphs), cells=_PROSE_CELLS, share=4, is_prose=True),)
    row = Row(visible(name, glyphs), cells, ellipsis=glyphs.ellipsis)
    return f"{name} {about}", Entry(value, row, f"{type(value).__name__} {name}", about)


def _recent_entry(pair: RecentPair, index: int, glyphs: Glyphs) -> tuple[str, Entry]:
    draft = f"with {pair.draft.stem}" if pair.draft else "alone"
    when = pair.when.astimezone()
    cells = (
        Cell(text=visible(draft, glyphs), cells=_LABEL_CELLS, share=1),
        Cell(text=visible(pair.said, glyphs), cells=_SAID_CELLS, share=2, is_prose=True),
        Cell(text=when.strftime(_DAY), cells=len(_DAY)),
    )
    row = Row(visible(pair.target.stem, glyphs), cells, ellipsis=glyphs.ellipsis)
    about = f"{when:%Y-%m-%d %H:%M}, {counted(pair.n_turns, 'turn')}. "
    about += "Starts this pair again and takes the chat up."
    entry = Entry(RecentChoice(recent=pair), row, f"recent {index}", about)
    return f"{pair.target} {pair.draft or ''} {pair.said}", entry


def model_entry(model: FoundModel, glyphs: Glyphs) -> Entry:
    """Row of a model that was found."""
    folder = visible(short_folder(model.path.parent), glyphs)
    is_unfit = bool(model.missing or model.cut)
    cells = (
        Cell(text=bytes_text(model.size_bytes), cells=_SIZE_CELLS, to_right=True),
        Cell(text="incomplete" if is_unfit else model.label, cells=_LABEL_CELLS),
        Cell(text=folder, cells=_FOLDER_CELLS, share=1),
    )
    name = visible(model.name, glyphs)
    row = Row(name, cells, ellipsis=glyphs.ellipsis, style="dim" if is_unfit else "")
    return Entry(model, row, str(model.path))


def searched_text(model: FoundModel) -> str:
    """What a filter looks at."""
    return f"{model.name} {model.path.parent}"


def models_heading(glyphs: Glyphs) -> Option:
    """Title of the models and of their columns."""
    cells = (
        Cell(text="size", cells=_SIZE_CELLS, to_right=True),
        Cell(text="parameters, quant", cells=_LABEL_CELLS),
        Cell(text="folder", cells=_FOLDER_CELLS, share=1),
    )
    return heading("Models found", cells, glyphs)
