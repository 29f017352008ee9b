"""Prints a report: as a page of HTML, as Markdown for an issue, as a row of a shared table.

The page loads nothing and runs one small script. Markdown is bounded in size, and without paths and
names of people; the row has facts alone. Text from a study is escaped, so that it neither formats,
links, embeds nor mentions anybody.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path, PurePath

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from spectui import __version__
from spectui.commands.launch import placement_text
from spectui.format import NONE, counted, printable, rate_text, times_text
from spectui.measure.verdict import Answer
from spectui.models.files import quantisation
from spectui.report.content import (
    Content,
    advised_command,
    bench_command,
    interval_text,
    label_of,
    public,
    shell_text,
)
from spectui.report.document import short
from spectui.report.sections import columns_of, sections
from spectui.tune.result import Outcome

_MOST_CHARACTERS = 4000
"""Limit of a text from a study; real ones are shorter."""
_LINE_BREAKS = re.compile(r" (?=--?[A-Za-z])")
"""Places where a command may be broken into lines: before its options."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]|~])")
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=\bwww)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)
"""Places where GitHub would make a mention, a reference or a link."""
_JOINER = "\N{WORD JOINER}"
"""Invisible character that prevents that."""
_LONGEST = 1500
_MOST_ROWS = 12


def render_page(content: Content) -> str:
    """Render a study."""
    style, script = (Markup(_file(name)) for name in ("style.css", "copy.js"))  # noqa: S704 - the package's own files
    command = advised_command(content)
    templates = _environment(_as_html)
    templates.filters["pieces"] = _LINE_BREAKS.split
    return templates.get_template("page.html.jinja").render(
        version=__version__,
        title=f"{short(content.source.name)}: spectui report",
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        head=content,
        command=command,
        steps=_steps(content, command.value),
        sections=sections(content),
    )


def _steps(content: Content, command: str | None) -> dict[str, str]:
    """Commands to measure it again, by what they do."""
    steps: dict[str, str] = {}
    study = content.source
    if command is not None and (again := bench_command(content, command)) is not None:
        steps["Measure the setting of the verdict alone."] = again
    if study.promise is not None:
        verify = shell_text(("spectui", "verify", study.name, "--server-bin", "llama-server"))
        steps["Hold the verdict against your own llama-server."] = verify
    return steps


def _environment(shown: Callable[[object], object]) -> Environment:
    """The templates of reports; ``shown`` is applied to everything that is put into them."""
    found = Environment(
        loader=PackageLoader("spectui.report"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=shown,
    )
    found.filters |= {"counted": counted, "times": times_text, "columns": columns_of}
    return found


def _as_html(value: object) -> object:
    """Text from a study for the page: bounded, printable, and without the home folder."""
    if type(value) is not str:
        return value
    text = printable(short(value, _MOST_CHARACTERS), keep="\n")
    home = f"{Path.home()}/"
    return text.replace(home, "~/") if len(home) > len("//") else text


def _file(name: str) -> str:
    return resources.files("spectui.report").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    """Digest of a style or a script, for a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def render_markdown(content: Content) -> str:
    """Render a study."""
    verdict, command = content.verdict, advised_command(content, is_public=True).value
    templates = _environment(_as_markdown)
    templates.filters |= {"cells": _table_row, "fenced": _fenced}
    return templates.get_template("issue.md.jinja").render(
        head=content,
        tells_reason=verdict.answer is Answer.UNDECIDED,
        command=command,
        again=None if command is None else bench_command(content, command, is_public=True),
        sections=sections(content),
        most_rows=_MOST_ROWS,
        version=__version__,
    )


def _as_markdown(value: object) -> object:
    """Text from a study for Markdown: escaped, and bounded."""
    return value if isinstance(value, Markup) else escaped(short(str(value), _LONGEST))


def _table_row(cells: Iterable[str]) -> Markup:
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
    cells = _table_row(one or NONE for one in columns.values())
    lines = (f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", cells)
    return "\n".join(lines) + "\n"


def _columns(content: Content) -> dict[str, str | None]:
    """Cells by the head of their column; None for what the study does not keep."""
    document, gain = content.document, content.gain
    used = None if content.best is None else content.best.draft
    draft = next((one for one in document.drafts or () if used and one.name == used), None)
    names = [one.file_name for one in (document.target, draft) if one is not None]
    quants = [quantisation(PurePath(name).stem) or NONE for name in names]
    off, on = content.rates or (None, None)
    interval = None if gain is None else interval_text(gain.interval)
    return {
        "GPU": _gpu_names(content),
        "model": " + ".join(names) or None,
        "quant": " + ".join(quants) or None,
        "placement": _target_place(content.outcome),
        "off, tokens/s": rate_text(off),
        "on, tokens/s": rate_text(on),
        "speedup (95 %)": None if gain is None else f"{times_text(gain.speedup)} ({interval})",
        "setting": None if content.best is None else label_of(content.best),
    }


def _gpu_names(content: Content) -> str | None:
    """The GPUs; the processor where there are none."""
    machine = content.document.machine
    if machine is None:
        return None
    return ", ".join(map(short, machine.gpus[:8] or (f"none: {machine.cpu}",)))


def _target_place(outcome: Outcome) -> str | None:
    """llama-server's options for where the target lies; None where they are its defaults."""
    return short(placement_text(replace(outcome, target=public(outcome.target)))) or None


def escaped(text: str) -> str:
    """Text in one line, escaped so that it appears literally in Markdown and HTML."""
    plain = printable(" ".join(text.split()))
    whole = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKED.sub(_JOINER, _SPECIAL.sub(r"\\\1", whole))
