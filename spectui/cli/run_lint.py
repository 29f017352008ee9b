"""Runs ``spectui lint`` with parsed options."""

import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import click
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from spectui import __version__
from spectui.cli.drawing import drawn, page_width
from spectui.cli.judged import found_reader, given_reader
from spectui.cli.lint import Lint
from spectui.cli.next_step import next_lines
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.taken import warn_of_secrets
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, error
from spectui.commands.home import own_path
from spectui.commands.items import Item
from spectui.commands.lint.checking import check
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.server_options import drawn_from
from spectui.commands.sources.files import MOST_BYTES
from spectui.commands.sources.reading import read_commands, read_paste
from spectui.documents import Json, or_reason
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.paths import text_of

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "bold"}
_CONTAINED = (
    "The command was read out of a container: what is written here is llama-server's own part of "
    "it, with paths as they are on this machine where the container mounts a folder of it, and its "
    "own elsewhere."
)
_UNCORRECTED = "Not corrected, since only who wrote it knows what was meant"
_READ = (
    *("model-draft", "mmproj", "chat-template-file", "grammar-file", "json-schema-file"),
    "api-key-file",
)
"""Options of files beside the model without which llama-server does not start."""
_INDENT = "    "
_AROUND = 30
"""Characters of the command that are shown before and behind what a finding is about."""
_GAP = "\N{HORIZONTAL ELLIPSIS} "


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Results of the checks of one command."""

    name: str | None
    """Name in its file, where that has several; None for the only one."""
    command: ServerCommand
    fixed: ServerCommand
    reader: Reader
    chosen_by: str
    """Reason for the reader."""
    unjudged: str | None
    """Reason why no llama-server read the command itself; None if one did."""
    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    """Findings of the corrected command."""
    unseen: str | None
    """Reason why the models were not examined; None if they were."""
    asked: bool
    """Whether the models should be examined."""


def lint(request: Lint) -> None:
    """Check the commands, and print the report.

    Raises:
        BadInputError: there is no command, or the JSON file cannot be written.
        Exit: there are errors.
        ServerError: the binary cannot be asked.
        UsageError: options that contradict each other.
    """
    if request.fix and request.json_path == "-":
        raise UsageError("--fix and --json - both want stdout; the JSON has the corrected command")
    check_writable(request.json_path, ())
    given = given_reader(request.dialect, request.server_bin)
    reports = [
        examine(command, name, given, request)
        for name, command in _commands(request.command_line, is_one=request.fix).items()
    ]
    if request.fix:
        reports = [_with_new_errors(report) for report in reports]
    _print(reports, request)
    decisive = (one.left if request.fix else one.findings for one in reports)
    if any(finding.severity is Severity.ERROR for found in decisive for finding in found):
        raise click.exceptions.Exit(BadInputError.exit_code)


def _commands(command_line: str | None, *, is_one: bool) -> dict[str | None, ServerCommand]:
    """The commands by name.

    Raises:
        BadInputError: they cannot be read, or there are several where one is wanted.
    """
    pasted = command_line is None or command_line == "-"
    found = read_paste(_pasted()) if pasted else read_commands(command_line or "")
    if is_one and len(found) > 1:
        names = ", ".join(filter(None, found))
        raise BadInputError(
            f"--fix prints one command, and there are {len(found)}; give one of them as FILE:NAME, "
            f"with {names}"
        )
    return found


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


def _with_new_errors(report: Checked) -> Checked:
    """The report with the errors that show only in the corrected command."""
    known = {(finding.flag, finding.what) for finding in report.findings}
    new = (one for one in report.left if (one.flag, one.what) not in known)
    errors = (replace(one, at=-1) for one in new if one.severity is Severity.ERROR)
    return replace(report, findings=(*report.findings, *errors))


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
    """The findings on words and models, the worst first; what both tell is told at the words."""
    topics = {one.topic for one in own}
    others = (one for one in of_models if one.topic is None or one.topic not in topics)
    order = list(Severity)
    return tuple(sorted((*own, *others), key=lambda one: order.index(one.severity)))


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


def _next(report: Checked, given: str | None) -> list[str]:
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
    first, json_path = reports[0], request.json_path
    next_ = _next(first, request.command_line)
    documents = [_lint_document(report) for report in reports]
    document = documents[0] if len(documents) == 1 else _of_several(reports, documents)
    if request.fix and text_of(first.fixed.text) != first.fixed.text:
        raise BadInputError(
            "a value of the command is not valid UTF-8, which cannot be printed; rename the file"
        )
    if not request.fix:
        text = "\n".join((_render(reports), *(["", *next_] if next_ else [])))
        write_result(document, text, json_path)
        return
    for line in _render(reports, with_fixed=False).splitlines():
        complain(line, is_drawn=True)
    write_result(document, first.fixed.text, json_path, exact=True)


def _of_several(reports: list[Checked], documents: list[Json]) -> Json:
    """``spectui.lint/1`` of each command of a file."""
    heading = {"schema": "spectui.lint/1", "spectui": __version__}
    pairs = zip(reports, documents, strict=True)
    return {
        **heading,
        "commands": [
            {"name": report.name, **{k: v for k, v in one.items() if k not in heading}}
            for report, one in pairs
        ],
    }


def _lint_document(report: Checked) -> Json:
    """``spectui.lint/1``."""
    return {
        "schema": "spectui.lint/1",
        "spectui": __version__,
        "dialect": str(report.reader.dialect),
        "dialect_reason": report.chosen_by,
        "findings": [_finding_document(finding, report.command) for finding in report.findings],
        **or_reason("judged_by", _judged_by(report.reader), report.unjudged or ""),
        "withheld": list(_withheld(report)),
        "models_seen": report.unseen is None,
        **({} if report.unseen is None else {"models_seen_reason": report.unseen}),
        "fixed": report.fixed.text,
        "fixed_arguments": list(report.fixed.arguments),
    }


def _judged_by(reader: Reader) -> str | None:
    """The llama-server that read the command itself; None without one."""
    return None if reader.judge is None or reader.accepted is None else reader.accepted.program


def _withheld(report: Checked) -> tuple[str, ...]:
    """The options that the judge is not shown, each with the reason."""
    judge = report.reader.judge
    return () if judge is None else judge.withheld(report.fixed)


def _finding_document(finding: Finding, command: ServerCommand) -> Json:
    place = list(command.items[finding.at].words) if finding.at >= 0 else None
    return {
        "flag": finding.flag,
        "severity": str(finding.severity),
        "what": finding.what,
        "why": finding.why,
        **or_reason("words", place, "it is about the command as a whole"),
        **or_reason("replacement", finding.replacement, "only who wrote it knows what was meant"),
    }


def _render(reports: list[Checked], *, with_fixed: bool = True) -> str:
    """Render every finding, and the corrected command if it differs."""
    return drawn(*(part for one in reports for part in _parts(one, with_fixed=with_fixed)))


def _parts(report: Checked, *, with_fixed: bool) -> Iterator[RenderableType]:
    if report.name is not None:
        yield Text(printable(f"{report.name}:"), style="bold")
    for finding in report.findings:
        yield from _finding(finding, report.command)
    yield Text(_filled(_summary(report)))
    if report.unseen is not None and report.asked:
        yield Text(_filled(f"The models were not looked at: {printable(report.unseen)}"))
    if report.command.inside is not None:
        yield Text(_filled(_CONTAINED))
    before, after = report.command, report.fixed
    refused = dict.fromkeys(one.what for one in report.left if one.severity is Severity.ERROR)
    if refused and not with_fixed:
        yield Text(_filled(printable(f"{_UNCORRECTED}: {'; '.join(refused)}.")))
    if with_fixed and (after.text, after.remarks) != (before.text, before.remarks):
        yield Text("")
        yield Text(_filled(_heading(refused)), style="bold")
        yield _to_copy(report.fixed.text)
    if report.name is not None:
        yield Text("")


def _heading(refused: Iterable[str]) -> str:
    """Heading of the corrected command, with the findings that still stop the server."""
    told = "; ".join(refused)
    return printable(f"Corrected in part, and still refused ({told}):") if told else "Corrected:"


def _to_copy(command: str) -> Text:
    if printable(command) != command:
        return Text(_filled("it has characters that cannot be shown; --fix prints it as it is"))
    # A terminal may break it, we must not.
    return Text(command, no_wrap=True, overflow="ignore")


def _finding(finding: Finding, command: ServerCommand) -> Iterator[RenderableType]:
    style = _STYLES[finding.severity]
    yield Text(_filled(f"{finding.severity}: {printable(finding.what)}"), style=style)
    if finding.at >= 0:
        yield from _place(finding, command, style)
    yield Text(_filled(printable(finding.why), _INDENT))
    if finding.replacement:
        yield Text(_filled(f"write: {printable(finding.replacement)}", _INDENT))
    elif finding.replacement is not None:
        yield Text(_filled(f"leave out {printable(finding.flag)}", _INDENT))


def _place(finding: Finding, command: ServerCommand, style: str) -> Iterator[RenderableType]:
    """Yield the part of the command that a finding is about, marked, with what stands around it."""
    if command.is_section:
        # A file has a line for each.
        yield Text(f"{_INDENT}{printable(_as_key(command.items[finding.at]))}", style=style)
        return
    texts = [printable(_spelled(command, at)) for at in range(len(command.items))]
    at = finding.at
    room = page_width() - len(_INDENT) - 2 * len(_GAP)
    own = texts[at] if cell_len(texts[at]) <= room else f"{texts[at][: room - 1]}…"
    side = max(0, min(_AROUND, (room - cell_len(own)) // 2))
    before, behind = " ".join(texts[:at]), " ".join(texts[at + 1 :])
    ahead = f"{before} " if before else ""
    ahead = ahead if len(ahead) <= side else f"{_GAP}{ahead[len(ahead) - side :]}"
    after = f" {behind}" if behind else ""
    after = after if len(after) <= side else f"{after[:side]}\N{HORIZONTAL ELLIPSIS}"
    yield Text(f"{_INDENT}{ahead}{own}{after}", no_wrap=True, overflow="ignore")
    marks = f"{_INDENT}{' ' * cell_len(ahead)}{'^' * cell_len(own)}"
    yield Text(marks, style=style, no_wrap=True, overflow="ignore")


def _as_key(item: Item) -> str:
    """An item as a line of a models preset."""
    return f"{item.flag.lstrip('-')} = {' '.join(item.values) or 'on'}"


def _spelled(command: ServerCommand, at: int) -> str:
    """An item as it stands in the command: a variable as an assignment."""
    item = command.items[at]
    if item.variable is None:
        return item.text
    return f"{item.variable}={item.value}" if item.values else item.variable


def _summary(report: Checked) -> str:
    counts = {kind: sum(one.severity is kind for one in report.findings) for kind in Severity}
    told = ", ".join(
        f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count
    )
    reader, summary = report.reader, told or "No problems found"
    if report.unjudged is None:
        silence = None if reader.judge is None else reader.judge.silence
        if silence is not None:
            return printable(f"{summary}. Values were not all checked: {silence}.")
        withheld = "; ".join(_withheld(report))
        unseen = f" Not shown to it: {withheld}." if withheld else ""
        chosen = f"Judged by {reader.build} itself, as {report.chosen_by}."
        return printable(f"{summary}. {chosen}{unseen}")
    return printable(
        f"{summary}. Checked against the options of {reader.build} ({drawn_from(reader.dialect)}), "
        f"as {report.chosen_by}. Values were not checked, and unknown is not wrong: "
        f"{report.unjudged} (--server-bin PATH names one)."
    )


def _filled(text: str, indent: str = "") -> str:
    """Wrap for stdout, and never within an option."""
    return textwrap.fill(
        text,
        page_width(),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
