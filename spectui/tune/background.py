"""Tuning beside a chat: a search on a thread of its own, over an engine that it shares.

The engine lets the chat go first: what the search is measuring then is begun again, so that no
number has a pause inside.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.thread import EngineThread
from spectui.errors import BadInputError, CancelledError, SpectuiError
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload, tokenize
from spectui.monitor.machine import this_machine
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule
from spectui.prompts import Prompt, builtin_suite
from spectui.trace.record import Trace
from spectui.tune.candidates import Candidate
from spectui.tune.events import TrialFinished, TuneEvent
from spectui.tune.forecast import Forecaster
from spectui.tune.kept import KeptTrace, identities, study_trace
from spectui.tune.loading import Loader
from spectui.tune.outcome import outcome_of
from spectui.tune.progress import Phase, TuningState, advance
from spectui.tune.promising import Terms, promise_of
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits
from spectui.tune.space import SearchSpace, longest_draft
from spectui.tune.spec import study_name, study_spec
from spectui.tune.stored import to_plain
from spectui.tune.studies.samplers import Sampler
from spectui.tune.studies.storage import own_storage
from spectui.tune.studies.study import TuningStudy
from spectui.tune.tracing import Tracing, identity, trace_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """A loaded pair, and what to find out about it."""

    target: ModelLoaded
    target_options: ModelOptions
    draft: Candidate
    context: ContextOptions
    prompts: tuple[Prompt, ...]
    prompts_path: Path | None = None
    """Origin of the prompts; None for the built-in suite and for turns of a chat."""
    n_trials: int
    n_predict: int = 64
    """Tokens per prompt."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    schedule: Schedule = Schedule.SERVER
    """Llama-server's work per round by default: the result is meant for it."""
    min_gain: float = 0.02
    seed: int = 0
    storage: str | None = None
    """Optuna URL; None for the file in the user's data folder."""
    server_threads: int = 0
    """``-t`` of an exported command, 0 for the server's choice: here a screen may need a core."""
    extra: tuple[str, ...] = ()
    """The user's own arguments for a server, to be exported as they are."""
    keeps_trace: bool = True
    """Whether the recording is kept beside the study, without text, for when it goes on."""


class BackgroundTuning:
    """One search. ``pause``, ``resume``, ``stop`` and ``close`` may be called from any thread."""

    def __init__(
        self,
        engine: EngineThread,
        request: TuningRequest,
        sink: Callable[[TuningState], None],
    ) -> None:
        """Start it.

        Args:
            engine: has loaded the pair.
            request: pair and limits of the search.
            sink: called with every change, on the search's thread or on the caller's.
        """
        self._request = request
        self._sink = sink
        self._lock = threading.RLock()
        self._state = TuningState(phase=Phase.STARTING, n_trials=request.n_trials)
        self._engine = Engine(shared=engine)
        self._study: TuningStudy | None = None
        self._thread = threading.Thread(target=self._run, name="spectui-tuning", daemon=True)
        sink(self._state)
        self._thread.start()

    @property
    def state(self) -> TuningState:
        """State of the search."""
        return self._state

    def pause(self) -> None:
        """Let go of the engine at once; the prompt that is being measured will be repeated."""
        self._engine.client.hold()
        self._change(paused=True)

    def resume(self) -> None:
        """Go on."""
        self._change(paused=False)
        self._engine.client.release()

    def stop(self) -> None:
        """End the search with what it has found. Returns before it has ended."""
        with self._lock:
            if self._state.is_running:
                self._change(phase=Phase.STOPPING, paused=False)
        self._engine.client.quit()

    def close(self) -> None:
        """End the search and wait for it."""
        self.stop()
        self._thread.join()

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)  # type: ignore[arg-type] # its own fields
            self._sink(self._state)

    def _run(self) -> None:
        try:
            self._run_to_the_end()
        finally:
            self._engine.close()

    def _run_to_the_end(self) -> None:
        try:
            self._tune()
        except CancelledError:
            # Stopped before there was anything to stop.
            self._change(phase=Phase.IDLE, current=None)
        except SpectuiError as error:
            self._change(phase=Phase.FAILED, current=None, error=str(error))
        except Exception as error:  # noqa: BLE001 - a thread that dies silently would look busy for ever
            reason = f"{type(error).__name__}: {error}; this is a defect of spectui's"
            self._change(phase=Phase.FAILED, current=None, error=reason)

    def _tune(self) -> None:
        request = self._request
        workload = tokenize(
            self._engine,
            request.prompts,
            n_predict=request.n_predict,
            sampling=request.sampling,
            n_ctx=request.target.n_ctx,
        )
        with self._open_study(workload) as study:
            self._study = study
            self._change(study=study.name)
            limits = Limits(n_trials=request.n_trials)
            loader = Loader(self._engine, (request.draft,), loaded=request.draft.name)
            forecaster = Forecaster(
                self._engine,
                workload.first(limits.n_trial_prompts),
                loader,
                self._space(),
                schedule=request.schedule,
                n_ctx=request.target.n_ctx,
                rollback=request.target.rollback,
                kept=self._kept(study, workload) if request.keeps_trace else None,
            )
            search = Search(
                self._engine,
                study,
                workload=workload,
                measurer=Measurer(self._engine, workload, request.schedule),
                loader=loader,
                limits=limits,
                min_gain=request.min_gain,
                on_event=self._on_event,
                forecaster=forecaster,
            )
            result = search.run()
            not_kept = self._keep_outcome(study, result)
            error = None if result.error is None else str(result.error)
            phase = Phase.FINISHED if error is None else Phase.FAILED
            self._change(
                phase=phase,
                result=result,
                error=error,
                not_kept=not_kept,
                current=None,
                records=result.trials,
            )

    def _keep_outcome(self, study: TuningStudy, result: TuneResult) -> str | None:
        """Store the verdict and what is promised; return why it is not kept."""
        request = self._request
        outcome = outcome_of(
            result,
            target=request.target_options,
            candidates=(request.draft,),
            context=replace(request.context, threads=request.server_threads),
            schedule=request.schedule,
            mtp_layers=request.target.mtp_layers,
            extra=request.extra,
        )
        try:
            study.keep(to_plain(outcome))
            promise = promise_of(result, self._terms())
            if promise is not None:
                study.keep_promise(to_plain(promise))
        except BadInputError as error:
            # A storage that fails now must not cost what was found.
            return f"spectui export and verify will not know of this verdict: {error}"
        return None

    def _terms(self) -> Terms:
        request = self._request
        is_chat = request.prompts_path is None and request.prompts != builtin_suite()
        threads = request.context.threads
        return Terms(
            baseline=request.target_options,
            target=request.target_options,
            candidates=(request.draft,),
            context=replace(request.context, threads=request.server_threads),
            sampling=request.sampling,
            n_predict=request.n_predict,
            schedule=request.schedule,
            mtp_layers=request.target.mtp_layers,
            min_gain=request.min_gain,
            prompts=request.prompts_path,
            is_chat=is_chat,
            extra=request.extra,
            screen_threads=threads if threads != request.server_threads else None,
        )

    def _kept(self, study: TuningStudy, workload: Workload) -> KeptTrace:
        request = self._request
        return KeptTrace(
            study_trace(study.name, study.spec),
            partial(self._trace, workload),
            identity(request.target),
            identities((request.draft,)),
        )

    def _trace(self, workload: Workload, tracing: Tracing) -> Trace:
        request = self._request
        return trace_of(
            tracing,
            machine=this_machine(),
            target=request.target,
            candidates=(request.draft,),
            workload=workload,
            schedule=request.schedule,
        )

    def _open_study(self, workload: Workload) -> TuningStudy:
        request = self._request
        spec = study_spec(
            machine=this_machine(),
            options=request.target_options,
            target=request.target,
            candidates=(request.draft,),
            context=request.context,
            schedule=request.schedule,
            workload=workload,
        )
        return TuningStudy(
            name=study_name(request.target.info.path, spec),
            storage=request.storage or own_storage(),
            spec=spec,
            space=self._space(),
            sampler=Sampler.TPE,
            seed=request.seed,
        )

    def _space(self) -> SearchSpace:
        request = self._request
        return SearchSpace(
            drafts=(request.draft.name,),
            max_draft=longest_draft(request.context),
            mtp_layers=request.target.mtp_layers,
        )

    def _on_event(self, event: TuneEvent) -> None:
        # Before the lock, which pausing and stopping wait for.
        ended = isinstance(event, TrialFinished) and self._study is not None
        importance = self._study.importance() if ended and self._study else None
        with self._lock:
            self._state = advance(self._state, event)
            if importance is not None:
                self._state = replace(self._state, importance=importance)
            self._sink(self._state)
