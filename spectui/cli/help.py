"""``--help`` of a command: its options by subject, then examples; reference and man pages as well.

Click alone lists sixty options in a row. The libraries that group them (cloup, rich-click) cost
each start more time than the rest of the help.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from spectui.cli.removed import removed_refused

WORDS = "spectui.words"
"""Key under which click's context keeps the options as they were typed, for commands that another
repeats."""

Examples = Sequence[tuple[str, str]]
"""Purposes, each with the command that serves it."""
_FEW = 10
"""Below that many options a command needs no subjects."""
_ALL, _LAST = "Options", "Output"
_SUBJECTS = (
    *(_ALL, "Models", "Speculation", "Run", "llama-server", "Sampling", "Context", "Threads"),
    *("Placement", _LAST),
)
"""In the order of the help; the first is for what a command alone has."""
_NAMES_WIDTH = 30


class CommandOption(click.Option):
    """An option, with the subject under which the help has it."""

    def __init__(self, *arguments: Any, subject: str = _ALL, **more: Any) -> None:
        """Describe an option as click does."""
        super().__init__(*arguments, **more)
        self.subject = subject


class FromUserOnly(CommandOption):
    """An option with another meaning in presets: their n-predict is the length of a measurement."""


class _WithExamples(click.Command):
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
    """A command whose help has subjects and examples, and which keeps the words that were typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; keep what was typed."""
        with removed_refused(ctx):
            ctx.meta[WORDS], _, _ = self.make_parser(ctx).parse_args(args=list(args))
            return super().parse_args(ctx, args)

    def words(self, given: Mapping[str, Any]) -> list[str]:
        """Command line that gives ``given``, as ``Given.words`` has it; the rest is passed over."""
        found: list[str] = []
        for parameter in self.params:
            value = given.get(parameter.name or "")
            if not isinstance(parameter, click.Option) or value is None:
                continue
            if parameter.is_flag:
                names = parameter.opts if value is True else parameter.secondary_opts
                found += names[-1:]
                continue
            for one in value if isinstance(value, list) else [value]:
                found += [parameter.opts[0], str(one)]
        return found

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
                formatter.write_dl([(name.ljust(width), text) for name, text in rows], _NAMES_WIDTH)


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
        own = option.subject if isinstance(option, CommandOption) and has_subjects else _ALL
        found[own].append(option)
    found[_LAST if has_subjects else _ALL] += filter(None, [command.get_help_option(ctx)])
    return {subject: own for subject, own in found.items() if own}


def names(option: click.Option, ctx: click.Context, *, every: bool = False) -> str:
    """How an option is written, such as ``-m, --model PATH``.

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
    told = f"[{'; '.join(notes)}]" if notes else ""
    return "  ".join(part for part in (option.help, told) if part)


EXIT_CODES = {
    0: "Done.",
    1: "A defect, of spectui or of llama.cpp.",
    2: "The command was used wrongly.",
    3: "A file, model, prompt, preset, study or command cannot be used as it is; lint found "
    "errors; doctor found no draft that can serve.",
    4: "The models do not fit in memory, or memory ended.",
    5: "A llama-server or a hub failed, or cannot be asked.",
    129: "The terminal was closed (SIGHUP).",
    130: "Interrupted (Ctrl-C); what was measured is kept.",
    141: "Whoever read the output has gone, as head does.",
    143: "Terminated (SIGTERM); what was measured is kept.",
}
"""Meaning of each exit code."""

VARIABLES = {
    "SPECTUI_HOME": "Folder for all that spectui keeps (data, config and cache below it), in place "
    "of the platform's own folders.",
    "SPECTUI_STORAGE": "Where studies are, as --storage has it; an address with a password belongs "
    "here.",
    "SPECTUI_API_KEY": "Key of the llama-server that attach and bench --server-url ask.",
    "LLAMA_API_KEY": "The same, where SPECTUI_API_KEY is not set.",
    "SPECTUI_PATIENCE": "Seconds in which a process that neither computes nor reads counts as hung "
    "(120); a slow network's file system may need more.",
    "LLAMA_CPP_LIB_PATH": "Folder of a llama.cpp library that comes before all that are found "
    "(`spectui doctor` names the one in use).",
    "HF_HOME, HF_HUB_CACHE, LLAMA_CACHE": "Folders in which models are looked for, beside the "
    "usual ones.",
    "HF_ENDPOINT, HF_TOKEN": "The hub that models find asks, and the token for it, as "
    "huggingface_hub has them.",
    "GGML_BACKEND_PATH": "A backend that llama.cpp loads as well, such as one for CUDA.",
    "NO_COLOR": "Print without colours.",
}
"""Environment variables by name."""
