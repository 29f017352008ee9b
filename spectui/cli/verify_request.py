"""Request of ``spectui verify``: a study's promise, or a setting of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.adopted import adopt
from spectui.cli.drafting import take_drafting
from spectui.cli.drafting_checks import check_drafting
from spectui.cli.given import find_models
from spectui.cli.output import complain
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.cli.served_extra import served_extra
from spectui.cli.serving import Wanted
from spectui.errors import BadInputError, UsageError
from spectui.measure.promise import Case, Promise
from spectui.options.drafters import MODEL_KIND
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, builtin_suite, load_prompts
from spectui.tune.outcome import advice_of
from spectui.tune.studies.listing import StudyEntry, find_study, list_studies
from spectui.verify.subject import Origin

_MODELS = ("model", "model_draft", "preset", "demo", "command_line")
"""Parameters that select models and so exclude a study."""
_OF_A_STUDY = frozenset(
    {
        *("study", "server_bin", "storage", "repeats", "counts", "keeps_both", "timeout"),
        *("prompts", "seed", "json_path", "quiet", "verbose"),
    }
)
"""Parameters that go with a study, which determines all other options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The options that only ``verify`` has, by click's parameter names."""

    server_bin: str
    storage: str | None
    repeats: int
    no_promise: bool
    counts: bool | None
    keeps_both: bool | None
    timeout: float


def split(parsed: Mapping[str, Any]) -> tuple[VerifyOptions, SharedOptions, Speculation]:
    """Split the options of click into those of ``verify`` and the shared ones.

    Raises:
        UsageError: the setting would never draft.
    """
    speculation, rest = take_drafting(parsed)
    own = {field.name for field in fields(VerifyOptions)}
    options = VerifyOptions(**{key: value for key, value in rest.items() if key in own})
    shared = SharedOptions(**{key: value for key, value in rest.items() if key not in own})
    return options, shared, speculation


def is_direct(ctx: click.Context, study: str | None) -> bool:
    """Whether models are named instead of a study.

    Raises:
        UsageError: both are, or options that do not go with what is.
    """
    typed = [
        param
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]
    names = {param.name for param in typed}
    models = [param for param in typed if param.name in _MODELS]
    if models and study is None:
        if "storage" in names:
            raise UsageError("--storage is for studies; leave it out, or leave out the models")
        return True
    wrong = [param.opts[0] for param in typed if param.name not in _OF_A_STUDY]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)}: the study says that; leave it out, or leave out the study and "
            "give models with -m and -md, or --demo"
        )
    return False


def of_study(name: str | None, options: VerifyOptions, given: Path | None) -> Wanted:
    """The promise of a study and its prompts; sets the variables of its original command.

    Args:
        name: name of the study; None for the latest.
        options: options that locate the study.
        given: other prompts.

    Raises:
        BadInputError: it keeps no promise, or its prompts are gone.
        UsageError: there is no such study.
    """
    entry = find_study(list_studies(options.storage), name)
    promise = _promise_of(entry)
    names = () if entry.outcome is None else adopt(entry.outcome.start)
    if names:
        complain(f"as the command of the study sets them: {', '.join(names)}")
    prompts = _prompts(promise, given)
    for model in (promise.case.target, promise.case.draft):
        if model is not None and not model.path.exists():
            raise BadInputError(
                f"{model.path}, a model of the study {entry.name}, is not there any more; put it "
                "back, or give models with -m and -md"
            )
    advice = advice_of(entry.outcome, promise.case)
    origin = Origin(study=entry.name, changed=entry.changed, advice=advice)
    return Wanted(case=promise.case, prompts=prompts, promise=promise, origin=origin)


def _promise_of(entry: StudyEntry) -> Promise:
    if entry.promise is None:
        raise BadInputError(
            f"the study {entry.name} has confirmed no setting, or an older spectui made it, so "
            "there is no promise to verify; give its spectui tune command again, which goes on "
            "from there"
        )
    return entry.promise


def _prompts(promise: Promise, given: Path | None) -> tuple[Prompt, ...]:
    if given is not None:
        return load_prompts(given)
    if promise.is_chat:
        raise BadInputError(
            "the study was made on turns of a chat, whose text is not kept with it; give --prompts"
        )
    found = builtin_suite() if promise.prompts is None else load_prompts(promise.prompts)
    by_id = {prompt.id: prompt for prompt in found}
    measured = [by_id[name] for name in promise.prompt_ids if name in by_id]
    if not measured:
        raise BadInputError(
            f"none of the study's prompts is in {promise.prompts} any more; give --prompts"
        )
    return tuple(measured)


def of_options(
    shared: SharedOptions,
    speculation: Speculation,
    prompts: Sequence[Prompt],
    progress: Progress,
) -> Wanted:
    """The models and the setting that were given; nothing is measured yet.

    Raises:
        BadInputError: a file is missing.
        UsageError: options that contradict each other.
    """
    check_drafting(shared, speculation)
    options = with_preset_models(shared, most_drafts=int(speculation.needs_draft))
    if not speculation.needs_draft and options.model_draft:
        raise UsageError(
            f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave out -md"
        )
    models = find_models(options, progress, needs_draft=speculation.needs_draft)
    if len(models.drafts) > 1 and not options.demo:
        raise UsageError("verify runs one draft; give one -md")
    draft = next(iter(models.drafts.values())) if speculation.needs_draft else None
    target = options.target_options(models.target)
    case = Case(
        baseline=target,
        target=target,
        draft=None if draft is None else options.draft_options(draft),
        context=options.context_options(),
        speculation=speculation,
        sampling=options.sampling_config(),
        n_predict=options.n_predict,
        extra=served_extra(),
    )
    return Wanted(case=case, prompts=tuple(prompts), promise=None, origin=None)
