"""``spectui export``: the flags that tuning advised, or a command in today's words."""

from collections.abc import Iterator
from dataclasses import replace

import click

from spectui.cli.click_options import argument, files, option, request, request_command, switch
from spectui.cli.options import DIALECTS, STORAGE, server_bin_option
from spectui.cli.output import complain, say_exactly
from spectui.cli.taken import found_reader, given_reader, warn_of_secrets, warn_of_silence
from spectui.commands.command import ServerCommand
from spectui.commands.container_formats import MOUNTED
from spectui.commands.formats import Format, render
from spectui.commands.home import places_at_home
from spectui.commands.launch import ExportSetup, Launch
from spectui.commands.programs import starts_server
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.sources.llama_swap import CHOSEN_PORT
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import names_model
from spectui.commands.translation import translated
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.options.dialect import Dialect

_EXAMPLES = (
    ("What the latest tune advised, as a command", "spectui export"),
    ("A study's flags for Compose", "spectui export STUDY --format compose > new.yml"),
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
        type=click.Choice([*map(str, Format)]),
        help="A command, or a file for what starts llama-server.",
    )
    pin: bool = switch(
        "--pin",
        help="Write the layers and experts that --fit has chosen, not leave them to the server.",
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
    if request.pin and request.command_line is not None:
        raise UsageError("--pin is for a study, which knows what was fitted; leave one out")
    given = given_reader(request.dialect, request.server_bin)
    exported: ExportSetup | ServerCommand
    if request.command_line is None:
        setup, usual = _from_study(request.study, request.storage)
        exported = setup.pinned() if request.pin else setup
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
    outcome = study.outcome
    if outcome is None:
        raise BadInputError(
            f"the study {study.name} keeps neither a verdict nor where its models are: it was "
            "interrupted, or made by an older spectui; give its spectui tune command again, which "
            "goes on from there"
        )
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
    return starts_server(command) and format_ not in {Format.INI, Format.LLAMA_SWAP}


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
    if format_ is Format.COMPOSE:
        # A container has a program of its own.
        reader = replace(reader, accepted=None)
    program = None if reader.accepted is None else reader.accepted.program
    launch = _launch(exported, reader, program, format_)
    if format_ is not Format.COMPOSE:
        _check_taken(launch, given)
    text = render(launch, format_)
    for line in (*launch.notes, *_left_behind(launch, format_)):
        complain(line)
    say_exactly(text.removesuffix("\n"))


def _left_behind(launch: Launch, format_: Format) -> Iterator[str]:
    """Yield notes on what the chosen format cannot hold."""
    items = launch.command.items
    if format_ is Format.COMPOSE:
        # Compose knows the home folder in what is mounted.
        items = tuple(item for item in items if item.name not in MOUNTED)
    places = places_at_home(replace(launch.command, items=items, prelude=launch.start.program))
    if places and format_ is not Format.LLAMA_SERVER:
        yield (
            f"note: only a shell knows what ~ stands for, and none reads {format_}: write the "
            f"folder in {', '.join(map(printable, places))}"
        )
    written = {CHOSEN_PORT} if format_ is Format.LLAMA_SWAP else set()
    left = [name for name in launch.command.beside if name not in written]
    if left:
        yield f"left out, since only its own file has it: {printable(', '.join(left))}"


def _launch(
    exported: ExportSetup | ServerCommand, reader: Reader, program: str | None, format_: Format
) -> Launch:
    """The launch of a program, or of the command's own, for its reader."""
    has_gpu = True
    if format_ is Format.COMPOSE:
        # It loads llama.cpp.
        from spectui.llama import devices

        has_gpu = devices.has_gpu()
    if isinstance(exported, ExportSetup):
        setup = replace(exported, has_gpu=has_gpu, program=program, accepted=reader.accepted)
        return setup.launch(reader.dialect)
    return translated(exported, reader, program=program, has_gpu=has_gpu)


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
