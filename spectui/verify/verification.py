"""Runs a setting on the user's own llama-server, and compares with what was promised of it."""

from collections.abc import Callable
from dataclasses import dataclass

from spectui.measure.comparison import compare
from spectui.measure.measurer import Pair
from spectui.measure.served_models import keeps_off, look_at
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.servers import Fleet, measuring_arguments, turns
from spectui.measure.workload import tokenize
from spectui.monitor.watch import MachineWatch
from spectui.server.binary import ServerBinary
from spectui.verify.claim import Claim
from spectui.verify.result import Verified


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A binary and how it is used."""

    binary: ServerBinary
    say: Callable[[str], None]
    """Told of every step that begins."""
    announce: Callable[[str], None]
    """Told what is going to be measured, which is shown until the end."""
    on_pair: Callable[[Pair], None]
    """Told of every measured prompt."""
    timeout_s: float
    repeats: int = 1
    from_disk: bool = False
    """Whether models are served even if weights are read from disk again and again."""

    def fleet(self, *, keeps_off: bool) -> Fleet:
        """Its servers."""
        return Fleet(
            self.binary,
            keeps_off=keeps_off,
            timeout_s=self.timeout_s,
            say=self.say,
            from_disk=self.from_disk,
        )


def verify(claim: Claim, serving: Serving) -> Verified:
    """Have llama-servers without and with speculation continue the prompts.

    An interrupt or a failing server ends it early, with what was measured.

    Args:
        claim: what was promised.
        serving: how the servers are used; meanwhile no other engine may hold models.

    Raises:
        BadInputError: no prompt made the model decode anything, or the binary has no words for
            what is asked for.
        HopelessError: a server does not run as it was started.
        ServerError: a server failed before anything was measured.
    """
    case = claim.case
    # What the binary has no words for is said before anything is measured.
    sides = {"off": case.off, "on": case}
    arguments = {name: measuring_arguments(one, serving.binary) for name, one in sides.items()}
    # The library may ask RPC servers, which serve nobody else beside a llama-server.
    redoes_rounds = look_at(case.target).redoes_rounds
    has_both = keeps_off(case)
    serving.say(claim.subject)
    serving.announce(turns(keeps_off=has_both))
    with serving.fleet(keeps_off=has_both) as fleet:
        workload = tokenize(
            fleet.of(case.off),
            claim.prompts,
            n_predict=case.n_predict,
            sampling=case.sampling,
            n_ctx=case.context.ctx_size,
        )
        backend = ServerBackend(fleet, case, {}, redoes_rounds=redoes_rounds)
        found = compare(
            measurer_of(backend, workload),
            case.speculation,
            repeats=serving.repeats,
            on_pair=serving.on_pair,
            watch=MachineWatch(rpc=case.target.devices.rpc),
        )
    return Verified(
        claim=claim,
        comparison=found,
        binary=serving.binary,
        arguments=arguments,
        keeps_both=has_both,
        repeats=serving.repeats,
        n_starts=fleet.n_starts,
    )
