"""Runs a setting on the user's own llama-server, and compares with what was promised of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from spectui.documents import Known
from spectui.engine.driver import Engine
from spectui.llama.library import llama_cpp_commit, llama_cpp_version
from spectui.measure.backend import load_setup
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Measurer, Run
from spectui.measure.observed import observed_of
from spectui.measure.promise import Case, Promise
from spectui.measure.served_models import keeps_off, look_at
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.servers import measuring_arguments, open_fleet, plan
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import Workload, tokenize
from spectui.monitor.watch import MachineWatch
from spectui.server.binary import ServerBinary
from spectui.server.client import LlamaClient
from spectui.verify.claim import Claim
from spectui.verify.result import Verified

_MIN_GAIN = 0.02
"""The default of a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A binary and how it is used."""

    binary: ServerBinary
    say: Callable[[str], None]
    """Told of every step that begins."""
    announce: Callable[[str], None]
    """Told what is going to be measured, which is shown until the end."""
    on_run: Callable[[Run], None]
    """Told of every measured prompt."""
    timeout_s: float
    seed: int
    """Seed of the order of turns."""
    repeats: int = 1
    keeps_both: bool | None = None
    """Whether both servers run at once; None to do so if they fit."""
    from_disk: bool = False
    """Whether models are served even if weights are read from disk again and again."""
    has_time: Callable[[], bool] = lambda: True
    """Asked after every prompt whether there is time for another one."""

    def has_both(self, case: Case) -> bool:
        """Whether both servers run at once."""
        return keeps_off(case, wanted=self.keeps_both)


OpenEngine = Callable[[], AbstractContextManager[Engine]]


def verify(claim: Claim, serving: Serving, open_engine: OpenEngine | None = None) -> Verified:
    """Have llama-servers without and with speculation continue the prompts.

    An interrupt or a failing server ends it early, with what was measured.

    Args:
        claim: the case, and what was promised of it.
        serving: how the servers are used; meanwhile no other engine may hold models.
        open_engine: opens an engine without models, to measure what a server should deliver in
            this process first, in place of what ``claim`` promises; None for that.

    Raises:
        BadInputError: no prompt made the model decode anything, or the binary has no words for
            what is asked for.
        HopelessError: a server does not run as it was started.
        ServerError: a server failed before anything was measured.
    """
    ended, sides = None, {"off": claim.case.off, "on": claim.case}
    # What the binary has no words for is said before anything is measured.
    arguments = {name: measuring_arguments(one, serving.binary) for name, one in sides.items()}
    if open_engine is not None:
        claim, ended = _with_promise(claim, serving, open_engine)
    found = Verified(
        claim=claim,
        binary=serving.binary,
        arguments=arguments,
        keeps_both=serving.has_both(claim.case),
        repeats=serving.repeats,
        seed=serving.seed,
        ended=ended,
    )
    return found if ended is not None else _delivered(found, serving)


def _with_promise(
    claim: Claim, serving: Serving, open_engine: OpenEngine
) -> tuple[Claim, BaseException | None]:
    """Measure in the engine what a server should deliver; return what ended that early as well."""
    case = claim.case
    with open_engine() as engine:
        target, _draft = load_setup(engine, case)
        workload = _tokenized(engine, claim, target.n_ctx)
        serving.say("measuring with spectui's own engine what llama-server is to deliver")
        found = _compared(Measurer(engine, workload, seed=serving.seed), case, serving)
    observed = observed_of(found.pairs)
    promise = Promise(
        case=case,
        prompts=None,
        observed=observed,
        speedup=paired_speedup([one.measurement for one in observed]),
        min_gain=_MIN_GAIN,
        llama_cpp=llama_cpp_version(),
        llama_cpp_commit=llama_cpp_commit(),
    )
    return replace(claim, promise=promise), found.ended


def _delivered(found: Verified, serving: Serving) -> Verified:
    """Have the servers continue the prompts."""
    claim, case = found.claim, found.claim.case
    serving.say(claim.subject)
    serving.announce(plan(len(claim.prompts), serving.repeats, keeps_off=found.keeps_both))
    # The library may ask RPC servers, which serve nobody else beside a llama-server.
    redoes_rounds = look_at(case.target).redoes_rounds
    with open_fleet(
        serving.binary,
        keeps_off=found.keeps_both,
        timeout_s=serving.timeout_s,
        say=serving.say,
        from_disk=serving.from_disk,
    ) as fleet:
        workload = _tokenized(fleet.of(case.off), claim, case.context.ctx_size)
        backend = ServerBackend(fleet, case, {}, redoes_rounds=redoes_rounds)
        measurer = measurer_of(backend, workload, seed=serving.seed)
        delivered = _compared(measurer, case, serving)
    return replace(
        found,
        comparison=delivered,
        n_starts=fleet.n_starts,
        repeated=workload.repeated,
        ended=delivered.ended,
    )


def _tokenized(source: Engine | LlamaClient, claim: Claim, n_ctx: int) -> Workload:
    case = claim.case
    return tokenize(
        source, claim.prompts, n_predict=case.n_predict, sampling=case.sampling, n_ctx=n_ctx
    )


def _compared(measurer: Measurer, case: Case, serving: Serving) -> Comparison:
    return compare(
        measurer,
        case.speculation,
        repeats=serving.repeats,
        on_run=serving.on_run,
        watch=Known(MachineWatch(rpc=case.target.devices.rpc)),
        has_time=serving.has_time,
    )
