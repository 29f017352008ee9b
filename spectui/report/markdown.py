"""The report as Markdown for an issue: bounded, and without paths and names of people.

Texts of others are escaped, so that they neither format, link, embed nor mention anybody.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from spectui import __version__
from spectui.format import counted, printable
from spectui.measure.verdict import Answer
from spectui.report.commands import bench_command, own_prompts, public_command
from spectui.report.content import Content
from spectui.report.section import Section, Table
from spectui.report.sections import SECTIONS
from spectui.report.summary import head_of
from spectui.report.words import short

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~])")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=\bwww)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)
"""Where GitHub would mention, refer or link, whatever stands before it."""
_PARTING = "\N{WORD JOINER}"
"""Nobody sees it."""
_LONGEST = 1500
_CHARTS = frozenset({"gain", "map"})
"""Sections that are little without their charts, which have no place here."""
_MOST_ROWS = 12


def render_markdown(content: Content) -> str:
    """Render a study."""
    return "\n".join((*_study(content), f"*Written by spectui {__version__}.*")) + "\n"


def _study(content: Content) -> Iterator[str]:
    head = head_of(content)
    told = "" if head.gain is None else f": {head.gain} {head.gain_words}"
    yield f"## {head.headline}{escaped(told)}"
    yield ""
    if head.gain is not None:
        yield f"{escaped(head.interval)}."
        yield ""
    if content.verdict is None or content.verdict.answer is Answer.UNDECIDED:
        yield escaped(head.reason)
        yield ""
    yield escaped(head.who)
    yield ""
    for tile in head.tiles:
        on = "" if tile.on is None else f" → **{escaped(tile.on)}**"
        yield f"- {escaped(tile.name)}: {escaped(tile.off)}{on}"
    yield ""
    yield from _commands(content)
    for section in SECTIONS:
        known = section.read(content)
        if known.value is not None and section.name not in _CHARTS:
            yield from _section(section.title, section.name, known.value)


def _commands(content: Content) -> Iterator[str]:
    command = public_command(content)
    if command.value is None:
        return
    yield from _fenced(command.value)
    prompts = own_prompts(content)
    name = None if prompts is None else Path(prompts.name)
    again = bench_command(content, command.value, name)
    if again is not None:
        yield "Measured again by:"
        yield ""
        yield from _fenced(again)


def _fenced(text: str) -> Iterator[str]:
    """A block of code that the text cannot end."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}sh"
    yield printable(text)
    yield fence
    yield ""


def _section(title: str, name: str, section: Section) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    if section.table is not None:
        yield from _table(section.table, n_words=None if name == "trials" else 2)
    for note in section.notes:
        # What fails says where models lie.
        if name != "trials" or not note.startswith("Trial "):
            yield escaped(note)
            yield ""
    yield "</details>"
    yield ""


def _table(table: Table, *, n_words: int | None) -> Iterator[str]:
    yield f"| {' | '.join(map(escaped, table.heads))} |"
    words = table.n_words if n_words is None else n_words
    yield f"|{'|'.join('---' if index < words else '--:' for index in range(len(table.heads)))}|"
    for row in table.rows[:_MOST_ROWS]:
        yield f"| {' | '.join(map(escaped, row))} |"
    if len(table.rows) > _MOST_ROWS:
        yield ""
        n_more = len(table.rows) - _MOST_ROWS
        yield f"{counted(n_more, 'more row')} in the page that `spectui report` writes."
    yield ""


def escaped(text: str) -> str:
    """A text of others as it stands, whatever it means in Markdown or HTML."""
    plain = printable(" ".join(short(text, _LONGEST).split()))
    whole = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKED.sub(_PARTING, _SPECIAL.sub(r"\\\1", whole))
