"""Runs ``spectui lint`` with parsed options."""

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import click

from spectui.cli.lint import Lint
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.page import next_lines, page_text
from spectui.cli.taken import found_reader, given_reader, warn_of_secrets
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, error
from spectui.commands.home import own_path
from spectui.commands.lint.checking import check
from spectui.commands.lint.report import Checked, lint_document, lint_page
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.sources.files import MOST_BYTES
from spectui.commands.sources.reading import read_commands, read_paste
from spectui.errors import BadInputError
from spectui.page import Page

_READ = (
    *("model-draft", "mmproj", "chat-template-file", "grammar-file", "json-schema-file"),
    "api-key-file",
)
"""Options of files beside the model without which llama-server does not start."""


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
) -> Checked:
    """Check a command, and its models if they are present.

    Args:
        command: the command.
        name: its name, where there are several.
        given: which llama-server will read it; None for one of its own dialect.
        request: whether models are looked at.
    """
    with_models = not request.no_models
    warn_of_secrets(command)
    reader, chosen_by = _own_reader(command) if given is None else _named_reader(given)
    unseen = _missing(command) if with_models else "--no-models was given"
    if unseen is None:
        # It loads what plans memory.
        from spectui.cli.lint_models import model_findings, with_facts

        command = with_facts(command)
    report = check(command, reader)
    of_models: tuple[Finding, ...] = ()
    if unseen is None:
        of_models, unseen = model_findings(report.corrected, quiet=request.quiet)
    if with_models:
        of_models = (*of_models, *_missing_files(command))
    return Checked(
        name=name,
        command=command,
        fixed=report.corrected,
        reader=reader,
        chosen_by=chosen_by,
        unjudged=None if reader.judge else _unjudged(command, given),
        findings=_together(report.findings, of_models),
        # Nothing else is corrected of what the models tell.
        left=_together(report.left, of_models),
        unseen=unseen,
        asked=with_models,
    )


def _together(own: tuple[Finding, ...], of_models: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings on words and models, the worst first."""
    order = list(Severity)
    return tuple(sorted((*own, *of_models), key=lambda one: order.index(one.severity)))


def _named_reader(given: Reader) -> tuple[Reader, str]:
    return given, f"{'--dialect' if given.accepted is None else '--server-bin'} names it"


def _unjudged(command: ServerCommand, given: Reader | None) -> str:
    """Reason why no llama-server read a command itself."""
    if given is not None:
        return "--dialect asks no llama-server"
    if command.inside is not None:
        return "a container has a llama-server of its own"
    return "no llama-server was found that reads it"


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


def _missing_files(command: ServerCommand) -> Iterator[Finding]:
    """Find files that are not on this machine, where the target is."""
    model = command.value("model")
    if not model or command.inside is not None or not Path(own_path(model)).exists():
        return
    for found in filter(None, map(command.last, _READ)):
        item = found[1]
        path = Path(own_path(item.value))
        if not item.value or path.exists():
            continue
        names = [one.name for one in Path(own_path(model)).parent.glob(f"*{path.suffix}")]
        others = [name for name in names if name != Path(model).name]
        alike = next(iter(get_close_matches(path.name, others, 1)), None)
        yield error(
            found,
            f"{item.text} is not here, and {model} is",
            "llama-server stops where it does not find the file",
            write=(item.flag, "FILE" if alike is None else str(Path(model).with_name(alike))),
        )


def _next(report: Checked, given: str | None) -> Page:
    """Lines on what to run after the check; none where the server would stop at the command."""
    if any(one.severity is Severity.ERROR for one in report.left):
        return []
    source = f"{given}:{report.name}" if report.name else given
    # What was pasted is told as it is corrected; a file or a process stays where it is.
    is_named = given not in {None, "-"} and not any(map(str.isspace, str(given)))
    words = ["spectui", "tune", "--from", str(source) if is_named else report.fixed.text]
    does = "search for something faster"
    if report.unseen is not None and report.asked:
        does += ", where its models are"
    return next_lines(does, words)


def _print(reports: list[Checked], request: Lint) -> None:
    next_ = _next(reports[0], request.command_line)
    page = [*lint_page(reports), *(["", *next_] if next_ else [])]
    write_result(lint_document(reports), page_text(page), request.json_path)
