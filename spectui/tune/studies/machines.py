"""Measurements of a study by machine, and of the studies of other hardware beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import optuna
from optuna.storages import BaseStorage

from spectui.documents import Json, or_reason
from spectui.measure.arm import Arm
from spectui.measure.statistics import PairedMeasurement, Speedup, paired_speedup
from spectui.tune.studies import records
from spectui.tune.studies.listing import opened
from spectui.tune.trials import TrialRecord, TrialState, best_trial

_UNSIGNED = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResult:
    """Results of one machine."""

    study: str
    """The study, or that of a group beside it."""
    host: str
    """Name of the machine; unknown for trials that nobody signed."""
    n_trials: int
    """Trials that it has measured."""
    off_tokens_per_s: float | None
    """Of the target alone; None where it has not measured that."""
    best: Arm | None
    speedup: Speedup | None
    """Of its best trial over its own trial of the target alone: it ranks, as a race has to judge.
    None where one of them is missing."""

    def document(self) -> Json:
        """The row as JSON."""
        missing = "it has measured nothing to compare"
        return {
            "study": self.study,
            "host": self.host,
            "n_trials": self.n_trials,
            **or_reason("off_tokens_per_s", self.off_tokens_per_s, "it has not measured off"),
            "best": None if self.best is None else self.best.document(),
            **(
                or_reason("speedup", None, missing)
                if self.speedup is None
                else self.speedup.document()
            ),
        }


def machines_document(machines: Sequence[MachineResult]) -> Json:
    """The rows as a part of a document; nothing where there are none."""
    return {"machines": [row.document() for row in machines]} if machines else {}


def compare_machines(storage: str | None, name: str) -> tuple[MachineResult, ...]:
    """Results by machine of a study, or of that which a group is beside, and of its groups.

    The study's own rows come first.

    Raises:
        BadInputError: the storage cannot be used.
    """
    with opened(storage) as (_url, studies):
        return _of_storage(studies, name)


def _of_storage(storage: BaseStorage, name: str) -> tuple[MachineResult, ...]:
    names = optuna.get_all_study_names(storage)
    beside = name.rpartition(records.GROUP)[0]
    name = beside if beside in names else name
    found = [
        row
        for one in names
        if one == name or one.startswith(f"{name}{records.GROUP}")
        for row in _of_study(optuna.load_study(study_name=one, storage=storage))
    ]
    return tuple(sorted(found, key=lambda row: (row.study != name, row.study, row.host)))


def several(rows: tuple[MachineResult, ...]) -> tuple[MachineResult, ...]:
    """The rows where they are of more than one machine, else none."""
    signed = {(row.study, row.host) for row in rows if row.host != _UNSIGNED}
    return rows if len(signed) > 1 else ()


def _of_study(study: optuna.Study) -> list[MachineResult]:
    """Results by machine of one study."""
    by_host: dict[str, list[TrialRecord]] = {}
    for trial in study.get_trials(deepcopy=False):
        record = records.record_of(trial)
        if record is not None and record.state is TrialState.COMPLETE:
            host = trial.user_attrs.get(records.OWNER, {}).get("host", _UNSIGNED)
            by_host.setdefault(host, []).append(record)
    return [_of_machine(study.study_name, host, found) for host, found in by_host.items()]


def _of_machine(study: str, host: str, found: Sequence[TrialRecord]) -> MachineResult:
    off = next((one for one in reversed(found) if one.arm.is_off), None)
    best = best_trial(found)
    return MachineResult(
        study=study,
        host=host,
        n_trials=len(found),
        off_tokens_per_s=None if off is None else off.tokens_per_s,
        best=None if best is None else best.arm,
        speedup=None if off is None or best is None else _speedup(off, best),
    )


def _speedup(off: TrialRecord, best: TrialRecord) -> Speedup | None:
    """Prompt by prompt, as if the machine had been as fast in both trials."""
    if not off.anchor_tokens_per_s or not best.anchor_tokens_per_s:
        return None
    slower = off.anchor_tokens_per_s / best.anchor_tokens_per_s
    alone = {score.prompt_id: score for score in off.prompts}
    pairs = [
        PairedMeasurement(
            prompt_id=score.prompt_id,
            category=score.category,
            baseline_s=alone[score.prompt_id].decode_s * slower,
            baseline_tokens=alone[score.prompt_id].n_tokens,
            speculative_s=score.decode_s,
            speculative_tokens=score.n_tokens,
        )
        for score in best.prompts
        if score.prompt_id in alone
        and min(score.decode_s, alone[score.prompt_id].decode_s) > 0
        and min(score.n_tokens, alone[score.prompt_id].n_tokens) > 0
    ]
    return paired_speedup(pairs) if pairs else None
