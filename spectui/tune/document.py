"""A search that has ended, as the document ``spectui.tune/1``."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spectui.commands.launch import Launch
from spectui.documents import Json, Known, encoded, known, or_reason
from spectui.measure.arm import Arm
from spectui.measure.backend import ENGINE, header
from spectui.measure.lossless import lossless_document
from spectui.measure.measurer import throughput, throughput_document
from spectui.monitor.machine import this_machine
from spectui.tune.expert_use import experts_document
from spectui.tune.explain import Explanation, explain_result
from spectui.tune.forecast import Outlook, best_by_drafter
from spectui.tune.outcome import advised
from spectui.tune.result import TuneResult
from spectui.tune.setup import TuningSetup
from spectui.tune.tuning import Tuning

NO_COMMAND = "no command was given with --from"


def present_document(present: Known[Arm] | None, result: TuneResult) -> Json:
    """The field ``present`` of ``spectui.tune/1``."""
    if present is None or present.value is None:
        reason = NO_COMMAND if present is None else present.reason
        return or_reason("present", None, reason or "")
    arm = present.value
    return {"present": {**result.setting_document(arm), "is_best": result.best == arm}}


_FORECASTS = 50
"""Number of replayed settings that a document lists: the best ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A search that has ended, and what its document says beside its result."""

    tuning: Tuning
    result: TuneResult
    target: Json
    """Document of the target."""
    backend: Json = field(default_factory=lambda: ENGINE)
    """Document of what measured."""
    alteration: str | None = None
    """How the target was altered, in a sentence; None if it was not."""
    present: Known[Arm] | None = None
    """The present setting of the command of ``--from``; None without a command."""

    def document(self, unmeasured: Sequence[str] = ()) -> Json:
        """``spectui.tune/1``: ``command`` follows the verdict, ``best_command`` what measured best.

        Args:
            unmeasured: parts of the ``--from`` command that are not measured.
        """
        result, setup, layouts = self.result, self.tuning.setup, self.tuning.space.layouts
        placing, leader = self.tuning.placing, result.leader
        unknown = "no speculative setting could be measured"
        advice = self.launch(advised(result))
        best_command = None if result.best is None else self.launch(result.best).text
        alike = "the target lies alike beside every draft"
        return {
            **header("tune", this_machine()),
            "study": self.tuning.name,
            "target": self.target,
            "drafts": [one.document() for one in setup.candidates],
            "config": _config(setup),
            **or_reason("placing", placing and placing.document(), "no place was searched"),
            **or_reason("layouts", layouts and encoded(layouts), alike),
            "baseline": _baseline(result),
            "trials": [record.document() for record in result.trials],
            **_forecasts(result.outlook),
            "time": {"took_s": result.took_s, "ended_trials": result.cut_trials is not None},
            **or_reason("best", _best(result), unknown),
            **or_reason("best_command", best_command, unknown),
            "finalists": [one.document() for one in result.finalists],
            **known("requests", result.requests),
            **experts_document(result.experts),
            "per_category": [one.document() for one in leader.categories] if leader else [],
            **self.explanation.document(),
            **_conditions(result),
            "prompts": [pair.document() for pair in result.pairs],
            **lossless_document(result.lossless),
            "verdict": result.verdict.document(),
            "interrupted": result.interrupted,
            "flags": list(advice.arguments),
            "command": advice.text,
            "notes": [*unmeasured, *filter(None, [setup.workload.note])],
            **self.backend,
            **present_document(self.present, result),
        }

    def launch(self, arm: Arm) -> Launch:
        """The llama-server to start for an arm."""
        return self.tuning.setup_of(arm).launch(self.tuning.setup.command.dialect)

    @property
    def explanation(self) -> Explanation:
        """Why the best setting pays, or does not."""
        return explain_result(self.result)


def _baseline(result: TuneResult) -> Json:
    """The target alone as JSON."""
    alone = throughput_document([pair.baseline for pair in result.pairs])
    return {"params": result.off.document(), **alone}


def _best(result: TuneResult) -> Json | None:
    """The best setting as JSON; None where none could be measured."""
    if result.best is None:
        return None
    trial = result.last_trial(result.best)
    rate = throughput([pair.speculative for pair in result.pairs])
    rate = trial.tokens_per_s if rate is None and trial is not None else rate
    return {**result.setting_document(result.best), "tokens_per_s": rate}


def _forecasts(outlook: Outlook) -> Json:
    """Forecasts as JSON: the best settings, drafters, sampled drafts and adaptive lengths."""
    return {
        "forecasts": [one.document() for one in outlook.forecasts[:_FORECASTS]],
        "n_replayed": len(outlook.forecasts),
        "drafters": [one.document() for one in best_by_drafter(outlook.forecasts)],
        **known("sampled_drafts", outlook.sampled),
        **known("adaptive", outlook.adaptive),
    }


def _conditions(result: TuneResult) -> Json:
    """Load of the rest of the machine, and what a user should know of it."""
    met = result.conditions
    told = met and {"disturbance": met.document(), "notes": list(met.notes)}
    return or_reason("conditions", told, "the machine was not watched")


def _config(setup: TuningSetup) -> Json:
    """How it was measured."""
    return {
        **setup.workload.document(),
        "n_prompts": len(setup.workload.items),
        "min_gain": setup.min_gain,
    }
