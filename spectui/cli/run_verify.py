"""Runs ``spectui verify`` with parsed options."""

from pathlib import Path

from spectui.cli.from_command import set_variables_of
from spectui.cli.output import check_writable, complain
from spectui.cli.page import write_result
from spectui.cli.progress import open_progress
from spectui.cli.session import own_prompts, wanted_binary
from spectui.cli.verify import Verify
from spectui.errors import BadInputError
from spectui.format import counted
from spectui.interrupts import interrupts, raise_ended
from spectui.measure.backend import header
from spectui.measure.promise import Promise
from spectui.measure.servers import Fleet, keeps_off
from spectui.models.facts import unmeasured_sentences
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt, builtin_suite
from spectui.tune.result import advice_of
from spectui.tune.studies.listing import StoredStudy, find_study, list_studies
from spectui.verify.comparison import subject_of
from spectui.verify.verification import verified_page, verify


def run(request: Verify) -> None:
    """Find the promise, serve the prompts, compare, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: the binary is no llama-server, or failed; what was measured has been printed.
    """
    study, promise = _promised(request)
    binary = wanted_binary(request.server_bin)
    check_writable(request.json_path, (request.prompts, Path(binary.path)))
    with open_progress(quiet=request.quiet) as progress:
        case, prompts = promise.case, _prompts(promise, request.prompts)
        advice = advice_of(study.outcome, case)
        subject = subject_of(case, study.name, study.changed, advice)
        progress.say(subject)
        fleet = Fleet(
            binary,
            keeps_off=keeps_off(case),
            timeout_s=request.timeout,
            say=progress.say,
            from_disk=request.yes,
        )
        found = verify(promise, prompts, fleet, repeats=request.repeats, on_pair=progress.on_pair)
        interrupts.hold()
    document = {**header("verify", this_machine()), **found.document(study.name, advice)}
    asked = unmeasured_sentences(case.target.path)
    document["notes"] = [*asked, *document["notes"]]
    write_result(document, verified_page(found, subject), request.json_path, quiet=request.quiet)
    raise_ended(
        found.comparison.ended,
        f"interrupted after {counted(len(found.comparison.pairs), 'prompt')} of llama-server's; "
        "what was measured is shown above, and the command run again measures all",
    )


def _promised(request: Verify) -> tuple[StoredStudy, Promise]:
    """The study and its promise; sets the variables of its original command.

    Raises:
        BadInputError: it keeps no promise, or its models are gone.
        UsageError: there is no such study.
    """
    entry = find_study(list_studies(request.storage), request.study)
    promise = entry.promise
    if promise is None:
        raise BadInputError(
            f"the study {entry.name} has confirmed no setting, or an older spectui made it, so "
            "there is no promise to verify; give its spectui tune command again, which goes on "
            "from there"
        )
    names = () if entry.outcome is None else set_variables_of(entry.outcome.start)
    if names:
        complain(f"as the command of the study sets them: {', '.join(names)}")
    for model in (promise.case.target, promise.case.draft):
        if model is not None and not model.path.exists():
            raise BadInputError(
                f"{model.path}, a model of the study {entry.name}, is not there any more; put it "
                "back, or measure with spectui bench --backend server"
            )
    return entry, promise


def _prompts(promise: Promise, given: Path | None) -> tuple[Prompt, ...]:
    if given is not None:
        return own_prompts(given).prompts
    if promise.is_chat:
        raise BadInputError(
            "the study was made on turns of a chat, whose text is not kept with it; give --prompts"
        )
    found = builtin_suite() if promise.prompts is None else own_prompts(promise.prompts).prompts
    by_id = {prompt.id: prompt for prompt in found}
    measured = [by_id[name] for name in promise.prompt_ids if name in by_id]
    if not measured:
        raise BadInputError(
            f"none of the study's prompts is in {promise.prompts} any more; give --prompts"
        )
    return tuple(measured)
