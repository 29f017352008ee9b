"""The report as one page of HTML, which loads nothing and runs one little script."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spectui import __version__
from spectui.format import factor, printable, times_text
from spectui.known import Known
from spectui.report import summary
from spectui.report.commands import bench_command, own_command, own_prompts, shell_text
from spectui.report.content import Content
from spectui.report.section import Section
from spectui.report.sections import SECTIONS, Topic
from spectui.report.words import short, time_text

_MOST_CHARACTERS = 4000
"""Of a text of others; real ones are shorter."""
_BRIEF = 10
_PIECES = re.compile(r" (?=--?[A-Za-z])")
"""Where a command may be broken into lines: before its options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step to measure it again."""

    what: str
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What stands at the top and in the commands."""

    tone: str
    headline: str
    gain: str | None
    gain_words: str
    interval: str
    reason: str
    tiles: tuple[summary.Tile, ...]
    who: str
    command: str | None
    command_reason: str | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A part that is missing, and why."""

    title: str
    reason: str


def render_page(content: Content) -> str:
    """Render a study."""
    found = [(topic, topic.read(content)) for topic in SECTIONS]
    style, script = (Markup(_file(name)) for name in ("style.css", "copy.js"))  # noqa: S704 - the package's own files
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            version=__version__,
            title=f"{short(content.study)}: spectui report",
            style=style,
            script=script,
            style_hash=_digest(style),
            script_hash=_digest(script),
            study=_head(content),
            sections=[(topic, known.value) for topic, known in found if known.value is not None],
            lacks=_lacks(found),
        )
    )


def _lacks(found: Sequence[tuple[Topic, Known[Section]]]) -> tuple[Lack, ...]:
    """Sections that the study does not have, by the reason why."""
    titles: dict[str, list[str]] = {}
    for topic, known in found:
        if known.value is None:
            titles.setdefault((known.reason or "").rstrip("."), []).append(topic.title)
    return tuple(Lack(title=", ".join(told), reason=reason) for reason, told in titles.items())


def _head(content: Content) -> Head:
    command = own_command(content)
    return Head(
        tone=summary.tone(content),
        headline=content.headline,
        gain=summary.speedup_text(content),
        gain_words=summary.gain_words(content),
        interval=summary.certainty(content),
        reason=summary.reason(content),
        tiles=summary.tiles(content),
        who=summary.who(content),
        command=command.value,
        command_reason=command.reason,
        steps=_steps(content, command.value),
    )


def _steps(content: Content, command: str | None) -> tuple[Step, ...]:
    steps = []
    found = content.document
    if found.spectui is not None:
        binding = None if found.engine is None else found.engine.llama_cpp_python
        with_binding = "" if binding is None else f" with llama-cpp-python {short(binding)}"
        steps.append(Step(what=f"Install spectui {short(found.spectui)}{with_binding}."))
    if content.searched_by:
        words = ["spectui", "tune", *content.searched_by]
        steps.append(
            Step(what="Search again, with the options of this search.", command=shell_text(words))
        )
    again = None if command is None else bench_command(content, command, own_prompts(content))
    if again is not None:
        steps.append(Step(what="Measure the setting of the verdict alone.", command=again))
    if content.source.promise is not None:
        words = ["spectui", "verify", content.study, "--server-bin", "llama-server"]
        steps.append(
            Step(what="Hold the verdict against your own llama-server.", command=shell_text(words))
        )
    if not steps:
        steps.append(Step(what="The study does not keep how it was searched."))
    return tuple(steps)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("spectui.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["times"] = times_text
    environment.filters["seconds"] = time_text
    environment.filters["brief"] = _brief
    environment.filters["pieces"] = _PIECES.split
    return environment


def _shown(value: object) -> object:
    """A text of others as it may be shown: bounded, printable, and without the home folder."""
    if type(value) is not str:
        return value
    text = printable(short(value, _MOST_CHARACTERS), keep="\n")
    home = f"{Path.home()}/"
    return text.replace(home, "~/") if len(home) > len("//") else text


def _brief(speedup: float) -> str:
    """A speedup in a small cell."""
    return factor(speedup) if speedup < _BRIEF else f"{speedup:.0f}"


@cache
def _file(name: str) -> str:
    return resources.files("spectui.report").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    """What a content security policy calls a style or a script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
