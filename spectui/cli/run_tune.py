"""Runs ``spectui tune`` with parsed options."""

from dataclasses import replace

from spectui.cli.drafting import check_engine
from spectui.cli.output import check_writable
from spectui.cli.request import RunOptions
from spectui.cli.served_session import with_backend
from spectui.cli.session import read_chats, read_prompts, with_candidates
from spectui.cli.taken import warn_of_unmeasured
from spectui.cli.tune import Tune
from spectui.cli.tune_report import report
from spectui.cli.tune_request import (
    check_request,
    measuring_binary,
    slots_of,
    takes_mtp,
    verifying_binary,
)
from spectui.cli.tune_search import Search
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.models.sampling import unmeasured_sentences
from spectui.server.binary import ServerBinary
from spectui.tune.document import Tuned
from spectui.tune.served import Served as Finalists
from spectui.tune.served import failure_of, search_budget_s, serve, with_server_ranking, with_time
from spectui.tune.setup import Limits
from spectui.tune.studies.storage import check_writable as check_storage
from spectui.tune.trials import n_measured
from spectui.verify.verification import Serving

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
    check_storage(options.storage)
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
            served = _finalists_served(found, verifying, search)
            found = _ranked(found, served, search)
    asked = unmeasured_sentences(found.tuning.setup.off.target.path)
    report(found, served, (*unmeasured, *read.notes, *asked), shared.json_path)
    _raise_ended(found, served)


def _limits(options: Tune, verifying: ServerBinary | None) -> Limits:
    has_server = verifying is not None or len(slots_of(options)) > 1
    budget_s = options.time_budget
    return Limits(
        places_s=None if budget_s is None else _PLACES_SHARE * budget_s,
        n_trials=options.trials,
        time_budget_s=search_budget_s(options.time_budget, has_server=has_server),
        until_precise=options.until == "precise",
        n_confirmations=options.repeats,
    )


def _binaries(
    shared: RunOptions, options: Tune
) -> tuple[Tune, ServerBinary | None, ServerBinary | None]:
    """The llama-server that measures, or the one that checks what the engine has measured."""
    if options.is_server:
        measuring, options = measuring_binary(options, shared.given)
        return options, measuring, None
    check_engine(shared.readers)
    return options, None, verifying_binary(options)


def _finalists_served(found: Tuned, binary: ServerBinary, search: Search) -> Finalists | None:
    """Measure the best on the user's llama-server."""
    # What was found is kept by now: this may be interrupted as well.
    interrupts.install()
    serving = Serving(
        binary=binary,
        say=search.shared.progress.say,
        announce=search.shared.progress.announce,
        on_run=search.shared.progress.on_run,
        timeout_s=search.options.timeout,
        seed=search.shared.sampling.seed,
        from_disk=search.shared.yes,
    )
    budget_s = search.options.time_budget
    measured = {item.id for item in found.tuning.setup.workload.items}
    prompts = [one for one in search.all_prompts if one.id in measured]
    served = serve(found.tuning, found.result, serving, prompts, budget_s=budget_s)
    interrupts.hold()
    return served


def _ranked(found: Tuned, served: Finalists | None, search: Search) -> Tuned:
    """The result in llama-server's ranking, stored with the study."""
    ranked = with_server_ranking(found.result, served)
    if ranked is not found.result:
        ranked = found.tuning.keep(ranked)
        if ranked.not_kept is not None:
            search.shared.progress.announce(ranked.not_kept)
    served_s = 0.0 if served is None else served.took_s
    return replace(found, result=with_time(ranked, search.options.time_budget, served_s))


def _raise_ended(found: Tuned, served: Finalists | None) -> None:
    """Raise the error that ended the search, once the findings are printed.

    Raises:
        CancelledError: it was interrupted.
    """
    result, tuning = found.result, found.tuning
    ended = found.by_slots.ended if served is None else served.ended
    if ended is not None:
        raise failure_of(ended)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {tuning.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )
