"""One search from its study to the verdict that it keeps, and its document ``spectui.tune/1``."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from spectui.commands.launch import ExportSetup, Launch
from spectui.documents import Json, encoded, known, or_reason
from spectui.errors import BadInputError, HopelessError, ServerError
from spectui.measure.arm import Arm
from spectui.measure.backend import header
from spectui.measure.lossless import lossless_document
from spectui.measure.measurer import throughput, throughput_document
from spectui.measure.promise import Case, Promise, lasting, observed_of
from spectui.measure.server_backend import measurer_of
from spectui.monitor.machine import this_machine
from spectui.monitor.watch import MachineWatch
from spectui.options.setup import ModelOptions
from spectui.page import Page
from spectui.tune.backends import OwnEngine, Served, study_name
from spectui.tune.explain import explain_result
from spectui.tune.forecast import Outlook, best_by_drafter
from spectui.tune.pace import Pace
from spectui.tune.places import Placing
from spectui.tune.progress import Notice, SearchEnded, StudyOpened, TuneEvent
from spectui.tune.race import BASELINE_SHARE
from spectui.tune.result import Outcome, TuneResult, outcome_of
from spectui.tune.search import Search
from spectui.tune.setup import SearchSetup, TuningSetup
from spectui.tune.studies.listing import StoredStudy, keep_report, list_studies, machines_of
from spectui.tune.studies.records import OUTCOME
from spectui.tune.studies.storage import is_file
from spectui.tune.studies.study import TuningStudy
from spectui.tune.trials import n_measured

_PLACING = frozenset({"override-tensor", "cpu-moe", "n-cpu-moe"})
"""Options that a searched placement needs."""
_NOT_KEPT = "spectui export and verify will not know of this verdict"
_FORECASTS = 50
"""Number of replayed settings that a document lists: the best ones."""


class Tuning:
    """A search that can go on: its study keeps the trials, the verdict and the promise."""

    def __init__(
        self, setup: TuningSetup, backend: OwnEngine | Served, *, spent_s: float = 0.0
    ) -> None:
        """Open nothing yet.

        Args:
            setup: the search.
            backend: has loaded the target, or can start its servers.
            spent_s: seconds of the time budget that are gone, as for reading the prompts.
        """
        self.setup = setup
        self.backend = backend
        self.name = setup.study.name or study_name(setup.off.target.path, backend.spec(setup))
        self._spent_s = spent_s
        self.placing: Placing | None = None
        """How the target's place was found; None where it was not searched."""

    def run(self, on_event: Callable[[TuneEvent], None]) -> "Tuned":
        """Search, and keep the result.

        An interrupt ends it early with what was measured; so does an error, which is part of the
        result.

        Args:
            on_event: called with every event, on the caller's thread.

        Raises:
            BadInputError: the storage cannot be used.
            DoesNotFitError: layouts that the study began with do not fit any more.
            ServerError: llama-server measured nothing, so that nothing can be advised.
            UsageError: the study belongs to another machine, pair or workload.
        """
        spec = self.backend.spec(self.setup)
        with TuningStudy(self.name, self.setup.study, spec=spec, space=self.setup.space) as study:
            self.name = study.name
            self._begin(study, on_event)
            began_s = time.monotonic() - self._spent_s
            self.setup, self.placing = self.backend.settle(
                self.setup, study, lambda text: on_event(Notice(text=text))
            )
            self.setup = replace(self.setup, space=study.space)
            spent_s = time.monotonic() - began_s
            search = self._search(study, on_event, spent_s)
            with MachineWatch(rpc=self.setup.off.target.devices.rpc) as watch:
                watch.start()
                result = search.run()
                is_hopeless = isinstance(result.error, HopelessError)
                found_nothing = is_hopeless or not n_measured(result.trials)
                if isinstance(result.error, ServerError) and found_nothing:
                    raise result.error
                # From here on nobody interrupts, so that nothing found is lost.
                on_event(SearchEnded())
                met = watch.summary()
            result = self._kept(study, replace(result, conditions=met))
        return Tuned(tuning=self, result=result)

    def _begin(self, study: TuningStudy, on_event: Callable[[TuneEvent], None]) -> None:
        """Emit the first events of the study."""
        problem = this_machine().gpu_problem
        if problem is not None:
            without = "the NVIDIA GPUs do not count as part of this machine now"
            on_event(Notice(text=f"{without}: {problem}"))
        kept = _confirmed(study)
        earlier = None if kept is None else kept.verdict.reason
        on_event(StudyOpened(name=study.name, records=study.records(), earlier=earlier))

    def _search(
        self, study: TuningStudy, on_event: Callable[[TuneEvent], None], spent_s: float
    ) -> Search:
        setup, measuring = self.setup, self.backend.measuring
        loader, forecaster = self.backend.prepare(setup, study)
        search = SearchSetup(
            engine=measuring,
            study=study,
            workload=setup.workload,
            measurer=measurer_of(measuring, setup.workload, baseline_share=BASELINE_SHARE),
            loader=loader,
            limits=setup.limits,
            on_event=on_event,
            requests=setup.shapes,
        )
        return Search(Pace(search, spent_s=spent_s), forecaster)

    def keep_report(self, document: Json, page: Page = ()) -> str | None:
        """Keep the report that is printed in the end; return why not, None where it is kept."""
        try:
            keep_report(self.setup.study.storage, self.name, document, page)
        except BadInputError as error:
            return f"spectui studies show will not know of this report: {error}"
        return None

    def machines(self) -> Sequence[StoredStudy]:
        """The studies of all machines that share a database's; none of a file."""
        storage = self.setup.study.storage
        with suppress(BadInputError):
            if not is_file(storage):
                return machines_of(self.name, list_studies(storage))
        return ()

    def _kept(self, study: TuningStudy, result: TuneResult) -> TuneResult:
        """Store the verdict and the promise; both are in the result if the storage fails, too.

        Where nothing was confirmed, an earlier verdict on the same conditions stays.
        """
        outcome = outcome_of(
            result, setup=self.setup_of(result.advised), dialect=self.setup.command.dialect
        )
        try:
            if result.speedup is None:
                earlier = _confirmed(study)
                if earlier is not None:
                    kept = f"the study keeps its earlier verdict: {earlier.verdict.reason}"
                    return replace(result, not_kept=kept)
            study.keep(outcome=outcome, promise=self._promise(result))
        except BadInputError as error:
            return replace(result, not_kept=f"{_NOT_KEPT}: {error}")
        return result

    def _promise(self, result: TuneResult) -> Promise | None:
        """Gain of the leader, whether or not it is advised; None if none was confirmed."""
        leader, setup = result.leader, self.setup
        if leader is None or leader.speedup is None or leader.arm.speculation is None:
            return None
        promise = Promise(
            case=setup.off.converted(
                Case,
                baseline=self._target_beside(None),
                target=self._target_beside(leader.arm.draft),
                draft=self._draft_of(leader.arm),
                speculation=leader.arm.speculation,
                sampling=setup.workload.sampling,
                n_predict=setup.workload.n_predict,
            ),
            prompts=setup.prompts,
            observed=observed_of(leader.pairs),
            speedup=leader.speedup,
            min_gain=setup.limits.min_gain,
            llama_cpp=self.backend.llama_cpp,
            library=self.backend.library,
            is_chat=setup.is_chat,
            basis=result.verdict.basis,
        )
        return lasting(promise)

    def setup_of(self, arm: Arm) -> ExportSetup:
        """Setup to export for an arm."""
        command = self.setup.command
        given = command.given
        target = self._target_beside(arm.draft)
        if given is not None and self.setup.space.layouts is not None and target.n_cpu_moe:
            given |= _PLACING
        if given is not None and self.placing is not None:
            changed = [one.option for one in self.setup.knobs if one.name in self.placing.best]
            given |= frozenset(changed)
        return ExportSetup(
            target=target,
            draft=self._draft_of(arm),
            context=self.setup.off.shared_context,
            speculation=arm.speculation,
            extra=command.extra,
            given=given,
            start=command.start,
            name=self.setup.off.target.path.stem,
        )

    def _draft_of(self, arm: Arm) -> ModelOptions | None:
        """File and placement of its draft; None for the target's own MTP layers, and for none."""
        drafts = {one.name: one.options for one in self.setup.candidates if not one.is_mtp}
        return drafts.get(arm.draft or "")

    def _target_beside(self, draft: str | None) -> ModelOptions:
        """The target with its placement for a draft; None for no draft."""
        target, layouts = self.setup.off.target, self.setup.space.layouts
        return target if layouts is None else layouts.of(draft).on(target)


def _confirmed(study: TuningStudy) -> Outcome | None:
    """The kept verdict, if a setting was measured against off for it."""
    outcome = study.kept(OUTCOME, Outcome)
    return outcome if outcome is not None and outcome.is_confirmed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A search that has ended, with its result, as the study keeps both."""

    tuning: Tuning
    result: TuneResult

    def document(self, unmeasured: Sequence[str] = ()) -> Json:
        """``spectui.tune/1``: ``command`` follows the verdict, ``best_command`` what measured best.

        Args:
            unmeasured: parts of the ``--from`` command that are not measured.
        """
        result, setup, layouts = self.result, self.tuning.setup, self.tuning.setup.space.layouts
        placing, leader = self.tuning.placing, result.leader
        unknown = "no speculative setting could be measured"
        advice = self.launch(result.advised)
        best_command = None if result.best is None else self.launch(result.best).command.text
        alike = "the target lies alike beside every draft"
        return {
            **header("tune", this_machine()),
            "study": self.tuning.name,
            "target": self.tuning.backend.target_document(),
            "drafts": [one.document() for one in setup.candidates],
            "config": {
                **setup.workload.document(),
                "n_prompts": len(setup.workload.items),
                "min_gain": setup.limits.min_gain,
            },
            **or_reason("placing", placing and placing.document(), "no place was searched"),
            **or_reason("layouts", layouts and encoded(layouts), alike),
            "baseline": {
                "params": result.off.document(),
                **throughput_document([pair.baseline for pair in result.pairs]),
            },
            "trials": [record.document() for record in result.trials],
            **_forecasts(result.outlook),
            "time": {"took_s": result.took_s, "ended_trials": result.cut_trials is not None},
            **or_reason("best", _best(result), unknown),
            **or_reason("best_command", best_command, unknown),
            "finalists": [one.document() for one in result.finalists],
            **known("requests", result.requests),
            **known("moe_cache", result.experts, encoded),
            "per_category": [one.document() for one in leader.categories] if leader else [],
            **explain_result(result).document(),
            **_conditions(result),
            "prompts": [pair.document() for pair in result.pairs],
            **lossless_document(result.lossless),
            "verdict": result.verdict.document(),
            "interrupted": result.interrupted,
            "flags": list(advice.command.arguments),
            "command": advice.command.text,
            "notes": [*unmeasured, *filter(None, [setup.workload.note])],
            **self.tuning.backend.document(result.best),
            **_present(setup, result),
        }

    def launch(self, arm: Arm) -> Launch:
        """The llama-server to start for an arm."""
        return self.tuning.setup_of(arm).launch(self.tuning.setup.command.dialect)


def _present(setup: TuningSetup, result: TuneResult) -> Json:
    """The user's present setting as JSON."""
    if setup.present is None:
        return or_reason("present", None, "no command was given with --from")
    arm = setup.present.value
    own = arm and {**result.setting_document(arm), "is_best": result.best == arm}
    return or_reason("present", own, setup.present.reason or "")


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
        "left_out": dict(outlook.left_out),
        **known("sampled_drafts", outlook.sampled),
        **known("adaptive", outlook.adaptive),
    }


def _conditions(result: TuneResult) -> Json:
    """Load of the rest of the machine, and notes on it, as JSON."""
    met = result.conditions
    found = met and {"disturbance": met.document(), "notes": list(met.notes)}
    return or_reason("conditions", found, "the machine was not watched")
