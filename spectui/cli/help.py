"""``--help`` of a command: its options by subject, then examples; reference and man pages as well.

``-h`` of a command with many options shows the main ones, a clause of each.

Click alone lists sixty options in a row. The libraries that group them (cloup, rich-click) cost
each start more time than the rest of the help.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from spectui.cli.removed import removed_refused

WORDS = "spectui.words"
"""Key under which click's context keeps the options as they were typed, for commands that another
repeats."""

Examples = Sequence[tuple[str, str]]
"""Purposes, each with the command that serves it."""
_LEFT_OVER = re.compile(r"Got unexpected extra argument \((.+)\)\Z", re.DOTALL)
_FEW = 10
"""Below that many options a command needs no subjects."""
_ALL, _LAST = "Options", "Output"
_NAMES_WIDTH = 30
_MAIN = ("Models", "Search", "Grid", "Run", "llama-server")
"""Subjects of the short help."""
_CLAUSE = re.compile(
    r"(?<=[^.])(?:[.;](?=\s)|(?<!With --backend server):(?=\s)| \().*|\.$", re.DOTALL
)
"""Text behind an option's first clause, except a condition of that clause."""
_SUBJECTS: dict[str, tuple[str, ...]] = {
    "Models": (
        *("model", "model_draft", "drafts", "draft_dirs", "preset", "command_line"),
        *("demo", "target"),
    ),
    "Speculation": ("spec_type", "draft_max", "draft_min", "draft_p_min"),
    "Search": (
        *("trials", "time_budget", "until", "study", "storage", "resume", "tuned", "min_gain"),
    ),
    "Grid": ("grid", "list_grids", "name", "restart", "retry_failed", "dry_run"),
    "Run": (
        *("prompts", "chats", "n_prompts", "n_predict", "prompt_length", "lengths", "requests"),
        *("depths", "depth", "repeats", "costs", "keep_text", "yes"),
    ),
    "llama-server": (
        *("backend", "server_bin", "server_url", "baseline_url", "parallel", "keeps_both"),
        *("timeout", "no_promise", "dialect", "pin", "libraries"),
    ),
    "Sampling": (),
    "Context": (),
    "Threads": (),
    "Placement": (),
    "Screen": ("theme", "ascii"),
    _LAST: ("out", "json_path", "quiet", "verbose", "h"),
}
"""Parameters by subject, in the order of the help; those of the catalogue are added to them."""


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

    without_effect: frozenset[str] = frozenset()
    """Parameters that are accepted and do nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; where a file is left over, say which option takes it."""
        typed = tuple(args)
        try:
            with removed_refused(ctx):
                ctx.meta[WORDS], _, _ = self.make_parser(ctx).parse_args(args=list(args))
                return super().parse_args(ctx, args)
        except click.UsageError as error:
            takes = {option for param in self.params for option in param.opts}
            left_over = _LEFT_OVER.match(error.message)
            file = None if left_over is None else left_over[1]
            is_file = file is not None and os.path.isfile(file)  # noqa: PTH113 - as in app.py
            option = "--from" if is_file else None
            if file is not None and file.endswith(".gguf"):
                option = "-md" if {"-m", "--model"} & set(typed) else "-m"
            if option not in takes:
                raise
            raise click.UsageError(f"{error.message}; did you mean {option} {file}?", ctx) from None

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """Describe a command, as click does, with examples."""
        super().__init__(*arguments, **more)
        if len(self.params) >= _FEW:
            # click gives it to --help otherwise.
            self.params.append(_brief_option(self.brief))

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

    def brief(self, ctx: click.Context) -> str:
        """The short help: what the command does, and a clause of each main option."""
        formatter, found = ctx.make_formatter(), subjects(self, ctx)
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(inspect.cleandoc(self.help or "").partition("\n\n")[0])
        for subject in (subject for subject in _MAIN if subject in found):
            rows = [(names(one, ctx), _CLAUSE.sub("", one.help or "")) for one in found[subject]]
            with formatter.section(subject):
                formatter.write_dl(rows, _NAMES_WIDTH)
        others = [subject.lower() for subject in found if subject not in _MAIN]
        formatter.write_paragraph()
        formatter.write_text(f"All options, also of {', '.join(others)}: {ctx.command_path} --help")
        self.format_epilog(ctx, formatter)
        return formatter.getvalue().rstrip("\n")

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
        if idle := idle_names(self):
            with formatter.section("Accepted without effect"):
                formatter.write_text(", ".join(idle))


def _brief_option(brief: Callable[[click.Context], str]) -> click.Option:
    def show(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:  # noqa: FBT001 - click's
        if is_given and not ctx.resilient_parsing:
            click.echo(brief(ctx), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["-h"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the main options.",
    )


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
    options = [
        param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and not _is_idle(command, param)
    ]
    of_help = [option for option in (command.get_help_option(ctx),) if option]
    if len(options) < _FEW:
        return {_ALL: [*options, *of_help]}
    by_name = {option.name: option for option in options}
    found = {
        subject: [by_name.pop(name) for name in known if name in by_name]
        for subject, known in _all_subjects().items()
    }
    found[_LAST] += of_help
    found[_ALL] = [*by_name.values()]
    return {subject: own for subject, own in found.items() if own}


def _all_subjects() -> dict[str, tuple[str, ...]]:
    from spectui.options import catalogue, context, placement
    from spectui.options.drafters import owners

    caches = (
        *(placement.CACHE_TYPE_K, placement.CACHE_TYPE_V),
        *(placement.CACHE_TYPE_K_DRAFT, placement.CACHE_TYPE_V_DRAFT),
    )
    threads = (*context.THREAD_COUNTS, context.NUMA)
    catalogued = {
        "Sampling": (catalogue.TEMPERATURE, *catalogue.SAMPLING),
        "Context": (*(one for one in context.CONTEXT if one not in threads), *caches),
        "Threads": threads,
        "Placement": (one for one in placement.PLACEMENT if one not in caches),
    }
    parameters = {
        subject: tuple(option.parameter for option in options)
        for subject, options in catalogued.items()
    }
    return _SUBJECTS | parameters | {"Speculation": (*_SUBJECTS["Speculation"], *owners())}


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


def idle_names(command: click.Command) -> list[str]:
    """Names of the options that are accepted and do nothing."""
    own = (param for param in command.params if _is_idle(command, param))
    return [name for param in own for name in _spellings(param.opts, every=False)]


def _is_idle(command: click.Command, param: click.Parameter) -> bool:
    return isinstance(command, Command) and param.name in command.without_effect


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
    "(`spectui doctor --libraries` lists them).",
    "HF_HOME, HF_HUB_CACHE, LLAMA_CACHE": "Folders in which models are looked for, beside the "
    "usual ones.",
    "HF_ENDPOINT, HF_TOKEN": "The hub that models find and fetch ask, and the token for it, as "
    "huggingface_hub has them.",
    "GGML_BACKEND_PATH": "A backend that llama.cpp loads as well, such as one for CUDA.",
    "NO_COLOR": "Print without colours.",
}
"""Environment variables by name."""
