"""Runs ``spectui tune`` with parsed options."""

from dataclasses import replace

import click

from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.page import page_text
from spectui.cli.request import RunOptions, check_engine
from spectui.cli.session import read_chats, read_prompts, serving_of, with_backend, with_candidates
from spectui.cli.taken import warn_of_unmeasured
from spectui.cli.tune import Tune
from spectui.cli.tune_request import (
    check_request,
    measuring_binary,
    takes_mtp,
    verifying_binary,
)
from spectui.cli.tune_search import Search
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.llama.search import find_server
from spectui.measure.backend import ENGINE
from spectui.models.sampling import unmeasured_sentences
from spectui.server.binary import ServerBinary
from spectui.tune.document import Tuned
from spectui.tune.page import commands_page, findings_page, machines_page
from spectui.tune.served import Served, failure_of, search_budget_s, serve
from spectui.tune.setup import Limits
from spectui.tune.trials import n_measured

_PLACES_SHARE = 0.3
"""Share of the time budget in which the target's place is searched."""


def tune(request: Tune) -> None:
    """Load the models, search, confirm, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
    """
    given = with_backend(request.given)
    options = replace(
        request, given=given, backend=given["backend"], server_bin=given["server_bin"]
    )
    shared = with_candidates(RunOptions.of(given))
    check_request(options)
    options, measuring, verifying = _binaries(shared, options)
    unmeasured = warn_of_unmeasured(given, through_server=options.is_server)
    takes_mtp(shared, options)
    check_writable(shared.json_path, shared.input_files())
    read, chats = read_prompts(shared), read_chats(shared)
    with shared.shown() as shown:
        search = Search(
            shared=shown,
            options=options,
            limits=_limits(options, verifying),
            prompts=read.prompts,
            chats=chats,
        )
        found = search.served(measuring) if measuring is not None else search.here()
        served = None
        is_done = found.result.error is None and not found.result.interrupted
        if verifying is not None and is_done:
            served = _served(found, verifying, search)
        if served is not None:
            found = _judged(found, served, search)
    asked = unmeasured_sentences(found.tuning.setup.off.target.path)
    _report(found, served, (*unmeasured, *read.notes, *asked), shared.json_path)
    _raise_ended(found, served)


def _limits(options: Tune, verifying: ServerBinary | None) -> Limits:
    budget_s = options.time_budget
    return Limits(
        places_s=None if budget_s is None else _PLACES_SHARE * budget_s,
        n_trials=options.trials,
        until_precise=options.until == "precise",
        time_budget_s=search_budget_s(options.time_budget, has_server=verifying is not None),
    )


def _binaries(
    shared: RunOptions, options: Tune
) -> tuple[Tune, ServerBinary | None, ServerBinary | None]:
    """The llama-server that measures, or the one that checks what the engine has measured."""
    if options.is_server:
        measuring, options = measuring_binary(options, shared.given)
        return options, measuring, None
    check_engine(shared.spec_type)
    return options, None, verifying_binary(options)


def _served(found: Tuned, binary: ServerBinary, search: Search) -> Served | None:
    """Check the best setting on the user's llama-server."""
    # What was found is kept by now: this may be interrupted as well.
    interrupts.install()
    serving = serving_of(search.shared, binary)
    budget_s = search.options.time_budget
    measured = {item.id for item in found.tuning.setup.workload.items}
    prompts = [one for one in search.all_prompts if one.id in measured]
    served = serve(found.tuning, found.result, serving, prompts, budget_s=budget_s)
    interrupts.hold()
    return served


def _judged(found: Tuned, served: Served, search: Search) -> Tuned:
    """The result with llama-server's verdict, stored with the study where that is another one."""
    result = served.judged(found.result, search.options.time_budget)
    if served.verdict != found.result.verdict:
        result = found.tuning.keep(result)
        if result.not_kept is not None:
            search.shared.progress.announce(result.not_kept)
    return replace(found, result=result)


def _report(
    found: Tuned, served: Served | None, unmeasured: tuple[str, ...], json_path: str | None
) -> None:
    """Print the result and how to use it, and keep both with the study.

    Args:
        found: what was searched and found.
        served: results on llama-server.
        unmeasured: parts of the ``--from`` command that are not measured, as reported before.
        json_path: value of ``--json``.
    """
    has_server = served is not None or found.backend != ENGINE or find_server() is not None
    page, commands = findings_page(found, served), commands_page(found, has_server=has_server)
    document, text = found.document(unmeasured, served), page_text([*page, *commands])
    # Of a storage that does not have the verdict, it was told before.
    if found.result.not_kept is None:
        not_kept = found.tuning.keep_report(click.unstyle(text), document)
        if not_kept is not None:
            complain(not_kept)
    machines = machines_page(found.tuning.machines())
    write_result(document, page_text([*page, *machines, *commands]), json_path)


def _raise_ended(found: Tuned, served: Served | None) -> None:
    """Raise the error that ended the search, once the findings are printed.

    Raises:
        CancelledError: it was interrupted.
    """
    result, tuning = found.result, found.tuning
    if served is not None and served.ended is not None:
        raise failure_of(served.ended)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {tuning.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )
