"""Runs ``spectui lint`` with parsed options."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from spectui import __version__
from spectui.cli.drawing import drawn, page_width
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.progress import open_progress
from spectui.cli.taken import mind_secrets
from spectui.commands.command import ServerCommand
from spectui.commands.lint.checking import fixed, lint
from spectui.commands.lint.finding import Finding
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import Takeover, take_over
from spectui.doctor.examination import Examination, Examiner, surroundings
from spectui.doctor.findings import findings
from spectui.documents import Json, or_reason
from spectui.engine.fit import fitted
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, SpectuiError, UsageError
from spectui.format import printable
from spectui.llama.planned import PlanRequest
from spectui.models.facts import kind_of_draft
from spectui.models.gguf import check_is_gguf, read_gguf
from spectui.models.header import GgufFile
from spectui.monitor.machine import this_machine
from spectui.options import catalogue, placement
from spectui.options.dialect import Dialect
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND
from spectui.options.reading import fit_of, read_options, read_speculation
from spectui.options.setup import Fit, Setup
from spectui.paths import text_of
from spectui.severity import Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "bold"}
_CONTAINED = (
    "The command was read out of a container: what is written here is llama-server's own part of "
    "it, with paths as they are on this machine where the container mounts a folder of it, and its "
    "own elsewhere."
)
_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Results of the checks."""

    command: ServerCommand
    fixed: ServerCommand
    reader: Reader
    findings: tuple[Finding, ...]
    unseen: str | None
    """Reason why the models were not examined; None if they were."""
    asked: bool
    """Whether the models should be examined."""


def run(
    command_line: str,
    *,
    fix: bool,
    dialect: str | None,
    server_bin: str | None,
    with_models: bool,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Check the command, print the report, and return the exit code.

    Args:
        command_line: the command, or where it is.
        fix: whether the corrected command is printed alone.
        dialect: of the llama-server that will read it; None for that of ``server_bin``.
        server_bin: that llama-server; None for any of the dialect.
        with_models: whether the models are examined where they are present.
        json_path: file for the findings; ``-`` for stdout.
        quiet: whether nothing is said meanwhile.

    Raises:
        BadInputError: there is no single command, or the JSON file cannot be written.
        ServerError: the binary cannot be asked.
        UsageError: options that contradict each other.
    """
    if fix and json_path == "-":
        raise UsageError("--fix and --json - both want stdout; the JSON has the corrected command")
    check_writable(json_path, ())
    reader = _reader(dialect, server_bin)
    report = examine(command_line, reader, with_models=with_models, quiet=quiet)
    left = report.findings
    if fix:
        # What only the models tell, no other words put right.
        of_models = tuple(finding for finding in left if finding.at < 0 and not finding.edits)
        left = (*lint(report.fixed, report.reader), *of_models)
        report = _with_left(report, left)
    _print(report, json_path, fix=fix)
    has_errors = any(finding.severity is Severity.ERROR for finding in left)
    return BadInputError.exit_code if has_errors else 0


def _with_left(report: Report, left: tuple[Finding, ...]) -> Report:
    """Add the errors that show only once others are corrected."""
    told = {(finding.flag, finding.what) for finding in report.findings}
    new = (one for one in left if (one.flag, one.what) not in told)
    errors = (one for one in new if one.severity is Severity.ERROR)
    return replace(report, findings=(*report.findings, *errors))


def _reader(dialect: str | None, server_bin: str | None) -> Reader:
    if server_bin is None:
        return Reader(dialect=Dialect(dialect or Dialect.LLAMA_CPP))
    from spectui.server.binary import examine as ask

    binary = ask(server_bin)
    if dialect is not None:
        binary.check_dialect(Dialect(dialect))
    accepted = binary.accepted
    return Reader(dialect=accepted.dialect, accepted=accepted)


def examine(command_line: str, reader: Reader, *, with_models: bool, quiet: bool) -> Report:
    """Check the command, and its models if they are present.

    Args:
        command_line: the command, or where it is.
        reader: which llama-server will read it, with the flags that it takes if they are known.
        with_models: whether models are looked at.
        quiet: whether nothing is said meanwhile.

    Raises:
        BadInputError: there is no single command.
    """
    command = read_command(command_line)
    mind_secrets(command)
    if not command.items:
        raise BadInputError("the command has no arguments; give one such as llama-server -m FILE")
    of_models: tuple[Finding, ...] = ()
    unseen: str | None = "--no-models was given"
    if with_models:
        # It loads what plans memory.
        from spectui.cli.run_lint import model_findings, with_facts

        command = with_facts(command)
        right = fixed(command, reader)
        of_models, unseen = model_findings(right, quiet=quiet)
    else:
        right = fixed(command, reader)
    found = (*lint(command, reader), *of_models)
    order = list(Severity)
    return Report(
        command=command,
        fixed=right,
        reader=reader,
        findings=tuple(sorted(found, key=lambda finding: order.index(finding.severity))),
        unseen=unseen,
        asked=with_models,
    )


def _print(report: Report, json_path: str | None, *, fix: bool) -> None:
    document = _lint_document(report)
    if fix and text_of(report.fixed.text) != report.fixed.text:
        raise BadInputError(
            "a value of the command is not valid UTF-8, which cannot be printed; rename the file"
        )
    if not fix:
        write_result(document, _render(report), json_path)
        return
    for line in _render(report, with_fixed=False).splitlines():
        complain(line, is_drawn=True)
    write_result(document, report.fixed.text, json_path, exact=True)


def _lint_document(report: Report) -> Json:
    """``spectui.lint/1``."""
    return {
        "schema": "spectui.lint/1",
        "spectui": __version__,
        "dialect": str(report.reader.dialect),
        "findings": [_finding_document(finding) for finding in report.findings],
        "models_seen": report.unseen is None,
        **({} if report.unseen is None else {"models_seen_reason": report.unseen}),
        "fixed": report.fixed.text,
        "fixed_arguments": list(report.fixed.arguments),
    }


def _finding_document(finding: Finding) -> Json:
    return {
        "flag": finding.flag,
        "severity": str(finding.severity),
        "what": finding.what,
        "why": finding.why,
        **or_reason("replacement", finding.replacement, "only who wrote it knows what was meant"),
    }


def _render(report: Report, *, with_fixed: bool = True) -> str:
    """Render every finding, and the corrected command if it differs."""
    return drawn(*_parts(report, with_fixed=with_fixed))


def _parts(report: Report, *, with_fixed: bool) -> Iterator[RenderableType]:
    for finding in report.findings:
        yield from _finding(finding)
    yield Text(_filled(_summary(report.findings)))
    if report.unseen is not None and report.asked:
        yield Text(_filled(f"The models were not looked at: {printable(report.unseen)}"))
    if report.command.inside is not None:
        yield Text(_filled(_CONTAINED))
    if with_fixed and report.fixed.text != report.command.text:
        yield Text("")
        yield Text("Corrected:", style="bold")
        yield _to_copy(report.fixed.text)


def _to_copy(command: str) -> Text:
    if printable(command) != command:
        return Text(_filled("it has characters that cannot be shown; --fix prints it as it is"))
    # A terminal may break it, we must not.
    return Text(command, no_wrap=True, overflow="ignore")


def _finding(finding: Finding) -> Iterator[RenderableType]:
    head = f"{finding.severity}: {printable(finding.what)}"
    yield Text(_filled(head), style=_STYLES[finding.severity])
    yield Text(_filled(printable(finding.why), _INDENT))
    if finding.replacement:
        yield Text(_filled(f"write: {printable(finding.replacement)}", _INDENT))
    elif finding.replacement is not None:
        yield Text(_filled(f"leave out {printable(finding.flag)}", _INDENT))


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "Nothing speaks against it."
    counts = {kind: sum(one.severity is kind for one in findings) for kind in Severity}
    return ", ".join(
        f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count
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


_WHY = "found as spectui doctor does, by headers and a plan of memory; no weight was loaded"


def with_facts(command: ServerCommand) -> ServerCommand:
    """The command with facts from the headers of those of its models that are on this machine."""
    target = _header(command.value("model"))
    draft = _header(command.value("model-draft"))
    return replace(
        command,
        target_tensors=None if target is None else frozenset(t.name for t in target.tensors),
        draft_tensors=None if draft is None else frozenset(t.name for t in draft.tensors),
        draft_kind=None if draft is None else kind_of_draft(draft),
    )


def _header(name: str | None) -> GgufFile | None:
    try:
        if name is None:
            return None
        check_is_gguf(Path(name))
        return read_gguf(Path(name))
    except (SpectuiError, ValueError):
        # What is wrong with the file is said where it is looked at as a model.
        return None


def model_findings(
    command: ServerCommand, *, quiet: bool
) -> tuple[tuple[Finding, ...], str | None]:
    """Findings on the models, or the reason why there can be none.

    Args:
        command: as it should be.
        quiet: whether nothing is said meanwhile.
    """
    try:
        takeover = _taken(command)
        models = _models(takeover.options)
    except SpectuiError as error:
        return (), str(error)
    missing = next((path for path in models if not path.exists()), None)
    if missing is not None:
        return (), f"{missing} is not here"
    try:
        setup = takeover.to_setup()
        for path in models:
            check_is_gguf(path)
        fit = fit_of(read_options(takeover.options, catalogue.RUN))
        found = _of_models(setup, fit, is_drafting=_is_drafting(command), quiet=quiet)
        return (*found, *_unplanned(command)), None
    except SpectuiError as error:
        return (Finding(flag="-m", severity=Severity.ERROR, what=str(error), why=_WHY),), None


def _of_models(
    setup: Setup, fit: Fit | None, *, is_drafting: bool, quiet: bool
) -> tuple[Finding, ...]:
    draft, speculation = setup.draft, setup.speculation
    progress = open_progress(quiet=quiet, verbose=False)
    try:
        with Planner(has_drafts=draft is not None, rpc=setup.target.devices.rpc) as planner:
            around = surroundings(planner, this_machine())
            request = PlanRequest(
                target=setup.target,
                context=setup.context,
                max_draft=0 if speculation is None else speculation.longest,
            )
            # What the command leaves to its server is where that puts it.
            chosen = fitted(planner, replace(request, draft=draft), fit)
            if chosen is not None:
                request = replace(request, target=chosen.target)
                draft = None if draft is None else chosen.beside(draft)
            drafts = {} if draft is None else {draft.path.name: draft}
            examiner = Examiner(planner, around, progress.say)
            is_mtp = speculation is not None and speculation.is_mtp and draft is None
            examination = examiner.examine(request, drafts, mtp=is_mtp)
            name = None if draft is None else draft.path.name
            return _findings(examination, name, is_drafting=is_drafting)
    finally:
        progress.close()


def _is_drafting(command: ServerCommand) -> bool:
    return bool(command.kinds) or command.drafts_with_model


def _is_unplanned(command: ServerCommand) -> bool:
    """Whether it drafts in a way whose memory demand only llama-server knows."""
    is_read_here = command.draft_kind in {None, MTP_KIND}
    return not is_read_here or not set(HIDDEN_STATE_KINDS).isdisjoint(command.kinds)


def _unplanned(command: ServerCommand) -> tuple[Finding, ...]:
    if not _is_unplanned(command):
        return ()
    return (
        Finding(
            flag="-md",
            severity=Severity.NOTE,
            what="whether there is memory for the draft as well was not looked at",
            why="it drafts from inside the target, which llama-server runs and spectui does not",
        ),
    )


def _taken(command: ServerCommand) -> Takeover:
    """The command as spectui takes it over, by the present names of its options.

    Raises:
        SpectuiError: it has options that spectui cannot read.
    """
    alone = _is_unplanned(command)
    kept = (item for item in command.items if not (alone and item.is_speculative))
    return take_over(ServerCommand.of(replace(item, variable=None) for item in kept))


def _models(given: Mapping[str, tuple[str, ...]]) -> list[Path]:
    """Files of the target and of the draft that llama-server takes, the last one.

    Raises:
        UsageError: an option has a value that it cannot have, or it would never draft.
    """
    values = read_options(given, catalogue.RUN)
    read_speculation(given)
    drafts = values[placement.MODEL_DRAFT.parameter]
    return [values[placement.MODEL.parameter], *drafts[-1:]]


def _findings(
    examination: Examination, draft: str | None, *, is_drafting: bool
) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            flag="-md" if draft is not None and one.text.startswith(draft) else "-m",
            severity=one.severity,
            what=one.text,
            why=_WHY,
        )
        for one in findings(examination, is_drafting=is_drafting)
    )
