"""The command line: runs a command, prints its failure in one sentence, and exits. One file each.

Commands are imported when they are named. Importing this loads neither numpy, optuna, textual nor
llama_cpp; a command does when it runs.
"""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from spectui import __version__
from spectui.cli.help import Group
from spectui.cli.output import complain, reader
from spectui.errors import CancelledError, DoesNotFitError, EngineDiedError, SpectuiError
from spectui.files import open_private
from spectui.format import printable
from spectui.interrupts import interrupts
from spectui.paths import ensure_dir, log_path
from spectui.secret import without_passwords

_COMMANDS = {
    "cockpit": "Chat with a pair, and watch and tune what speculation does.",
    "attach": "Watch a llama-server that is already running.",
    "bench": "Measure one setting against the target alone.",
    "doctor": "Examine the machine, and a pair before it is loaded.",
    "export": "Write the flags that tune advised, or rewrite a command.",
    "lint": "Check an existing llama-server command, without running it.",
    "models": "Find models and drafts, or build the demo's.",
    "presets": "List presets, or show one.",
    "replay": "Predict settings from a trace, without loading a model.",
    "report": "Write a report of a study, to show to others.",
    "studies": "List, show and delete what tune has kept.",
    "sweep": "Measure a grid of settings against the target alone.",
    "trace": "Record what settings can be predicted from.",
    "tune": "Find the fastest draft and settings, and whether they pay.",
    "verify": "Run your own llama-server with and without the flags.",
}
"""One-line help of each command in the module of its name: listing must not import them all."""


_EXAMPLES = (
    ("See what a verdict looks like, on the demo models", "spectui tune --demo --time-budget 4m"),
    ("Choose among the models of this machine, and chat", "spectui"),
    ("Check a command that you have", "spectui lint serve.sh"),
)
_GROUP_OPTIONS = ("-h", "--help", "--version")
_WIDEST = 100
"""Columns of help on a terminal that has them."""
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's own number is 700 and costs short commands a tenth of their time, as what is imported
stays."""
_DEFECT = 1
_USAGE = 2


class _Commands(Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Without a command it is the cockpit: `spectui`, `spectui --demo`, `spectui -m model.gguf`.
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in _GROUP_OPTIONS)
        # A shell that completes the first word may mean a command.
        is_open = not args and ctx.resilient_parsing
        return super().parse_args(ctx, args if is_named or is_open else ["cockpit", *args])

    def invoke(self, ctx: click.Context) -> object:
        with reader.awaited():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click looks among those that are imported. A model, and the demo, are options.
            name = error.command_name
            known = [*_COMMANDS, "--demo"]
            if os.path.isfile(name):  # noqa: PTH113 - Path raises on long names
                known = [f"-m {name}" if name.endswith(".gguf") else f"--from {name}"]
            raise click.NoSuchCommand(name, possibilities=known, ctx=ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"spectui.cli.{cmd_name}").command
        return command


@click.group(
    cls=_Commands,
    examples=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
)
@click.version_option(__version__, prog_name="spectui")
def app() -> None:
    """The cockpit for speculative decoding in llama.cpp.

    Without a command, it opens the interactive screen: a chat with your models, and beside it what
    a draft does for it on this machine. The commands measure whether a draft pays, and hand over
    the flags that llama-server needs.
    """


def main() -> None:
    """Run the command line and exit with the contract's code."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    interrupts.install()
    reader.begin()
    try:
        code = app.main(prog_name="spectui", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every way out has its exit code
        code = report_failure(error)
    code = interrupts.exit_code(code) if isinstance(code, int) else 0
    sys.exit(reader.exit_code(code))


def report_failure(error: BaseException) -> int:
    """Report an error to the user; return the exit code."""
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else _DEFECT
        case KeyboardInterrupt() | click.exceptions.Abort():
            complain("interrupted")
            return CancelledError.exit_code
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            shows_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
            complain(error.message if shows_help else f"error: {_click_sentence(error)}")
            return _USAGE
        case EngineDiedError(log=log) if log and not getattr(error, "__notes__", None):
            complain(f"error: {without_passwords(str(error))}{_named_log(error, log)}")
            return error.exit_code
        case SpectuiError() if not getattr(error, "__notes__", None):
            complain(f"error: {without_passwords(str(error))}")
            return error.exit_code
        case MemoryError() | OSError(errno=errno.ENOMEM):
            complain("error: memory ran out; close other programs, or choose a shorter -c")
            return DoesNotFitError.exit_code
        case _:
            return _report_defect(error)


def _click_sentence(error: click.ClickException) -> str:
    """One sentence for an error of click: the mistake, its place, and the help to read."""
    text = error.format_message().rstrip(".").replace("'", "")
    match error:
        case click.NoSuchOption(possibilities=alike):
            text = f"no such option {error.option_name}{_meant(alike)}"
        case click.NoSuchCommand(possibilities=alike):
            text = f"no such command {error.command_name}{_meant(alike)}"
        case click.BadParameter(param=click.Option() as option) if error.message:
            return f"{_flag_of(option)}: {error.message.rstrip('.')}"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    text = f"{text[0].lower()}{text[1:]}"
    return text if ctx is None or text.endswith("?") else f"{text}; see {ctx.command_path} --help"


def _meant(alike: Sequence[str] | None) -> str:
    return f"; did you mean {' or '.join(alike)}?" if alike else ""


def _flag_of(option: click.Option) -> str:
    """The first long spelling; the short one of an option that has no other."""
    return next((flag for flag in option.opts if flag.startswith("--")), option.opts[0])


def _named_log(error: BaseException, lines: tuple[str, ...]) -> str:
    """Keep llama.cpp's last lines, and say where they are; empty where they cannot be kept."""
    text = without_passwords("\n".join((str(error), *lines)))
    return f"; llama.cpp's last lines are in {log_path()}" if _is_logged(text) else ""


def _report_defect(error: BaseException) -> int:
    import traceback

    text = without_passwords("".join(traceback.format_exception(error)))
    if _is_logged(text):
        complain(
            f"error: {type(error).__name__}: {without_passwords(str(error))}; this is a defect of "
            f"spectui's, please report it with the traceback in {log_path()}"
        )
    else:
        complain(text)
        complain("error: this is a defect of spectui's; please report the text above")
    return _DEFECT


def _is_logged(text: str) -> bool:
    """Add ``text`` to the log; False if the whole of it does not fit."""
    from datetime import UTC, datetime

    now = datetime.now(UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
    try:
        ensure_dir(log_path().parent)
        log = open_private(log_path(), os.O_WRONLY | os.O_APPEND)
        with os.fdopen(log, "a", encoding="utf-8", errors="backslashreplace") as file:
            shown = printable(text, keep="\n")
            file.write(f"{now} {shown}\n")
    except (OSError, SpectuiError):
        return False
    return True
