"""``spectui lint``: problems of a llama-server command, with replacements."""

import sys
from itertools import pairwise
from pathlib import Path, PurePath

import click
from msgspec.structs import replace

from spectui.cli.click_options import argument, files, option, request, request_command, switch
from spectui.cli.from_command import found_reader, given_reader, warn_of_secrets
from spectui.cli.help import Command
from spectui.cli.options import DIALECTS, QUIET, json_option, server_bin_option
from spectui.cli.output import check_writable, complain
from spectui.cli.page import next_lines, write_result
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, worst_first
from spectui.commands.home import own_path
from spectui.commands.lint.checking import Report, check, lint_document, lint_page
from spectui.commands.programs import recognise
from spectui.commands.reader import Reader
from spectui.commands.sources.files import MOST_BYTES
from spectui.commands.sources.reading import read_commands, read_paste
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError, UsageError
from spectui.page import Page


class _Quoted(Command):
    """Accepts a word with blanks as the command to check, even if it starts with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        quoted = [word for word in args if word.startswith("-") and " " in word]
        if quoted:
            args = [*(word for word in args if word not in quoted), "--", *quoted]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            words = [word for before, word in pairwise(["", *given]) if before != "--server-bin"]
            if any(PurePath(word).name == "llama-server" for word in words):
                raise click.UsageError(
                    'quote the whole command as one: spectui lint "llama-server -m FILE"', ctx
                ) from error
            raise


_EXAMPLES = (
    ("A command", 'spectui lint "llama-server -m target.gguf -md draft.gguf --draft 16"'),
    ("The llama-server that runs", "spectui lint pid:"),
    ("A script, for your llama-server", "spectui lint serve.sh --server-bin ./llama-server"),
)


@request
class Lint:
    """Check an existing llama-server command, without running it.

    COMMAND is the command itself, quoted as one argument; a file that holds it (a shell script, a
    Compose or llama-swap file, a models preset, a page of Markdown), with all that are in it, or
    one as FILE:NAME; or pid:NUMBER of a llama-server that runs, pid: for the only one, or a list.
    Without COMMAND it is read from stdin: paste it, then press Ctrl-D. Nothing is taken from the
    environment.

    Says what the server refuses, ignores, or understands differently than builds before spring
    2026, and which build the command was taken to be for. A llama-server of this machine reads the
    options itself, and loads nothing; the one that COMMAND names is never started. Where the models
    are on this machine, it also says whether they fit each other and the memory, as spectui doctor
    does.

    Exits with 3 if there are errors, with 0 otherwise, whatever warnings there are.
    """

    command_line: str | None = argument(metavar="[COMMAND]", required=False, shell_complete=files)
    dialect: str | None = option(
        "--dialect",
        type=DIALECTS,
        help=(
            "Which llama-server will read it (default: that of --server-bin, or the command's own)."
        ),
    )
    server_bin: str | None = server_bin_option(
        "The llama-server that will read it, and judges it (default: one that is found here)."
    )
    no_models: bool = switch(
        "--no-models", help="Look at the arguments alone, though the models are here."
    )
    json_path: str | None = json_option("Write the findings as JSON; - for stdout.")
    quiet: bool = QUIET


command = request_command(Lint, "lint", "lint:lint", cls=_Quoted, examples=_EXAMPLES)


def lint(request: Lint) -> None:
    """Check the commands, and print the report.

    Raises:
        BadInputError: there is no command, or the JSON file cannot be written.
        Exit: there are errors.
        ServerError: the binary cannot be asked.
    """
    check_writable(request.json_path, ())
    given = given_reader(request.dialect, request.server_bin)
    reports = [
        examine(command, name, given, request)
        for name, command in _commands(request.command_line).items()
    ]
    _print(reports, request)
    if any(finding.severity is Severity.ERROR for one in reports for finding in one.findings):
        raise click.exceptions.Exit(BadInputError.exit_code)


def _commands(command_line: str | None) -> dict[str | None, ServerCommand]:
    """The commands by name."""
    if command_line is None or command_line == "-":
        return read_paste(_pasted())
    return read_commands(command_line)


def _pasted() -> str:
    """The text on stdin.

    Raises:
        BadInputError: it is no text.
    """
    if sys.stdin is None:
        raise BadInputError("stdin is closed; give the command as an argument")
    if sys.stdin.isatty():
        complain("Paste the llama-server command, then press Enter and Ctrl-D.")
    try:
        return sys.stdin.read(MOST_BYTES + 1)
    except UnicodeDecodeError as error:
        raise BadInputError("stdin holds no text; paste a command") from error


def examine(
    command: ServerCommand, name: str | None, given: Reader | None, request: Lint
) -> Report:
    """Check a command, and its models if they are present.

    Args:
        command: the command.
        name: its name, where there are several.
        given: which llama-server will read it; None for one of its own dialect.
        request: whether models are looked at.
    """
    warn_of_secrets(command)
    if given is None:
        reader, chosen_by = _own_reader(command)
    else:
        named_by = "--dialect" if given.program is None else "--server-bin"
        reader, chosen_by = given, f"{named_by} names it"
    unseen = "--no-models was given" if request.no_models else _missing(command)
    if unseen is None:
        # It loads what plans memory.
        from spectui.cli.run_doctor import model_findings, with_facts

        command = with_facts(command)
    report = check(command, reader)
    on_models: tuple[Finding, ...] = ()
    if unseen is None:
        on_models, unseen = model_findings(report.corrected, quiet=request.quiet)
    return replace(
        report,
        name=name,
        chosen_by=chosen_by,
        findings=worst_first((*report.findings, *on_models)),
        # Nothing else is corrected of what the models tell.
        left=worst_first((*report.left, *on_models)),
        unseen=unseen,
        asked=not request.no_models,
    )


def _own_reader(command: ServerCommand) -> tuple[Reader, str]:
    """The llama-server of this machine that reads the command's dialect, or any; and why."""
    found = found_reader(command)
    if found is not None:
        return found, "it was found on this machine (--dialect checks without it)"
    recognised = recognise(command)
    return Reader(dialect=recognised.dialect), recognised.reason


def _missing(command: ServerCommand) -> str | None:
    """Reason why no model can be looked at; None if all that are named are on this machine."""
    if not command.files:
        return "the command names no model file"
    values = (command.value(name) for name in ("model", "model-draft"))
    missing = next((one for one in values if one and not Path(own_path(one)).exists()), None)
    return None if missing is None else f"{missing} is not here"


def _next(report: Report, given: str | None) -> Page:
    """Lines on what to run after the check; none where the server would stop at the command."""
    if any(one.severity is Severity.ERROR for one in report.left) or not _is_tunable(report):
        return []
    source = f"{given}:{report.name}" if report.name else given
    # What was pasted is told as it is corrected; a file or a process stays where it is.
    is_named = given not in {None, "-"} and not any(map(str.isspace, str(given)))
    words = ["spectui", "tune", "--from", str(source) if is_named else report.corrected.text]
    return next_lines("search for something faster", words)


def _is_tunable(report: Report) -> bool:
    """Whether a search takes the corrected command over."""
    try:
        found = take_over(report.corrected, other_drafts=True, through_server=True)
        found.settled.to_setup()
    except (BadInputError, UsageError):
        return False
    return "" not in found.options.get("model", ())


def _print(reports: list[Report], request: Lint) -> None:
    next_ = _next(reports[0], request.command_line)
    page = [*lint_page(reports), *(["", *next_] if next_ else [])]
    write_result(lint_document(reports), page, request.json_path, quiet=request.quiet)
