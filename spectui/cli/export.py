"""``spectui export``: the flags that tuning advised, or a command in today's words."""

from dataclasses import replace

from spectui.cli.click_options import argument, files, option, request, request_command
from spectui.cli.from_command import found_reader, given_reader, warn_of_secrets, warn_of_silence
from spectui.cli.options import DIALECTS, STORAGE, server_bin_option
from spectui.cli.output import complain, say_exactly
from spectui.cli.removed import ExportFormats
from spectui.commands.command import ServerCommand
from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup, Launch, translated
from spectui.commands.programs import recognise, starts_server
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import names_model
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.options.option import Dialect

_EXAMPLES = (
    ("What the latest tune advised, as a command", "spectui export"),
    ("A study's flags as a models preset", "spectui export STUDY --format ini > models.ini"),
    ("A command in today's words", "spectui export --from serve.sh"),
)


@request
class Export:
    """Write the flags that spectui tune printed in the end of STUDY, for a llama-server.

    STUDY is a name, or a part of one; without it, the latest study that has a verdict. Where that
    was to turn speculation off, no speculative flag is written.
    """

    study: str | None = argument(required=False)
    command_line: str | None = option(
        "--from",
        metavar="COMMAND",
        shell_complete=files,
        help='Rewrite an existing command instead: "llama-server -m ...".',
    )
    dialect: str | None = option(
        "--dialect",
        type=DIALECTS,
        help="Whose option names are written (default: of --server-bin, the study or the command).",
    )
    server_bin: str | None = server_bin_option(
        "The llama-server that will read it: only what its --help lists is written."
    )
    format: str = option(
        "--format",
        default="llama-server",
        type=ExportFormats([*map(str, Format)]),
        help="A command, or a file of llama-server's models presets.",
    )
    storage: str | None = STORAGE


command = request_command(Export, "export", "export:export", examples=_EXAMPLES)


def export(request: Export) -> None:
    """Print what is exported.

    Raises:
        BadInputError: there is nothing that can be exported so.
        UsageError: options contradict each other.
    """
    names_study = request.study is not None or request.storage is not None
    if request.command_line is not None and names_study:
        raise UsageError("--from rewrites a command, so there is no study to take; leave one out")
    given = given_reader(request.dialect, request.server_bin)
    exported: ExportSetup | ServerCommand
    if request.command_line is None:
        exported, usual = _from_study(request.study, request.storage)
    else:
        exported = _from_command(request.command_line, request.format)
        own = recognise(exported)
        usual = own.dialect
        if usual is Dialect.IK and given is None:
            complain(f"written for {usual}, since {own.reason}")
    _export(exported, usual, given, request)


def _from_study(name: str | None, storage: str | None) -> tuple[ExportSetup, Dialect]:
    """Return a study's advised setup and its dialect; print remarks on stderr.

    Raises:
        BadInputError: the study keeps no advice, or the storage cannot be used.
        UsageError: there is no such study, or more than one.
    """
    # It loads Optuna.
    from spectui.tune.studies.listing import find_study, list_studies

    studies = list_studies(storage)
    study = find_study(studies, name)
    outcome = study.ended()
    complain(f"{study.name}, {outcome.ended.astimezone():%Y-%m-%d %H:%M}: {outcome.verdict.reason}")
    if outcome.is_confirmed and outcome.verdict.basis is None:
        complain(
            "note: an older spectui gave this verdict, which may rest on the prompts that "
            "chose the setting; its spectui tune command judges it on others"
        )
    setup = outcome.exported()
    for options in setup.models:
        if not options.path.exists():
            complain(f"note: {options.path} is not there any more")
    return setup, outcome.dialect


def _from_command(text: str, format_: str) -> ServerCommand:
    """Return an existing command.

    Args:
        text: the command, or where it is.
        format_: format of the export.

    Raises:
        BadInputError: spectui cannot read it, or it does not say what to serve.
    """
    command = read_command(text)
    warn_of_secrets(command)
    if not names_model(command.items) and not _is_whole(command, format_):
        raise BadInputError(
            "the command names no model; add -m FILE, -hf REPOSITORY or --models-dir FOLDER, or "
            "give the part that starts llama-server alone"
        )
    return command


def _is_whole(command: ServerCommand, format_: str) -> bool:
    """Whether a command without a model means something in a format.

    A router has none, and a section of its file may be called as one that it knows.
    """
    if command.is_section:
        return format_ == Format.INI or command.known_as is None
    return starts_server(command) and format_ != Format.INI


def _export(
    exported: ExportSetup | ServerCommand, usual: Dialect, given: Reader | None, request: Export
) -> None:
    """Print a setup or a command for its reader.

    Args:
        exported: setup or command to export.
        usual: the dialect where no reader is named.
        given: the llama-server that was named.
        request: its format.

    Raises:
        BadInputError: dialect, format or program have no words for it.
    """
    format_ = Format(request.format)
    reader = Reader(dialect=usual) if given is None else replace(given, judge=None)
    launch = _launch(exported, reader)
    _check_taken(launch, given)
    text = render(launch, format_)
    for line in launch.notes:
        complain(line)
    if launch.command.beside:
        left = printable(", ".join(launch.command.beside))
        complain(f"left out, since only its own file has it: {left}")
    say_exactly(text.removesuffix("\n"))


def _launch(exported: ExportSetup | ServerCommand, reader: Reader) -> Launch:
    """The launch of the program that was named, or of the command's own, for its reader."""
    if isinstance(exported, ExportSetup):
        named = None if reader.program is None else reader
        return exported.launch(reader.dialect, named)
    return translated(exported, reader)


def _check_taken(launch: Launch, given: Reader | None) -> None:
    """Ask the llama-server that was named, or the one of this machine.

    Raises:
        BadInputError: it stops at an option.
    """
    judge = found_reader(launch.command) if given is None else given
    if judge is None or judge.judge is None or judge.dialect is not launch.reader.dialect:
        return
    for finding in judge.judge(launch.command, ()):
        instead = f"write {finding.replacement}" if finding.replacement else "take it out"
        other = ", or give --dialect, which asks no llama-server" if given is None else ""
        raise BadInputError(
            printable(f"{judge.build} refuses it: {finding.what}: {finding.why}; {instead}{other}")
        )
    warn_of_silence(judge)
