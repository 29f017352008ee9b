"""Runs ``spectui verify`` with parsed options."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from spectui.cli.given import Given
from spectui.cli.named_models import find_setup, with_preset_models
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.page import page_text
from spectui.cli.request import RunOptions, check_drafting, take_drafting
from spectui.cli.session import (
    SUITE_PROMPTS,
    open_engine,
    own_prompts,
    read_prompts,
    serving_of,
    wanted_binary,
)
from spectui.cli.taken import set_variables_of, warn_of_unmeasured
from spectui.cli.verify import Verify
from spectui.engine.placing import left_open
from spectui.errors import BadInputError, UsageError
from spectui.format import counted
from spectui.interrupts import interrupts, raise_ended
from spectui.llama.library import has_library
from spectui.measure.backend import header
from spectui.measure.promise import Case, Promise
from spectui.models.sampling import unmeasured_sentences
from spectui.monitor.machine import this_machine
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, builtin_suite
from spectui.tune.outcome import advice_of
from spectui.tune.studies.listing import StoredStudy, find_study, list_studies
from spectui.verify.claim import Claim
from spectui.verify.page import verified_page
from spectui.verify.result import Verified
from spectui.verify.verification import verify

_MODELS = ("model", "model_draft", "preset", "demo", "command_line")
"""Parameters that select models and so exclude a study."""
_OF_VERIFY = frozenset(("server_bin", "storage", "repeats", "no_promise", "keeps_both", "timeout"))
"""Parameters that other commands have not."""
_OF_A_STUDY = (_OF_VERIFY - {"no_promise"}) | {
    *("study", "prompts", "seed", "yes", "json_path", "quiet", "verbose")
}
"""Parameters that go with a study, which determines all other options."""


def run(request: Verify) -> None:
    """Obtain the promise, serve the prompts, compare, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: the binary is no llama-server, or failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    given, study = request.given, request.study
    speculation, rest = take_drafting(given)
    shared = RunOptions.of(rest)
    direct = _is_direct(given, study)
    unmeasured = warn_of_unmeasured(given)
    binary = wanted_binary(request.server_bin)
    check_writable(shared.json_path, (*shared.input_files(), Path(binary.path)))
    with shared.shown() as shown:
        serving = replace(
            serving_of(shown, binary),
            repeats=request.repeats,
            keeps_both=request.keeps_both,
        )
        if direct:
            read = read_prompts(shared, of_suite=SUITE_PROMPTS)
            unmeasured += read.notes
            claim = _of_options(shown, speculation, read.prompts)
            measures_promise = not request.no_promise and has_library()
        else:
            claim, measures_promise = _of_study(study, request.storage, shared.prompts), False
        opens = partial(open_engine, shown) if measures_promise else None
        found = verify(claim, serving, opens)
        interrupts.hold()
    _report(found, shared.json_path, unmeasured)
    raise_ended(
        found.ended,
        f"interrupted after {counted(len(found.pairs), 'prompt')} of llama-server's; what was "
        "measured is shown above, and the command run again measures all",
    )


def _is_direct(given: Given, study: str | None) -> bool:
    """Whether models are named instead of a study.

    Raises:
        UsageError: both are, or options that do not go with what is.
    """
    if study is None and not given.typed.isdisjoint(_MODELS):
        if "storage" in given.typed:
            raise UsageError("--storage is for studies; leave it out, or leave out the models")
        return True
    wrong = [flag for name, flag in given.flags.items() if name in given.typed - _OF_A_STUDY]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: the study says that; leave it out, or leave out the study and "
            "give models with -m and -md, or --demo"
        )
    return False


def _of_study(name: str | None, storage: str | None, given: Path | None) -> Claim:
    """The promise of a study and its prompts; sets the variables of its original command.

    Args:
        name: name of the study; None for the latest with a verdict.
        storage: where studies are kept; None for spectui's own file.
        given: other prompts.

    Raises:
        BadInputError: it keeps no promise, or its prompts are gone.
        UsageError: there is no such study.
    """
    studies = list_studies(storage)
    entry = find_study(studies, name)
    promise = _promise_of(entry)
    names = () if entry.outcome is None else set_variables_of(entry.outcome.start)
    if names:
        complain(f"as the command of the study sets them: {', '.join(names)}")
    prompts = _prompts(promise, given)
    for model in (promise.case.target, promise.case.draft):
        if model is not None and not model.path.exists():
            raise BadInputError(
                f"{model.path}, a model of the study {entry.name}, is not there any more; put it "
                "back, or give models with -m and -md"
            )
    return Claim(
        case=promise.case,
        prompts=prompts,
        promise=promise,
        study=entry.name,
        changed=entry.changed,
        advice=advice_of(entry.outcome, promise.case),
    )


def _promise_of(entry: StoredStudy) -> Promise:
    if entry.promise is None:
        raise BadInputError(
            f"the study {entry.name} has confirmed no setting, or an older spectui made it, so "
            "there is no promise to verify; give its spectui tune command again, which goes on "
            "from there"
        )
    return entry.promise


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


def _of_options(
    shared: RunOptions,
    speculation: Speculation,
    prompts: tuple[Prompt, ...],
) -> Claim:
    """The models and the setting that were given; nothing is measured yet.

    Raises:
        BadInputError: a file is missing.
        UsageError: options that contradict each other.
    """
    check_drafting(shared.context, speculation)
    options = with_preset_models(shared, most_drafts=int(speculation.needs_draft))
    setup = find_setup(options, speculation, several="verify runs one draft; give one -md")
    target = left_open(setup.target, options.fit)
    case = Case(
        baseline=target,
        target=target,
        draft=setup.draft,
        context=setup.context,
        speculation=setup.speculation or speculation,
        sampling=options.sampling_for(target.path),
        n_predict=options.n_predict,
        extra=setup.extra,
    )
    return Claim(case=case, prompts=prompts)


def _report(found: Verified, json_path: str | None, unmeasured: tuple[str, ...]) -> None:
    """Print promised against delivered.

    Args:
        found: both.
        json_path: value of ``--json``.
        unmeasured: parts of the ``--from`` command that are not measured, as reported before.
    """
    document = {**header("verify", this_machine()), **found.document()}
    asked = unmeasured_sentences(found.claim.case.target.path)
    document["notes"] = [*unmeasured, *asked, *document["notes"]]
    write_result(document, page_text(verified_page(found)), json_path)
