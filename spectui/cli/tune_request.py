"""Consequences of a request of ``spectui tune``: servers, search space, plan in words."""

from collections.abc import Sequence
from pathlib import Path

from spectui.cli.named_models import with_kind_of_file
from spectui.cli.options import check_no_servers
from spectui.cli.request import RunOptions
from spectui.cli.taken import taken_setup, warn_of_changed_defaults
from spectui.cli.tune import Tune
from spectui.commands.takeover import Takeover
from spectui.errors import UsageError
from spectui.format import bytes_text, counted, duration_text
from spectui.measure.served_models import size_bytes
from spectui.options.dialect import NGRAM_DIALECTS, Dialect
from spectui.options.drafters import MTP_KIND
from spectui.tune.candidates import Candidate
from spectui.tune.division import FEWEST_FOR_BOTH
from spectui.tune.evidence import FEW
from spectui.tune.layouts import Layouts
from spectui.tune.places import Parameter
from spectui.tune.present import Present
from spectui.tune.setup import MOST_TRIALS, TuningSetup
from spectui.tune.space import SearchSpace

_ALL = "all"
"""``--tune`` for every parameter."""


def check_request(request: Tune) -> None:
    """Refuse options that no search supports.

    Raises:
        UsageError: such an option was given.
    """
    if not request.is_server:
        check_no_servers(request.given)
    if request.is_server and parameters_of(request):
        raise UsageError(
            f"--tune {request.tuned} moves the target in spectui's own engine; leave it out with "
            "--backend server"
        )


def parameters_of(request: Tune) -> frozenset[Parameter]:
    """Parse ``--tune``.

    Raises:
        UsageError: it names an unknown parameter, or none.
    """
    if request.tuned is None:
        return frozenset()
    if request.tuned == _ALL:
        return frozenset(Parameter)
    known = [str(parameter) for parameter in Parameter]
    wanted = [name.strip() for name in request.tuned.split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"--tune {name!r}: choose among {', '.join(known)}, or give {_ALL}; the draft and "
                "its numbers are searched in any case"
            )
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
        mtp_layers={**{c.name: c.mtp_layers for c in candidates}, MTP_KIND: mtp_layers},
        with_ngrams=with_ngrams,
        max_draft=max_draft,
        layouts=layouts,
        readers=readers,
    )


def too_few(n: int, *, forecasts: bool) -> str | None:
    """Note on ``n`` prompts that say little of others; None where they do."""
    few = counted(n, "prompt")
    if forecasts and n <= FEW:
        more = f"with more than {FEW} it is for prompts like them"
        return f"{few}: the verdict will be for just these; {more}"
    if not forecasts and n < FEWEST_FOR_BOTH:
        return (
            f"{few} may be too few for a verdict: what chooses a setting cannot judge it; give "
            f"{FEWEST_FOR_BOTH} or more"
        )
    return None


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


def cost_text(request: Tune, target: Path, *, keeps_off: bool, forecasts: bool) -> str:
    """The loads of a search through llama-server, in words."""
    size = bytes_text(size_bytes(target))
    n_trials = request.trials or MOST_TRIALS
    begun = f"up to {n_trials} trials through llama-server, and each new setting starts a server"
    if forecasts:
        begun = "two starts of llama-server for each draft, and one for the best setting"
    if keeps_off:
        return f"{begun} ({size} of target to load), beside the one without speculation"
    return f"{begun} and then the one without speculation again ({size} of target to load each)"


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
    speculation = with_kind_of_file(speculation, setup.draft.path)
    warn_of_changed_defaults(speculation, takeover.options)
    return Present(speculation=speculation, draft=setup.draft.path)
