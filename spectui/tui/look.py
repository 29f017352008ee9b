"""The colours, one for each thing that is drawn, and filters of all that is drawn.

One filter takes control characters out, another one the characters that an ASCII terminal lacks.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App, ReturnType, SystemCommand
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme

from spectui.format import printable

_LOOKS = "dark", "light", "high-contrast", "ansi"

_Colours = tuple[str, str, str, str]
"""Colours in spectui's looks, and in the terminal's own."""

ROLES: Final[dict[str, tuple[str, _Colours]]] = {
    "target": ("the target", ("#5fafff", "#0057ae", "#00ffff", "ansi_bright_blue")),
    "draft": (
        "the draft, and the tokens of it that are accepted",
        ("#af87ff", "#6b3fa0", "#c8a8ff", "ansi_bright_magenta"),
    ),
    "rejected": (
        "drafted tokens that are rejected, and rolling them back",
        ("#ff87d7", "#a8206f", "#ff70c8", "ansi_magenta"),
    ),
    "cache": ("the KV cache", ("#5fd7d7", "#00646e", "#8080ff", "ansi_cyan")),
    "compute": ("compute buffers", ("#ffaf5f", "#8f4700", "#ffa040", "ansi_blue")),
    "gain": ("faster than the target alone", ("#5fd787", "#0a6b2d", "#00ff00", "ansi_green")),
    "loss": ("slower, or failed", ("#ff6f6f", "#b3201b", "#ff8080", "ansi_bright_red")),
    "caution": ("a warning", ("#ffd75f", "#7a5000", "#ffff00", "ansi_yellow")),
}
"""The legend: the name in styles (``$name``) of what has a colour of its own, and what it is.

Everything else has the colour of text.
"""
_FRAMES = "#707a86", "#858b93", "#c0c0c0", "ansi_bright_black"
_BASE = {
    "dark": ("#b4c2d2", "#dcdfe4", "#111418", "#171b21", "#20262e"),
    "light": ("#34495e", "#1c1f23", "#fbfbf9", "#f1f1ee", "#e4e4df"),
    "high-contrast": ("#ffffff", "#ffffff", "#000000", "#000000", "#1a1a1a"),
}
"""Accent, text, background, surface and panel of spectui's themes."""
_TEXT = {True: "#e0e0e0", False: "#1f1f1f"}
"""Text in looks that leave it to Textual, dark and light."""


def _variables(look: str) -> dict[str, str]:
    place = _LOOKS.index(look)
    own = {name: colours[place] for name, (_meaning, colours) in ROLES.items()}
    return {"frame": _FRAMES[place], **own}


def _theme(look: str) -> Theme:
    primary, foreground, background, surface, panel = _BASE[look]
    roles = _variables(look)
    return Theme(
        name=f"spectui-{look}",
        dark=look != "light",
        primary=primary,
        secondary=primary,
        accent=primary,
        success=roles["gain"],
        warning=roles["caution"],
        error=roles["loss"],
        foreground=foreground,
        background=background,
        surface=surface,
        panel=panel,
        variables={**roles, "border": primary, "border-blurred": roles["frame"]},
    )


THEMES: Final = tuple(map(_theme, _BASE))


class ColouredApp(App[ReturnType]):
    """An app in spectui's style, with the roles' colours in every look."""

    # Absolute: a relative path would be resolved beside the module of a subclass.
    CSS_PATH = Path(__file__).with_name("spectui.tcss")

    def __init__(self, *, theme: str | None = None, ascii: bool = False) -> None:  # noqa: A002 - the option's name
        """Choose the look.

        Args:
            theme: its name; None for the usual one.
            ascii: whether only ASCII characters are drawn.
        """
        super().__init__()
        for each in THEMES:
            self.register_theme(each)
        self.unknown_theme = None if theme in {None, *self.available_themes} else theme
        self.theme = THEMES[0].name if theme is None or self.unknown_theme else theme
        self._own_filters = (SanitisingFilter(), *((AsciiFilter(),) if ascii else ()))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Draw what a terminal may be given, and ASCII where it has nothing else."""
        return (*super().get_line_filters(), *self._own_filters)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002 - as ``App`` has it
        """Return what the palette lists, the looks by name first: all else has a key."""
        for name in dict.fromkeys((*(one.name for one in THEMES), *self.available_themes)):
            now = ", as it is now" if name == self.theme else ""
            choose = partial(setattr, self, "theme", name)
            yield SystemCommand(f"Look: {name}", f"Draw in these colours{now}", choose)
        # The palette closes first.
        picture = partial(self.set_timer, 0.1, self.deliver_screenshot)
        yield SystemCommand("Picture", "Save this screen as SVG", picture)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the roles' colours for looks that have none of their own."""
        theme = self.current_theme
        if theme.ansi:
            return _variables("ansi")
        found = _variables("dark" if theme.dark else "light")
        found["frame"] = f"{theme.foreground or _TEXT[theme.dark]} 60%"
        own = {"gain": theme.success, "loss": theme.error, "caution": theme.warning}
        return found | {name: colour for name, colour in own.items() if colour}


_OTHER = re.compile(r"[^\x00-\x7f]")
_IN_ASCII = {
    "▁▂▃▄▅▆▇█": ".:-=+**#",
    "▏▎▍▌▋▊▉▔": "||||||| ",
    "▓▒░▚▞": "=+:%o",
    # Ends of lines: the digits that are drawn of these stay apart.
    "╺╸╶╴": "    ",
    "■□▪•◆●": "#x+*=o",
    "⟨⟩↑↓▲": "[]^v!",
    "–−…×·±’°αγµ": "--.x.~'oagu",
}
_TABLE = {
    one: other
    for these, those in _IN_ASCII.items()
    for one, other in zip(these, those, strict=True)
} | {"🔎": "/ "}


class SanitisingFilter(LineFilter):
    """Takes control characters out, which models, servers and logs may send."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before."""
        del background
        return [
            one
            if one.control or one.text.isprintable()
            else one._replace(text="".join(map(_neutralised, one.text)))
            for one in segments
        ]


def _neutralised(character: str) -> str:
    # Most of them take no cell.
    return printable(character, mark="?" * cell_len(character))


class AsciiFilter(LineFilter):
    """Replaces the characters that an ASCII terminal lacks."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before, in ASCII."""
        del background
        return [segment._replace(text=plain(segment.text)) for segment in segments]


def plain(text: str) -> str:
    """Return ``text`` in ASCII, as many cells wide."""
    return text if text.isascii() else _OTHER.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    if character in _TABLE:
        return _TABLE[character]
    words = unicodedata.name(character, "").split()
    if words[:2] != ["BOX", "DRAWINGS"]:
        return "?" * cell_len(character)
    is_upright = not {"VERTICAL", "UP", "DOWN"}.isdisjoint(words)
    is_level = not {"HORIZONTAL", "LEFT", "RIGHT"}.isdisjoint(words)
    return "|" if not is_level else "+" if is_upright else "-"
