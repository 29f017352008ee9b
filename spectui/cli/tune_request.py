"""Consequences of a request of ``spectui tune``: servers, search space, plan in words."""

from collections.abc import Sequence
from itertools import chain

from spectui.cli.named_models import with_kind_of_file
from spectui.cli.options import check_no_servers
from spectui.cli.request import RunOptions
from spectui.cli.taken import taken_setup
from spectui.cli.tune import Tune
from spectui.commands.takeover import Takeover
from spectui.errors import UsageError
from spectui.format import counted, duration_text
from spectui.options.dialect import NGRAM_DIALECTS, Dialect
from spectui.options.drafters import MTP_KIND
from spectui.tune.candidates import Candidate
from spectui.tune.layouts import Layouts
from spectui.tune.present import Present
from spectui.tune.setup import MOST_TRIALS, TuningSetup
from spectui.tune.space import PLACING, Parameter, SearchSpace

_ALL = "all"
"""``--tune`` for every parameter."""


def check_request(request: Tune) -> None:
    """Refuse options that no search supports.

    Raises:
        UsageError: such an option was given.
    """
    if not request.is_server:
        check_no_servers(request.given)
    moving = [str(one) for one in PLACING if one in parameters_of(request)]
    if request.is_server and moving:
        raise UsageError(
            f"--tune {','.join(moving)} moves the target in spectui's own engine; leave it out "
            "with --backend server"
        )


def parameters_of(request: Tune) -> frozenset[Parameter]:
    """Parse ``--tune``.

    Raises:
        UsageError: it names an unknown parameter, or none.
    """
    if request.tuned == _ALL:
        return frozenset(Parameter)
    known = [str(parameter) for parameter in Parameter]
    wanted = [name.strip() for name in request.tuned.split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"--tune {name!r}: choose among {', '.join(known)}, or give {_ALL}")
    return frozenset(map(Parameter, wanted))


def takes_mtp(shared: RunOptions, options: Tune, dialect: Dialect) -> bool:
    """Whether the target's MTP layers may draft, in a command of a dialect.

    Raises:
        UsageError: they were asked for together with what does not go with them.
    """
    is_named = shared.names(MTP_KIND)
    has_flags = dialect in NGRAM_DIALECTS
    if is_named and not has_flags:
        raise UsageError(
            f"this llama-server ({dialect}) has no flags for {MTP_KIND} that spectui knows; leave "
            "it out of --spec-type"
        )
    if is_named and Parameter.N_CPU_MOE in parameters_of(options):
        raise UsageError(
            f"--tune {Parameter.N_CPU_MOE} plans for draft models alone; leave it out, or "
            f"{MTP_KIND} of --spec-type"
        )
    return has_flags


def space_of(
    options: Tune,
    mtp_layers: int,
    candidates: Sequence[Candidate],
    *,
    max_draft: int,
    layouts: Layouts | None = None,
    with_ngrams: bool = True,
    readers: tuple[tuple[str, str], ...] = (),
) -> SearchSpace:
    """Build the search space.

    Raises:
        UsageError: there is nothing to search.
    """
    usable = tuple(c.name for c in candidates if c.reason is None)
    if not usable and not with_ngrams:
        raise UsageError(
            "there is nothing to try: no draft can be used, and this llama-server has no n-gram "
            "drafters; give -md"
        )
    return SearchSpace(
        drafts=usable,
        tuned=parameters_of(options),
        mtp_layers=mtp_layers,
        mtp_files=tuple(chain.from_iterable(c.mtp_file for c in candidates)),
        with_ngrams=with_ngrams,
        max_draft=max_draft,
        layouts=layouts,
        readers=readers,
    )


def plan_text(request: Tune, study: str, setup: TuningSetup, why_not: str | None) -> str:
    """Plan of the search: steps, time limit, and that it may be interrupted."""
    limit = request.time_budget
    sampling = setup.workload.sampling.label
    steps = list[str]()
    if not request.is_server:
        steps.append("a recording to replay every setting on")
    elif request.trials is None and why_not is None:
        others = "--trials N tries other values, and n-gram drafters"
        steps.append(f"a forecast of every draft length with draft_p_min 0 ({others})")
    if request.trials is not None or why_not is not None:
        because = f" ({why_not})" if request.trials is None else ""
        steps.append(f"up to {counted(request.trials or MOST_TRIALS, 'trial')}{because}")
    steps.append("the best against the target alone")
    told = f"{', '.join(steps[:-1])}, and {steps[-1]}"
    takes = "No limit of time (--time-budget sets one)"
    if limit is not None:
        takes = f"About {duration_text(limit)}: a step that has begun is finished"
    return (
        f"tuning on {counted(len(setup.workload.items), 'prompt')}, {sampling}: "
        f"{told}. {takes}; Ctrl+C keeps what is finished (study {study})"
    )


def present_of(takeover: Takeover | None) -> Present | None:
    """Drafting setting of the ``--from`` command; None without one."""
    if takeover is None:
        return None
    if takeover.elsewhere:
        return Present(speculation=None, draft=None, elsewhere=takeover.elsewhere)
    setup = taken_setup(takeover)
    speculation = setup.speculation
    if speculation is None or not speculation.takes_draft:
        return Present(speculation=speculation, draft=None)
    if setup.draft is None:
        return Present(speculation=None if speculation.needs_draft else speculation, draft=None)
    own = with_kind_of_file(speculation, setup.draft.path)
    return Present(speculation=own, draft=setup.draft.path)
