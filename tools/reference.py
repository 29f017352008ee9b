"""Pages of the commands, for the site and for ``man``, from the objects that make ``--help``."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from spectui import __version__
from spectui.cli import app
from spectui.cli.help import Examples, explanation, names, subjects
from tools.contract import EXIT_CODES, VARIABLES

_MARKDOWN = str.maketrans({"*": "\\*", "<": "&lt;", "|": "&#124;"})
_ROFF = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti"})


@dataclass(frozen=True, slots=True)
class Described:
    """A command, as its pages show it."""

    path: str
    """As it is called, such as ``spectui models scan``."""
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    options: dict[str, list[tuple[str, str]]]
    """By subject: names and explanation."""
    examples: Examples
    children: tuple["Described", ...]

    @property
    def name(self) -> str:
        """Name of its pages, such as ``models-scan``; empty for the program."""
        return "-".join(self.path.split()[1:])

    def with_children(self) -> Iterator["Described"]:
        """It, and all below it."""
        yield self
        for child in self.children:
            yield from child.with_children()


def reference() -> dict[str, str]:
    """Markdown and man pages by path below the repository's root."""
    program = _described(app, "spectui")
    templates = _templates()
    facts = {"exit_codes": EXIT_CODES, "variables": VARIABLES, "version": __version__}
    index, page, man = map(templates.get_template, ("index.md", "command.md", "man.1"))
    pages = {"docs/reference/index.md": index.render(program=program, **facts)}
    for command in program.children:
        pages[f"docs/reference/{command.name}.md"] = page.render(command=command)
    for command in program.with_children():
        title = command.path.replace(" ", "-")
        pages[f"man/{title}.1"] = man.render(command=command, title=title, **facts)
    return pages


def _described(command: click.Command, path: str, parent: click.Context | None = None) -> Described:
    name = path.rpartition(" ")[2]
    ctx = command.context_class(command, parent, name, **command.context_settings)
    text = inspect.cleandoc(command.help or "")
    # Help is wrapped where it is shown.
    summary, *paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return Described(
        path=path,
        usage=" ".join((path, *command.collect_usage_pieces(ctx))),
        summary=summary,
        paragraphs=tuple(paragraphs),
        options={
            subject: [(names(one, ctx, every=True), explanation(one, ctx)) for one in options]
            for subject, options in subjects(command, ctx).items()
        },
        examples=getattr(command, "examples", ()),
        children=tuple(_children(command, ctx, path)),
    )


def _children(command: click.Command, ctx: click.Context, path: str) -> Iterator[Described]:
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        assert child is not None  # noqa: S101 - it was listed
        yield _described(child, f"{path} {name}", ctx)


def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown and roff
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "markdown": lambda text: text.translate(_MARKDOWN),
        # A code span would keep the escapes of what ends a cell.
        "code": lambda text: f"<code>{escape(text).replace('|', '&#124;')}</code>",
        "roff": _roff,
    }
    return templates


def _roff(text: str) -> str:
    """Text in which nothing is a request or an escape."""
    escaped = text.translate(_ROFF)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
