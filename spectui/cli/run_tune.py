"""Runs ``spectui tune`` with parsed options."""

from dataclasses import replace
from functools import partial

from spectui.cli.from_command import warn_of_unmeasured
from spectui.cli.given import Given
from spectui.cli.output import check_writable, complain
from spectui.cli.page import shell_line, write_result
from spectui.cli.progress import Progress
from spectui.cli.request import RunOptions, check_engine
from spectui.cli.session import (
    read_chats,
    read_prompts,
    wanted_binary,
    with_backend,
    with_candidates,
)
from spectui.cli.tune import Tune
from spectui.cli.tune_search import Search
from spectui.errors import CancelledError, UsageError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.llama.search import find_server
from spectui.models.facts import unmeasured_sentences
from spectui.tune.page import commands_page, findings_page, machines_page
from spectui.tune.progress import Notice, SearchEnded, StudyOpened, TuneEvent
from spectui.tune.trials import n_measured
from spectui.tune.tuning import Tuned, Tuning


def tune(request: Tune) -> None:
    """Load the models, search, confirm, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
        UsageError: options that contradict each other.
    """
    given = with_backend(request.given)
    request = replace(request, given=given)
    shared = with_candidates(RunOptions.of(given))
    check_engine(given, shared.spec_type)
    if given.is_server and request.parameters:
        raise UsageError(
            f"--tune {request.tuned} moves the target in spectui's own engine; leave it out with "
            "--backend server"
        )
    binary = wanted_binary(given["server_bin"]) if given.is_server else None
    unmeasured = warn_of_unmeasured(given, through_server=given.is_server)
    check_writable(shared.json_path, shared.input_files())
    read, chats = read_prompts(shared), read_chats(shared)
    with shared.shown() as shown:
        search = Search(
            shared=shown,
            options=request,
            prompts=read.prompts,
            chats=chats,
            binary=binary,
        )
        with search.here() if binary is None else search.served(binary) as tuning:
            found = tuning.run(partial(_show, tuning, request, shown.progress))
    asked = unmeasured_sentences(found.tuning.setup.off.target.path)
    _report(found, (*unmeasured, *read.notes, *asked), given)
    _raise_ended(found)


def _show(tuning: Tuning, request: Tune, progress: Progress, event: TuneEvent) -> None:
    """Show what happens, and the search's plan as soon as its study is open."""
    match event:
        case SearchEnded():
            interrupts.hold()
        case StudyOpened(name=name):
            why_not = tuning.backend.why_unforecast
            progress.announce(request.plan(name, tuning.setup.workload, why_not))
        case Notice(text=text):
            progress.announce(text)
    progress.on_tune(event)


def _report(found: Tuned, unmeasured: tuple[str, ...], given: Given) -> None:
    """Print the result and how to use it, and keep both with the study.

    Args:
        found: what was searched and found.
        unmeasured: parts of the ``--from`` command that are not measured, as reported before.
        given: options of the command.
    """
    has_server = given.is_server or find_server() is not None
    again = shell_line(given.again("tune"))
    page, commands = findings_page(found), commands_page(found, again, has_server=has_server)
    document = found.document(unmeasured)
    not_kept = found.result.not_kept or found.tuning.keep_report(document, [*page, *commands])
    if not_kept is not None:
        complain(not_kept)
    machines = machines_page(found.tuning.machines())
    write_result(document, [*page, *machines, *commands], given["json_path"], quiet=given["quiet"])


def _raise_ended(found: Tuned) -> None:
    """Raise the error that ended the search, once the findings are printed.

    Raises:
        CancelledError: it was interrupted.
    """
    result, tuning = found.result, found.tuning
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {tuning.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )
