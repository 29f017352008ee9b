"""The study of ``spectui tune``: its search space, its storage, and its stored outcome."""

from collections.abc import Sequence
from typing import Any

from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.cli.tune_promise import keep_promise
from spectui.cli.tune_request import TuneOptions, TuneRun
from spectui.errors import BadInputError, UsageError
from spectui.options.dialect import NGRAM_DIALECTS, Dialect
from spectui.options.drafters import MTP_KIND
from spectui.tune.candidates import Candidate
from spectui.tune.outcome import advised, outcome_of
from spectui.tune.placements import Placements
from spectui.tune.result import TuneResult
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.stored import to_plain
from spectui.tune.studies.samplers import Sampler
from spectui.tune.studies.storage import own_storage
from spectui.tune.studies.study import TuningStudy


def takes_mtp(shared: SharedOptions, options: TuneOptions) -> bool:
    """Whether the target's MTP layers may draft.

    Raises:
        UsageError: they were asked for together with what does not go with them.
    """
    is_named = shared.names_mtp
    has_flags = Dialect(options.dialect) in NGRAM_DIALECTS
    if is_named and not has_flags:
        raise UsageError(
            f"--dialect {options.dialect} has no flags for {MTP_KIND} that spectui knows; leave "
            "one of them out"
        )
    if is_named and Parameter.N_CPU_MOE in options.parameters():
        raise UsageError(
            f"--tune {Parameter.N_CPU_MOE} plans for draft models alone; leave it out, or "
            f"{MTP_KIND} of --spec-type"
        )
    return has_flags


def space_of(
    options: TuneOptions,
    mtp_layers: int,
    candidates: Sequence[Candidate],
    *,
    max_draft: int,
    placements: Placements | None = None,
    with_ngrams: bool = True,
    readers: tuple[tuple[str, str], ...] = (),
) -> SearchSpace:
    """Build the search space.

    Raises:
        UsageError: there is nothing to search.
    """
    usable = tuple(c.name for c in candidates if c.reason is None)
    with_ngrams = with_ngrams and Dialect(options.dialect) in NGRAM_DIALECTS
    if not usable and not with_ngrams:
        raise UsageError(
            f"there is nothing to try: no draft can be used, and --dialect {options.dialect} has "
            "no n-gram drafters; give -md, or leave out --dialect"
        )
    return SearchSpace(
        drafts=usable,
        tuned=options.parameters(),
        mtp_layers=mtp_layers,
        with_ngrams=with_ngrams,
        max_draft=max_draft,
        placements=placements,
        readers=readers,
    )


def open_study(
    options: TuneOptions, name: str, spec: dict[str, Any], space: SearchSpace, *, seed: int
) -> TuningStudy:
    """Open the study of that name with its search space."""
    return TuningStudy(
        name=name,
        storage=options.storage or own_storage(),
        spec=spec,
        space=space,
        sampler=Sampler(options.sampler),
        seed=seed,
        must_exist=options.resume,
    )


def keep_outcome(run: TuneRun, result: TuneResult, progress: Progress) -> None:
    """Store the outcome with the study, for ``export`` and ``verify``."""
    outcome = outcome_of(
        result,
        target=run.target_beside(advised(result).draft),
        candidates=run.candidates,
        context=run.shared.context_options(),
        schedule=run.shared.schedule_kind(),
        mtp_layers=run.target.mtp_layers,
        dialect=Dialect(run.options.dialect),
        extra=run.exported_extra,
        given=run.given,
        start=run.start,
    )
    try:
        run.study.keep(to_plain(outcome))
        keep_promise(run, result)
    except BadInputError as error:
        # That must not cost what is about to be printed.
        progress.say(f"spectui export will not know of this verdict: {error}")
