"""``spectui export``: the flags that tuning advised, or a command in today's words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from spectui.cli.completing import files, studies
from spectui.cli.help import Command
from spectui.cli.judged import found_reader
from spectui.cli.options_common import STORAGE
from spectui.cli.output import check_writable, complain, say_exactly
from spectui.cli.taken import mind_secrets
from spectui.commands.command import COMPOSE, INI, LLAMA_SWAP, ServerCommand
from spectui.commands.container_formats import MOUNTED
from spectui.commands.formats import Format, render
from spectui.commands.home import places_at_home
from spectui.commands.launch import ExportSetup, Launch
from spectui.commands.programs import starts_server
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import names_model
from spectui.commands.translation import translated
from spectui.errors import BadInputError, UsageError
from spectui.format import printable
from spectui.options.dialect import Dialect
from spectui.writing import write_file, write_new_file

_DIALECTS = ("auto", "llama.cpp", "llama.cpp-legacy", "ik")
_FORMATS = ("llama-server", "args", "env", "ini", "llama-swap", "compose", "json")
_OF_SHELLS = frozenset({Format.LLAMA_SERVER, Format.ENV})
_AUTO = "auto"
_READERS = {
    INI: "a models preset file",
    LLAMA_SWAP: "llama-swap",
    COMPOSE: "a container",
}
"""The program that reads each kind of file."""


_EXAMPLES = (
    ("What the latest tune advised, as a command", "spectui export"),
    (
        "A study's flags for Compose, in a file",
        "spectui export STUDY --format compose --out new.yml",
    ),
    ("A command in today's words, as a file", "spectui export --from serve.sh --format compose"),
)


@click.command(name="export", cls=Command, examples=_EXAMPLES)
@click.argument("study", required=False, shell_complete=studies)
@click.option(
    "--from",
    "command_line",
    metavar="COMMAND",
    shell_complete=files,
    help='Rewrite an existing command instead: "llama-server -m ...".',
)
@click.option(
    "--dialect",
    type=click.Choice(_DIALECTS),
    default="auto",
    show_default=True,
    help="Whose option names are written; auto asks --server-bin, else follows study or command.",
)
@click.option(
    "--server-bin",
    metavar="PATH",
    shell_complete=files,
    help="The llama-server that will read it: only what its --help lists is written.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="llama-server",
    show_default=True,
    help="A command, its arguments, variables, or a file for what starts llama-server.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it to FILE instead of stdout.",
)
@click.option("--force", is_flag=True, help="Let --out take the place of a file that exists.")
@click.option(
    "--pin",
    is_flag=True,
    help="Write the layers and experts that --fit has chosen, not leave them to the server.",
)
@STORAGE
def command(
    *,
    study: str | None,
    command_line: str | None,
    dialect: str,
    server_bin: str | None,
    format_: str,
    out: Path | None,
    force: bool,
    pin: bool,
    storage: str | None,
) -> None:
    """Write the flags that spectui tune printed in the end of STUDY, for a llama-server.

    STUDY is a name, or a part of one; without it, the latest study that has a verdict. Where that
    was to turn speculation off, no speculative flag is written.
    """
    if command_line is not None and (study is not None or storage is not None):
        raise UsageError("--from rewrites a command, so there is no study to take; leave one out")
    if force and out is None:
        raise UsageError("--force is for --out FILE; add it, or leave out --force")
    if pin and command_line is not None:
        raise UsageError("--pin is for a study, which knows what was fitted; leave one out")
    reader = _Reader(dialect=dialect, server_bin=server_bin, format=format_)
    if command_line is None:
        setup, usual = _from_study(study, storage)
        setup = setup.pinned() if pin else setup
        _export(setup, usual, reader, out, force=force)
    else:
        existing = _from_command(command_line, format_)
        own = recognise(existing)
        if own.dialect is Dialect.IK and dialect == _AUTO and server_bin is None:
            complain(f"written for {own.dialect}, since {own.reason}")
        _export(existing, own.dialect, reader, out, force=force)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """The target reader of the export, from the options."""

    dialect: str
    server_bin: str | None
    format: str


def _from_study(name: str | None, storage: str | None) -> tuple[ExportSetup, Dialect]:
    """Return a study's advised setup and its dialect; print remarks on stderr.

    Raises:
        BadInputError: the study keeps no advice, or the storage cannot be used.
        UsageError: there is no such study, or more than one.
    """
    # It loads Optuna.
    from spectui.tune.studies.listing import decided, find_study, list_studies

    studies = list_studies(storage)
    study = find_study(decided(studies) if name is None else studies, name)
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
            "mind that an older spectui gave this verdict, which may rest on the prompts that "
            "chose the setting; its spectui tune command judges it on others"
        )
    setup = outcome.exported()
    for options in setup.models:
        if not options.path.exists():
            complain(f"mind that {options.path} is not there any more")
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
    mind_secrets(command)
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
    section = command.entry(INI)
    if section is not None:
        return format_ == Format.INI or section.name is None
    return starts_server(command) and format_ not in {Format.INI, Format.LLAMA_SWAP}


def _export(
    exported: ExportSetup | ServerCommand,
    usual: Dialect,
    reader: _Reader,
    out: Path | None,
    *,
    force: bool,
) -> None:
    """Print a setup or a command for its reader, or write it to ``out``.

    Args:
        exported: setup or command to export.
        usual: the dialect where the reader says nothing of it.
        reader: target reader of the export.
        out: a file, None for stdout.
        force: whether the file may exist.

    Raises:
        BadInputError: dialect, format or program have no words for it, or the file exists or
            cannot be written.
        ServerError: the program cannot be asked.
        UsageError: the program has another dialect than the one asked for.
    """
    format_ = Format(reader.format)
    if out is not None:
        _check_free(out, exported.files, force=force)
    launch = _launch(exported, usual, reader)
    # A container has a program of its own.
    if format_ is not Format.COMPOSE:
        _check_taken(launch, reader)
    text = render(launch, format_)
    _tell(launch, format_)
    if out is not None:
        _write(text, out, force=force)
    elif text:
        # A list of no arguments is no line.
        say_exactly(text.removesuffix("\n"))


def _tell(launch: Launch, format_: Format) -> None:
    """Print on stderr the remarks that are not in the text."""
    for line in (*launch.notes, *_left_behind(launch, format_)):
        complain(line)
    if format_ is Format.ARGS:
        start = launch.start
        for line in launch.comments:
            complain(line)
        if start.environment or len(start.program) > 1:
            complain(f"left out, since {format_} holds arguments alone: {printable(start.text)}")


def _left_behind(launch: Launch, format_: Format) -> Iterator[str]:
    """Yield notes on what the chosen format cannot hold."""
    items = launch.command.items
    if format_ is Format.COMPOSE:
        # Compose knows the home folder in what is mounted.
        items = tuple(item for item in items if item.name not in MOUNTED)
    places = places_at_home(replace(launch.command, items=items, prelude=launch.start.program))
    if places and format_ not in _OF_SHELLS:
        yield (
            f"mind that only a shell knows what ~ stands for, and none reads {format_}: write the "
            f"folder in {', '.join(map(printable, places))}"
        )
    for entry in launch.command.entries:
        if entry.format == format_:
            continue
        if entry.settings:
            settings = printable(", ".join(map(str, entry.settings)))
            yield f"left out, since it is for {_READERS[entry.format]} alone: {settings}"
        if entry.given:
            yield f"left out, since {_READERS[entry.format]} chooses it: {', '.join(entry.given)}"


def _launch(exported: ExportSetup | ServerCommand, usual: Dialect, reader: _Reader) -> Launch:
    """The launch for its reader."""
    has_gpu = True
    if reader.format == Format.COMPOSE:
        # It loads llama.cpp.
        from spectui.llama import devices

        has_gpu = devices.has_gpu()
    dialect, program, accepted = usual, None, None
    if reader.server_bin is not None:
        from spectui.server.binary import examine

        binary = examine(reader.server_bin)
        if reader.dialect != _AUTO:
            binary.check_dialect(Dialect(reader.dialect))
        dialect = binary.dialect
        # A container has a program of its own.
        if reader.format != Format.COMPOSE:
            program, accepted = binary.path, binary.accepted
    elif reader.dialect != _AUTO:
        dialect = Dialect(reader.dialect)
    if isinstance(exported, ExportSetup):
        setup = replace(exported, has_gpu=has_gpu, program=program, accepted=accepted)
        return setup.launch(dialect)
    if reader.format == Format.COMPOSE and exported.inside is not None:
        exported = replace(exported.inside, entries=exported.entries)
    return translated(
        exported, Reader(dialect=dialect, accepted=accepted), program=program, has_gpu=has_gpu
    )


def _check_taken(launch: Launch, reader: _Reader) -> None:
    """Ask the llama-server that will read it, or the one of this machine.

    Raises:
        BadInputError: it stops at an option.
    """
    judge = None
    if reader.server_bin is not None:
        from spectui.server.binary import examine
        from spectui.server.judge import reader_of

        judge = reader_of(examine(reader.server_bin))
    elif reader.dialect == _AUTO:
        judge = found_reader(launch.command)
    if judge is None or judge.judge is None or judge.dialect is not launch.reader.dialect:
        return
    for finding in judge.judge(launch.command, ()):
        instead = f"write {finding.replacement}" if finding.replacement else "take it out"
        other = "" if reader.server_bin else ", or give --dialect, which asks no llama-server"
        raise BadInputError(
            printable(f"{judge.build} refuses it: {finding.what}: {finding.why}; {instead}{other}")
        )


def _check_free(out: Path, models: Sequence[Path], *, force: bool) -> None:
    check_writable(str(out), models, option="--out", must_be_file=True)
    if out.exists() and not force:
        raise _taken(out)


def _taken(out: Path) -> BadInputError:
    return BadInputError(f"--out {out} exists; give another file, or add --force to overwrite it")


def _write(text: str, out: Path, *, force: bool) -> None:
    try:
        (write_file if force else write_new_file)(out, text.encode())
    except FileExistsError:
        raise _taken(out) from None
    except OSError as error:
        raise BadInputError(
            f"--out {out} cannot be written ({error.strerror}); give another file"
        ) from error
    complain(f"written to {out}")
