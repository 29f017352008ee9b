"""An animated SVG of a terminal: text and rectangles, each of which is there for a while.

What stays the same from one frame to the next is drawn once. The animation is SVG's own (SMIL): it
plays inside ``<img>``, where neither scripts nor anything from elsewhere is allowed. Where nothing
is animated, and for readers who want less motion, the picture is the last frame.

The characters of the picture are embedded, as a part of DejaVu Sans Mono, which comes with
matplotlib: bars and frames join in each viewer.
"""

import base64
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import matplotlib as mpl
from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped] # has no types
from fontTools.ttLib import TTFont  # type: ignore[import-untyped] # as above

from tools.film import Frame, Look, Row

_CELL, _ROW = 10, 19
"""Size of a character. Lines touch, so that frames and bars have no gaps."""
_FONT_SIZE, _BASELINE = 16.6, 15
_MARGIN, _TITLE = 16, 38
_BACKGROUND, _FOREGROUND = "#111418", "#dcdfe4"
_FAMILY = "cast,ui-monospace,Menlo,Consolas,monospace"
_FONTS = {"normal": "DejaVuSansMono.ttf", "bold": "DejaVuSansMono-Bold.ttf"}
_PIECE = re.compile(r"[\u2801-\u28ff]+|[^\s█\u2800-\u28ff]+(?: [^\s█\u2800-\u28ff]+)*")
"""Dots of a plot, or words up to a gap: a number may change where its label stays."""
_BAR_OR_NOT = re.compile("█+|[^█]+")
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a braille character, which few fonts have."""
_FIRST_DOTS = "\u2800"

Span = tuple[int, int]
"""First frame in which something is there, and first in which it is not."""


class _Looks:
    """Short class names of the colours and styles of texts."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, look: Look) -> str:
        """Return the class of ``look``."""
        lines = ("underline" * look.is_underlined, "line-through" * look.is_struck)
        decoration = " ".join(filter(None, lines))
        css = ";".join(
            (
                f"fill:{_resolved(look.foreground) or _FOREGROUND}",
                *(["font-weight:bold"] * look.is_bold),
                *(["font-style:italic"] * look.is_italic),
                *([f"text-decoration:{decoration}"] if decoration else []),
            )
        )
        return self._names.setdefault(css, f"l{len(self._names)}")

    def css(self) -> str:
        """Return the rules of all names so far."""
        return "".join(f".{name}{{{css}}}" for css, name in self._names.items())


def draw(frames: Sequence[Frame], *, end_s: float, title: str, about: str) -> str:
    """Return the picture of ``frames``, which starts anew at ``end_s``.

    Args:
        frames: screens of one size, each shown until the next.
        end_s: time of the end; ``time_s`` of the first frame is 0.
        title: words in the window's bar.
        about: what there is to see, for readers who cannot.
    """
    n_rows = len(frames[0].rows)
    n_columns = max(run.column + len(run.text) for run in frames[0].rows[0])
    width = n_columns * _CELL + 2 * _MARGIN
    height = n_rows * _ROW + _TITLE + _MARGIN
    looks = _Looks()
    rectangles = _groups((_rectangles(frame.rows) for frame in frames), frames, end_s)
    texts = _groups((_texts(frame.rows, looks) for frame in frames), frames, end_s)
    used = {True: set(title), False: set(title)}
    for frame in frames:
        for row in frame.rows:
            for run in row:
                used[run.look.is_bold].update(run.text)
    dots = "".join(
        f'<circle cx="{22 + 20 * index}" cy="19" r="6" fill="{colour}"/>'
        for index, colour in enumerate(("#ff6f6f", "#ffd75f", "#5fd787"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(about)}">'
        f"<title>{escape(about)}</title><style>{_fonts(used)}"
        f"text{{font:{_FONT_SIZE}px {_FAMILY};fill:{_FOREGROUND};white-space:pre}}{looks.css()}"
        # Of a user's wishes, this one is stronger than the animation.
        "@media(prefers-reduced-motion:reduce){.o{display:none!important}"
        ".e{display:inline!important}}</style>"
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9" '
        f'fill="{_BACKGROUND}" stroke="#59616d"/>{dots}'
        f'<text x="{width // 2}" y="24" text-anchor="middle">{escape(title)}</text>'
        # All times are those of this round, which begins again at its end.
        f'<set id="c" attributeName="class" to="c" begin="0;c.end" dur="{_seconds(end_s)}"/>'
        f'<g transform="translate({_MARGIN} {_TITLE})">{rectangles}{texts}</g></svg>\n'
    )


def _groups(drawn: Iterable[set[str]], frames: Sequence[Frame], end_s: float) -> str:
    """Return the elements of all frames, those of the same times together."""
    times = [*(frame.time_s for frame in frames), end_s]
    spans: dict[str, list[Span]] = defaultdict(list)
    for index, elements in enumerate(drawn):
        for element in elements:
            known = spans[element]
            if known and known[-1][1] == index:
                known[-1] = (known[-1][0], index + 1)
            else:
                known.append((index, index + 1))
    together: dict[tuple[Span, ...], list[str]] = defaultdict(list)
    for element, where in spans.items():
        together[tuple(where)].append(element)
    return "".join(
        _group(where, sorted(elements), times) for where, elements in sorted(together.items())
    )


def _group(where: tuple[Span, ...], elements: Sequence[str], times: Sequence[float]) -> str:
    """Return elements that are there at the same times; without animation as at the end."""
    n_frames = len(times) - 1
    content = "".join(elements)
    if where == ((0, n_frames),):
        return content
    is_last = where[-1][1] == n_frames
    changes = _gaps(where) if is_last else where
    to = "none" if is_last else "inline"
    sets = "".join(
        f'<set attributeName="display" to="{to}" begin="c.begin+{_seconds(times[begin])}" '
        f'dur="{_seconds(times[end] - times[begin])}"/>'
        for begin, end in changes
    )
    attributes = 'class="e"' if is_last else 'class="o" display="none"'
    return f"<g {attributes}>{content}{sets}</g>"


def _gaps(where: tuple[Span, ...]) -> Iterator[Span]:
    """When something is not there that is there at the end."""
    before = 0
    for begin, end in where:
        if begin > before:
            yield before, begin
        before = end


def _seconds(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def _texts(rows: Sequence[Row], looks: _Looks) -> set[str]:
    """Return the texts of a frame, and the dots of its plots."""
    found: set[str] = set()
    for index, row in enumerate(rows):
        for run in row:
            name = looks.name(run.look)
            has_line = run.look.is_underlined or run.look.is_struck
            pieces = [(0, run.text)] if has_line else _pieces(run.text)
            for offset, text in pieces:
                x, y = (run.column + offset) * _CELL, index * _ROW
                if text[0] > _FIRST_DOTS:
                    found.add(f'<path class="{name}" d="{_dots(text, x, y)}"/>')
                    continue
                # A viewer without the font keeps the columns.
                found.add(
                    f'<text class="{name}" x="{x}" y="{y + _BASELINE}" '
                    f'textLength="{len(text) * _CELL}">{escape(text)}</text>'
                )
    return found


def _pieces(text: str) -> list[tuple[int, str]]:
    return [(match.start(), match[0]) for match in _PIECE.finditer(text)]


def _dots(text: str, x: int, y: int) -> str:
    """Return the path of the dots of braille characters."""
    return "".join(
        f"M{x + index * _CELL + 5 * column + 1} {y + 5 * row + 1}h3v3h-3z"
        for index, character in enumerate(text)
        for bit, (column, row) in enumerate(_DOTS)
        if (ord(character) - ord(_FIRST_DOTS)) >> bit & 1
    )


def _areas(row: Row) -> Iterator[tuple[int, int, str | None]]:
    """Yield column, width and colour of what lies below a row's texts.

    Bars are such areas, too: characters side by side let the background through between them.
    """
    for run in row:
        for match in _BAR_OR_NOT.finditer(run.text):
            is_bar = match[0].startswith("█")
            colour = run.look.foreground or _FOREGROUND if is_bar else run.look.background
            yield run.column + match.start(), len(match[0]), _resolved(colour)


def _rectangles(rows: Sequence[Row]) -> set[str]:
    """Return the backgrounds of a frame; what lies below each other is joined."""
    found: set[str] = set()
    open_ones: dict[tuple[int, int, str], int] = {}
    for index, row in enumerate((*rows, ())):
        here = {
            (column * _CELL, width * _CELL, colour)
            for column, width, colour in _areas(row)
            if colour is not None and colour != _BACKGROUND
        }
        for ended in open_ones.keys() - here:
            x, width, colour = ended
            top = open_ones.pop(ended)
            found.add(
                f'<rect x="{x}" y="{top * _ROW}" width="{width}" '
                f'height="{(index - top) * _ROW}" fill="{colour}"/>'
            )
        open_ones |= dict.fromkeys(here - open_ones.keys(), index)
    return found


def _resolved(colour: str | None) -> str | None:
    """Return a colour that SVG knows."""
    return {"background": _BACKGROUND, "foreground": _FOREGROUND}.get(colour or "", colour)


def _fonts(used: dict[bool, set[str]]) -> str:
    """Return the faces with the characters that are used."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    return "".join(
        f"@font-face{{font-family:cast;font-weight:{weight};"
        f"src:url(data:font/woff;base64,{_subset(folder / name, used[weight == 'bold'])})}}"
        for weight, name in _FONTS.items()
    )


def _subset(path: Path, characters: set[str]) -> str:
    """Return a font of those characters alone, as text."""
    options = Options(
        flavor="woff", hinting=False, layout_features=[], drop_tables=["FFTM", "GSUB", "GPOS"]
    )
    subsetter = Subsetter(options)
    subsetter.populate(text="".join(sorted(characters)))
    # The time of drawing is not part of the picture.
    font = TTFont(path, recalcTimestamp=False)
    subsetter.subset(font)
    font.flavor = "woff"
    out = io.BytesIO()
    font.save(out)
    return base64.b64encode(out.getvalue()).decode("ascii")
