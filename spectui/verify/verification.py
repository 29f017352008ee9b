"""Runs a setting on the user's own llama-server, and compares with what was promised of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from spectui.engine.driver import Engine
from spectui.engine.guard import request_of
from spectui.known import Known
from spectui.llama.library import llama_cpp_commit, llama_cpp_version
from spectui.measure.backend import load_setup
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Measurer, Run
from spectui.measure.promise import Case, Promise, observed_of
from spectui.measure.served_models import keeps_off, look_at
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import measuring_arguments, open_fleet, plan
from spectui.measure.statistics import paired_speedup
from spectui.measure.streams import measurer_of
from spectui.measure.workload import tokenize
from spectui.monitor.watch import MachineWatch
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.verify.result import Verified
from spectui.verify.subject import Origin, subject

_MIN_GAIN = 0.02
"""The default of a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A case to verify, with its prompts and promise."""

    case: Case
    prompts: tuple[Prompt, ...]
    promise: Promise | None = None
    origin: Origin | None = None
    """Origin of the promise; None without a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A binary and how it is used. While it serves, the engine must hold no models."""

    binary: ServerBinary
    open_engine: Callable[[], AbstractContextManager[Engine]]
    """Opens an engine that holds no models."""
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

    def verify(self, claim: Claim, *, measures_promise: bool = False) -> Verified:
        """Serve the prompts.

        An interrupt or a failing server ends it early, with what was measured.

        Args:
            claim: the case, and what was promised of it.
            measures_promise: whether what a server should deliver is measured in this process
                first, in place of what ``claim`` promises.

        Raises:
            BadInputError: no prompt made the model decode anything, or the binary has no words for
                what is asked for.
            HopelessError: a server does not run as it was started.
            ServerError: a server failed before anything was measured.
        """
        case = claim.case
        # What the binary has no words for is said before anything is measured.
        arguments = {
            "off": measuring_arguments(case.off, self.binary),
            "on": measuring_arguments(case, self.binary),
        }
        promise, ended = claim.promise, None
        if measures_promise:
            promise, ended = self._promise(claim)
        found = Verified(
            case=case,
            binary=self.binary.path,
            version=self.binary.version,
            arguments=arguments,
            promise=promise,
            origin=claim.origin,
            keeps_both=self.has_both(case),
            repeats=self.repeats,
            seed=self.seed,
            ended=ended,
        )
        return found if ended is not None else self._deliver(claim, found)

    def has_both(self, case: Case) -> bool:
        """Whether both servers run at once."""
        return keeps_off(case.off, (request_of(case),), wanted=self.keeps_both)

    def _promise(self, claim: Claim) -> tuple[Promise, BaseException | None]:
        """Measure in-process what a server should deliver; return what ended that early as well."""
        case = claim.case
        with self.open_engine() as engine:
            target, _draft = load_setup(engine, case)
            workload = tokenize(
                engine,
                claim.prompts,
                n_predict=case.n_predict,
                sampling=case.sampling,
                n_ctx=target.n_ctx,
            )
            self.say("measuring in-process what llama-server is to deliver")
            found = self._compare(Measurer(engine, workload, seed=self.seed), case)
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
        return promise, found.ended

    def _deliver(self, claim: Claim, found: Verified) -> Verified:
        """Have the servers continue the prompts."""
        case, keeps_both = claim.case, found.keeps_both
        self.say(subject(case, claim.origin))
        self.announce(plan(len(claim.prompts), self.repeats, keeps_off=keeps_both))
        with open_fleet(
            self.binary,
            keeps_off=keeps_both,
            timeout_s=self.timeout_s,
            say=self.say,
            from_disk=self.from_disk,
        ) as fleet:
            backend = ServerBackend(
                fleet,
                case,
                {},
                redoes_rounds=look_at(case.target).redoes_rounds,
                tells_reading=self.binary.tells_reading,
            )
            workload = tokenize(
                fleet.of(case.off),
                claim.prompts,
                n_predict=case.n_predict,
                sampling=case.sampling,
                n_ctx=case.context.ctx_size,
            )
            measurer = measurer_of(
                backend,
                workload,
                seed=self.seed,
                alone=found.is_alone,
            )
            served = self._compare(measurer, case)
        return replace(
            found,
            pairs=served.pairs,
            n_starts=fleet.n_starts,
            repeated=workload.repeated,
            ended=served.ended,
            disturbance=served.disturbance,
        )

    def _compare(self, measurer: Measurer, case: Case) -> Comparison:
        return compare(
            measurer,
            case.speculation,
            repeats=self.repeats,
            on_run=self.on_run,
            watch=Known(MachineWatch(rpc=case.target.devices.rpc)),
            has_time=self.has_time,
        )
