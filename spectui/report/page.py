"""The report as one page of HTML, which loads nothing and runs one little script."""

import base64
import hashlib
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from spectui import __version__
from spectui.format import counted, printable, times_text
from spectui.report.commands import advised_command, bench_command, shell_text
from spectui.report.content import Content
from spectui.report.document import short
from spectui.report.sections import columns_of, sections

_MOST_CHARACTERS = 4000
"""Limit of texts by others; real ones are shorter."""
_PIECES = re.compile(r" (?=--?[A-Za-z])")
"""Where a command may be broken into lines: before its options."""


def render_page(content: Content) -> str:
    """Render a study."""
    style, script = (Markup(_file(name)) for name in ("style.css", "copy.js"))  # noqa: S704 - the package's own files
    command = advised_command(content)
    templates = environment(_shown)
    templates.filters["pieces"] = _PIECES.split
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


def environment(shown: Callable[[object], object]) -> Environment:
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


def _shown(value: object) -> object:
    """A text of others as it may be shown: bounded, printable, and without the home folder."""
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
