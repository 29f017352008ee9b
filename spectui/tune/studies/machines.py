"""What each machine of a database has found in a study, for one table."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from spectui.commands.arguments import server_arguments
from spectui.commands.items import divide, words_of
from spectui.documents import Json, or_reason
from spectui.errors import BadInputError
from spectui.measure.arm import Arm
from spectui.measure.statistics import Speedup
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.tune.outcome import Outcome
from spectui.tune.studies.listing import StudyEntry, list_studies
from spectui.tune.studies.storage import is_file, usual_storage

_UNKNOWN = "no setting has been confirmed on this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResult:
    """What one machine has found; None where nothing was confirmed."""

    study: str
    """Name of its own study."""
    machine: str | None
    """Hardware; None where an older spectui made the study."""
    placement: str
    """llama-server's options of the target's place, where they are no defaults."""
    off_tokens_per_s: float | None = None
    best: str | None = None
    tokens_per_s: float | None = None
    speedup: Speedup | None = None
    ended: datetime

    def document(self) -> Json:
        """The result as JSON."""
        speedup = self.speedup
        interval = speedup and (speedup.low, speedup.high)
        return {
            "study": self.study,
            **or_reason("machine", self.machine, "an older spectui made the study"),
            "placement": self.placement,
            **or_reason("off_tokens_per_s", self.off_tokens_per_s, _UNKNOWN),
            **or_reason("best", self.best, _UNKNOWN),
            **or_reason("tokens_per_s", self.tokens_per_s, _UNKNOWN),
            **or_reason("speedup", speedup and speedup.estimate, _UNKNOWN),
            **or_reason("speedup_ci95", interval, _UNKNOWN),
            "ended": self.ended.isoformat(),
        }


def machines_of(study: str, studies: Sequence[StudyEntry]) -> tuple[MachineResult, ...]:
    """The results of all machines that share a study, the latest first; none of a single one."""
    groups = {one.name: one.group or one.name for one in studies}
    members = [one for one in studies if groups[one.name] == groups.get(study)]
    found = tuple(_result(one, one.outcome) for one in members if one.outcome is not None)
    return found if len(found) > 1 else ()


def machines_in(storage: str | None, study: str) -> tuple[MachineResult, ...]:
    """The results in a database; none in a file, and while the database is away."""
    if is_file(storage or usual_storage()):
        return ()
    with suppress(BadInputError):
        return machines_of(study, list_studies(storage))
    return ()


def machines_document(machines: Sequence[MachineResult]) -> Json:
    """The field ``machines``; none for one machine."""
    return {"machines": [one.document() for one in machines]} if machines else {}


def _result(study: StudyEntry, outcome: Outcome) -> MachineResult:
    promise = study.promise
    if promise is None:
        return MachineResult(
            study=study.name,
            machine=study.machine,
            placement=_placement(outcome.target, outcome.context),
            ended=outcome.ended,
        )
    case, pairs = promise.case, [one.measurement for one in promise.observed]
    draft = MTP_KIND if case.draft is None else case.draft.path.stem
    off_s, on_s = sum(one.baseline_s for one in pairs), sum(one.speculative_s for one in pairs)
    return MachineResult(
        study=study.name,
        machine=study.machine,
        placement=_placement(case.target, case.context),
        off_tokens_per_s=sum(one.baseline_tokens for one in pairs) / off_s if pairs else None,
        best=Arm(draft=draft, speculation=case.speculation).label,
        tokens_per_s=sum(one.speculative_tokens for one in pairs) / on_s if pairs else None,
        speedup=promise.speedup,
        ended=outcome.ended,
    )


def _placement(target: ModelOptions, context: ContextOptions) -> str:
    """Options that say where and with how many threads a target runs; no file and no address."""

    def items(target: ModelOptions, context: ContextOptions) -> tuple[str, ...]:
        words = server_arguments(target, None, context, None, dialect=Dialect.LLAMA_CPP)
        kept = [one for one in divide(words) if not one.is_path and one.flag != "--rpc"]
        return tuple(shlex.join(words_of([one])) for one in kept)

    # The length of the context is that of all machines.
    usual = items(ModelOptions(path=Path("m")), ContextOptions(ctx_size=context.ctx_size))
    return " ".join(one for one in items(target, context) if one not in usual)
