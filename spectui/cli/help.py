"""``--help`` of a command: its options by subject, then examples; reference and man pages as well.

Click alone lists sixty options in a row. The libraries that group them (cloup, rich-click) cost
each start more time than the rest of the help.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.removed import removed_refused

Examples = Sequence[tuple[str, str]]
"""Purposes, each with the command that serves it."""
_FEW = 10
"""Below that many options a command needs no subjects."""
OWN, OUTPUT = "Options", "Output"
WORDS = "spectui.words"
"""Key under which click's context keeps the words behind a command's name."""
RAW = "spectui.raw"
"""Key under which it keeps the options that were typed, by parameter, before they are parsed."""
_SUBJECTS = (
    *(OWN, "Models", "Speculation", "Run", "llama-server", "Sampling", "Context", "Threads"),
    *("Placement", OUTPUT),
)
"""In the order of the help; the first is for what a command alone has."""
_NAMES_WIDTH = 30
_WHOLE = "\N{NON-BREAKING HYPHEN}"
"""In place of hyphens while lines are broken."""


class CommandOption(click.Option):
    """An option, with the subject under which the help has it."""

    def __init__(self, *arguments: Any, subject: str = OWN, **more: Any) -> None:
        """Describe an option as click does."""
        super().__init__(*arguments, **more)
        self.subject = subject

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """Find the value; one that was typed is kept as it stands in the words."""
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.COMMANDLINE:
            ctx.meta.setdefault(RAW, {})[self.name] = value
        return value, source


class FromUserOnly(CommandOption):
    """An option with another meaning in presets: their n-predict is the length of a measurement."""


class _Formatter(click.HelpFormatter):
    """Breaks no word at its hyphens: names of options and drafters are to be copied."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _WHOLE))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _NAMES_WIDTH, col_spacing: int = 2
    ) -> None:
        whole = [(name, text.replace("-", _WHOLE)) for name, text in rows]
        super().write_dl(whole, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_WHOLE, "-")


class _Context(click.Context):
    formatter_class = _Formatter


class _WithExamples(click.Command):
    context_class = _Context

    def __init__(self, *arguments: Any, examples: Examples = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            for what, line in self.examples:
                # A command is to be copied: it must not be wrapped.
                formatter.write(f"  {what}:\n    {line}\n")


class Command(_WithExamples):
    """A command whose help has subjects and examples."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; say what is no more."""
        ctx.meta[WORDS] = tuple(args)
        with removed_refused(ctx):
            return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each subject."""
        sections = {
            subject: [(names(option, ctx), explanation(option, ctx)) for option in options]
            for subject, options in subjects(self, ctx).items()
        }
        widths = [len(name) for rows in sections.values() for name, _ in rows]
        width = max((width for width in widths if width <= _NAMES_WIDTH), default=0)
        for subject, rows in sections.items():
            with formatter.section(subject):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


class Group(_WithExamples, click.Group):
    """A group of such commands."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command."""
        with removed_refused(ctx):
            return super().resolve_command(ctx, args)


def subjects(command: click.Command, ctx: click.Context) -> dict[str, list[click.Option]]:
    """The options that a command's help shows, by subject."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    found: dict[str, list[click.Option]] = {subject: [] for subject in _SUBJECTS}
    has_subjects = len(options) >= _FEW
    for option in options:
        own = option.subject if isinstance(option, CommandOption) and has_subjects else OWN
        found[own].append(option)
    found[OUTPUT if has_subjects else OWN] += filter(None, [command.get_help_option(ctx)])
    return {subject: own for subject, own in found.items() if own}


def names(option: click.Option, ctx: click.Context, *, every: bool = False) -> str:
    """The spelling of an option, such as ``-m, --model PATH``.

    Args:
        option: one of a command.
        ctx: the command's.
        every: with all long spellings, not the first alone.
    """
    value = "" if option.is_flag or option.count else f" {option.make_metavar(ctx)}"
    ways = (", ".join(_spellings(own, every=every)) for own in (option.opts, option.secondary_opts))
    return " / ".join(way for way in ways if way) + value


def _spellings(flags: Sequence[str], *, every: bool) -> list[str]:
    long = [flag for flag in flags if flag.startswith("--")]
    return [flag for flag in flags if flag not in long] + (long if every else long[:1])


def explanation(option: click.Option, ctx: click.Context) -> str:
    """An option's help, with what it defaults to and its range where that says something."""
    from spectui.cli.click_options import range_text

    extra = option.get_help_extra(ctx)
    notes = [f"default: {extra['default']}"] if "default" in extra else []
    notes += [text for text in (range_text(option.type), extra.get("required")) if text]
    note = f"[{'; '.join(notes)}]" if notes else ""
    return "  ".join(part for part in (option.help, note) if part)
