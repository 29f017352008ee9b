"""Screens with their times, and how a recording of them is cut to a film.

Waiting is shortened, and what is shortened says so.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_STEP_S = 0.2
"""Between two frames of the film, at least: most of what changes are numbers."""
_AS_IT_WAS = 1.05
"""Factor below which nobody sees that time runs faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Colours as ``#rrggbb`` or a name, None for the terminal's own; and the style of a text."""

    foreground: str | None = None
    background: str | None = None
    is_bold: bool = False
    is_italic: bool = False
    is_underlined: bool = False
    is_struck: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one look."""

    column: int
    text: str
    look: Look


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, and when it came."""

    time_s: float
    rows: tuple[Row, ...]

    @property
    def text(self) -> str:
        """The screen without its looks."""
        return "\n".join("".join(run.text for run in row) for row in self.rows)


_WHOLE = 9.95
"""Factor from which no decimal is told."""
_CAPTION = Look(foreground="#5fafff", is_bold=True)
_CLOCK = Look(foreground="#9aa3af")
_FAST = Look(foreground="#111418", background="#ffd75f", is_bold=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A part of a recording, and how it is shown."""

    caption: str
    """What happens, under the screen."""
    begin_s: float
    end_s: float
    longest_s: float
    """On film: what took longer is shown faster, and what took less at its own pace."""
    hold_s: float = 0.0
    """How long the last screen stands still after it."""
    is_typed: bool = False
    """Whether its screens come evenly over ``longest_s``: a program types faster than anybody."""


def cut(recording: Sequence[Frame], scenes: Sequence[Scene]) -> tuple[list[Frame], float]:
    """Return the frames of the film with a caption under each, and the time of its end."""
    film: list[Frame] = []
    at_s = 0.0
    for scene in scenes:
        length_s = _length_s(scene)
        pace = _pace(scene, length_s)
        for offset_s, frame in _moments(recording, scene, length_s):
            _show(film, at_s + offset_s, frame, scene.caption, pace)
        at_s += length_s
        if scene.hold_s:
            _show(film, at_s, frame, scene.caption, "")
            at_s += scene.hold_s
    return film, at_s


def _show(film: list[Frame], at_s: float, frame: Frame, caption: str, pace: str) -> None:
    rows = (*frame.rows, *_under(frame, caption, pace))
    if not film or film[-1].rows != rows:
        film.append(Frame(at_s, rows))


def _length_s(scene: Scene) -> float:
    if scene.is_typed:
        return scene.longest_s
    return min(scene.longest_s, scene.end_s - scene.begin_s)


def _moments(
    recording: Sequence[Frame], scene: Scene, length_s: float
) -> Iterator[tuple[float, Frame]]:
    """Yield what is shown of a scene, with its time on film."""
    times = [frame.time_s for frame in recording]
    first = max(0, bisect_right(times, scene.begin_s) - 1)
    end = bisect_right(times, scene.end_s)
    if scene.is_typed:
        shown = recording[first:end]
        for index, frame in enumerate(shown):
            yield length_s * index / len(shown), frame
        return
    n_steps = max(1, round(length_s / _STEP_S))
    for step in range(n_steps):
        share = (step + 1) / n_steps
        time_s = scene.begin_s + (scene.end_s - scene.begin_s) * share
        index = max(first, bisect_right(times, time_s) - 1)
        yield length_s * step / n_steps, Frame(time_s, recording[index].rows)


def _pace(scene: Scene, length_s: float) -> str:
    """Return how much faster than in fact a scene is shown; empty where it is not."""
    faster = (scene.end_s - scene.begin_s) / length_s
    if scene.is_typed or faster < _AS_IT_WAS:
        return ""
    return f" time-lapse {faster:.{0 if faster >= _WHOLE else 1}f}× "


def _under(frame: Frame, caption: str, pace: str) -> tuple[Row, Row]:
    """Return the lines under a screen: what happens, at which pace, and the real clock."""
    n_columns = sum(len(run.text) for run in frame.rows[0])
    minutes, seconds = divmod(int(frame.time_s), 60)
    clock = f" {minutes}:{seconds:02d} "
    left = n_columns - len(clock) - len(pace)
    runs = [Run(0, f" {caption}".ljust(left)[:left], _CAPTION)]
    if pace:
        runs.append(Run(left, pace, _FAST))
    runs.append(Run(n_columns - len(clock), clock, _CLOCK))
    blank = (Run(0, " " * n_columns, Look()),)
    return blank, tuple(runs)
