"""The characters that graphics are made of: Unicode, or ASCII for terminals that lack it."""

from dataclasses import dataclass

from textual.widget import Widget


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """One set. Strings of several characters go from empty to full."""

    spark: str
    """Levels of a history, the first one for nothing."""
    bar: str
    """Parts of a horizontal bar's last cell, the first one empty and the last one full."""
    segments: str
    """Fillings that tell the parts of a stacked bar apart without colour."""
    accepted: str
    rejected: str
    bonus: str
    """Marks of one token in the strip of rounds."""
    reject_open: str
    reject_close: str
    """Around a rejected draft inside the text."""
    up: str
    down: str
    warning: str
    none: str
    """In place of a number that is not there."""
    bullet: str
    ellipsis: str
    times: str


UNICODE = Glyphs(
    spark=" ▁▂▃▄▅▆▇█",
    bar=" ▏▎▍▌▋▊▉█",
    segments="█▓▒░▚▞",
    accepted="■",
    rejected="□",
    bonus="▪",
    reject_open="⟨",
    reject_close="⟩",
    up="↑",
    down="↓",
    warning="▲",
    none="–",
    bullet="•",
    ellipsis="…",
    times="×",
)
ASCII = Glyphs(
    spark=" .:-=+*#@",
    bar=" -=#",
    segments="#=+:%o",
    accepted="#",
    rejected="x",
    bonus="+",
    reject_open="[-",
    reject_close="-]",
    up="^",
    down="v",
    warning="!",
    none="-",
    bullet="*",
    ellipsis="...",
    times="x",
)


def glyphs_of(widget: Widget) -> Glyphs:
    """Characters that the widget's app is set to; Unicode in an app that does not say."""
    found = getattr(widget.app, "glyphs", UNICODE)
    return found if isinstance(found, Glyphs) else UNICODE
