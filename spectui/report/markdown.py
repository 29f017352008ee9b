"""The report in Markdown, bounded and without paths and names of people.

It is whole for an issue, or a row of a table that many people share: facts alone. Texts of others
are escaped, so that they neither format, link, embed nor mention anybody.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

from markupsafe import Markup

from spectui import __version__
from spectui.commands.launch import placement_text
from spectui.format import printable, rate_text, times_text
from spectui.measure.verdict import Answer
from spectui.models.files import quantisation
from spectui.report.commands import advised_command, bench_command, public
from spectui.report.content import Content, interval_text, label_of
from spectui.report.document import short
from spectui.report.page import environment
from spectui.report.sections import sections

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~])")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=\bwww)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)
"""Where GitHub would mention, refer or link, whatever stands before it."""
_PARTING = "\N{WORD JOINER}"
"""Nobody sees it."""
_LONGEST = 1500
_MOST_ROWS = 12
_UNKNOWN = "–"


def render_markdown(content: Content) -> str:
    """Render a study."""
    verdict, command = content.verdict, advised_command(content, is_public=True).value
    templates = environment(_shown)
    templates.filters |= {"cells": _cells, "fenced": _fenced}
    return templates.get_template("issue.md.jinja").render(
        head=content,
        tells_reason=verdict is None or verdict.answer is Answer.UNDECIDED,
        command=command,
        again=None if command is None else bench_command(content, command, is_public=True),
        sections=sections(content),
        most_rows=_MOST_ROWS,
        version=__version__,
    )


def _shown(value: object) -> object:
    """A text of others as it stands, bounded."""
    return value if isinstance(value, Markup) else escaped(short(str(value), _LONGEST))


def _cells(cells: Iterable[str]) -> Markup:
    """A row of a table."""
    texts = (escaped(short(one, _LONGEST)) for one in cells)
    return Markup(f"| {' | '.join(texts)} |")  # noqa: S704 - escaped


def _fenced(text: str) -> Markup:
    """A block of code that the text cannot end."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}sh\n{printable(text)}\n{fence}")  # noqa: S704 - what a block of code holds is text


def render_row(content: Content) -> str:
    """Render the row, below the lines of the table's head."""
    columns = _columns(content)
    cells = _cells(one or _UNKNOWN for one in columns.values())
    lines = (f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", cells)
    return "\n".join(lines) + "\n"


def _columns(content: Content) -> dict[str, str | None]:
    """Cells by the head of their column; None for what the study does not keep."""
    document, gain = content.document, content.gain
    used = None if content.best is None else content.best.draft
    draft = next((one for one in document.drafts or () if used and one.name == used), None)
    names = [one.file_name for one in (document.target, draft) if one is not None]
    quants = [quantisation(PurePath(name).stem) or _UNKNOWN for name in names]
    off, on = content.rates or (None, None)
    interval = None if gain is None else interval_text(gain.interval)
    return {
        "GPU": _hardware(content),
        "model": " + ".join(names) or None,
        "quant": " + ".join(quants) or None,
        "placement": _placement(content),
        "off, tokens/s": rate_text(off),
        "on, tokens/s": rate_text(on),
        "speedup (95 %)": None if gain is None else f"{times_text(gain.speedup)} ({interval})",
        "setting": None if content.best is None else label_of(content.best),
    }


def _hardware(content: Content) -> str | None:
    """The GPUs; the processor where there are none."""
    machine = content.document.machine
    if machine is None:
        return None
    return ", ".join(map(short, machine.gpus[:8] or (f"none: {machine.cpu}",)))


def _placement(content: Content) -> str | None:
    """llama-server's options for where the target lies; None where they are its defaults."""
    outcome = content.source.outcome
    if outcome is None:
        return None
    return short(placement_text(replace(outcome, target=public(outcome.target)))) or None


def escaped(text: str) -> str:
    """A text of others as it stands, in one line, whatever it means in Markdown or HTML."""
    plain = printable(" ".join(text.split()))
    whole = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKED.sub(_PARTING, _SPECIAL.sub(r"\\\1", whole))
