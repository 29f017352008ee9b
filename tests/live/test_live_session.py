"""The engine as the screen uses it: load, chat, baseline, comparisons, and tuning beside a chat."""

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.demand import FreeMemory
from spectui.engine.events import (
    EngineFailed,
    Event,
    GenerationResult,
    LoadProgress,
    ModelLoaded,
    PromptEvaluated,
    Role,
    TokenEmitted,
    Tokenized,
)
from spectui.engine.planning import Planner
from spectui.engine.worker import LocalWorker
from spectui.errors import (
    BadInputError,
    CancelledError,
    DoesNotFitError,
    EngineDiedError,
    ReadsFromDiskError,
)
from spectui.live.pair import SearchRequest
from spectui.live.setup import (
    BaselineMeasured,
    LiveSetup,
    ModelsLost,
    RamMeasured,
)
from spectui.llama.planned import PlanRequest
from spectui.models.ranking import ModelInspected
from spectui.monitor import dram
from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.paths import own_storage_file
from spectui.prompts import ChatMessage, Prompt, load_prompts
from spectui.speculative.decoder import Stop
from spectui.tune.background import BackgroundTuning
from spectui.tune.progress import Phase, TuningState
from spectui.tune.studies.listing import list_studies
from tests.live.conftest import QUESTION, Watched
from tests.support.architectures import write_pair
from tests.support.cli import Spectui
from tests.support.engine import local_worker
from tests.support.models import OTHER, Tiny, TinyPath
from tests.support.nvml import until
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.slow

PATIENCE_S = 30.0
"""After which a thread counts as stuck."""


def search_of(watched: Watched) -> BackgroundTuning:
    found = watched.session.tuning
    assert found is not None
    return found


def prompts(n: int) -> tuple[Prompt, ...]:
    return tuple(
        Prompt(
            id=f"p{index}",
            category="chat",
            messages=(ChatMessage(role="user", content="the in on " * (index + 1)),),
        )
        for index in range(n)
    )


def test_a_pair_is_loaded_and_answers(watched: Watched, setup: LiveSetup) -> None:
    # Far more than is written before a stop arrives.
    endless = replace(setup, context=replace(setup.context, ctx_size=6144), n_predict=-1)
    watched.load(endless)
    loaded = [event for event in watched.events if isinstance(event, ModelLoaded)]
    assert [event.role for event in loaded] == [Role.TARGET, Role.DRAFT]
    # Raw text is continued as it stands; the template adds tokens around it.
    watched.session.send(setup, (), "in the on")
    raw = watched.wait(PromptEvaluated)
    watched.wait(GenerationResult)
    watched.session.send(setup, QUESTION)
    assert watched.wait(PromptEvaluated).n_tokens > raw.n_tokens
    result = watched.wait(GenerationResult)
    assert len(result.tokens) == 12
    assert result.counters.n_drafted > 0

    def stop(event: object) -> None:
        if isinstance(event, PromptEvaluated):
            watched.session.stop()

    watched.on_event = stop
    assert watched.ask(endless).stop is Stop.CANCELLED


def test_what_cannot_be_loaded_is_told_and_the_session_goes_on(
    watched: Watched, setup: LiveSetup, tiny: TinyPath, tmp_path: Path
) -> None:
    other = ModelOptions(path=tiny(Tiny(renamed=(9, "other"))))
    assert setup.draft is not None
    # Drafts are compared while nothing is loaded.
    for draft in (setup.draft, other):
        watched.session.inspector.compare(replace(setup, draft=draft))
        assert (watched.wait(ModelInspected).reason is None) is (draft is setup.draft)
    path = tmp_path / "notes.gguf"
    path.write_text("not a model")
    watched.session.load(replace(setup, target=ModelOptions(path=path), draft=None))
    assert isinstance(watched.wait(EngineFailed).error, BadInputError)
    watched.session.load(setup)
    watched.wait(ModelLoaded)
    # An incompatible draft leaves the target usable.
    watched.session.load_draft(other)
    assert "token 9 differs" in str(watched.wait(EngineFailed).error)
    assert watched.ask(setup).counters.n_drafted == 0


@pytest.mark.parametrize("arch", ["qwen35", pytest.param("gemma4", marks=pytest.mark.ci)])
def test_mtp_layers_of_a_file_draft_in_a_chat_and_in_a_search(
    watched: Watched, setup: LiveSetup, tmp_path: Path, arch: str
) -> None:
    target, layers = (ModelOptions(path=path) for path in write_pair(arch, tmp_path))
    drafting = Speculation(DraftMtp(draft_max=2))
    setup = replace(setup, target=target, draft=layers, speculation=drafting)
    watched.load(setup)
    for _turn in range(2):
        result = watched.ask(setup)
        assert result.counters.n_drafted > 0
    recorded = watched.recording()
    assert (recorded.draft, recorded.is_mtp) == (layers.path.stem, True)
    watched.session.start_tuning(setup, SearchRequest(prompts=prompts(2)))
    ended = watched.wait(TuningState, lambda event: not event.is_running)
    assert ended.phase is Phase.FINISHED
    assert layers.path.stem in {one.arm.drafter for one in ended.forecasts}


def test_the_baseline_is_measured_one_at_a_time(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)
    for _ in range(2):
        watched.session.measure_baseline()
        watched.session.measure_baseline()
        baseline = watched.wait(BaselineMeasured)
        assert 0 < baseline.step_s < 1 / baseline.tokens_per_s * 1.01
    assert len([one for one in watched.events if isinstance(one, BaselineMeasured)]) == 2


def test_a_search_does_not_wait_for_the_baseline(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)

    def begin(event: object) -> None:
        # The engine is busy, so that both wait.
        if isinstance(event, TokenEmitted):
            watched.on_event = lambda _event: None
            watched.session.measure_baseline()
            watched.session.start_tuning(setup, SearchRequest(prompts=prompts(2)))

    watched.on_event = begin
    watched.ask(setup)
    state = watched.wait(TuningState, is_finished)
    assert state.phase is Phase.FINISHED
    assert not [one for one in watched.events if isinstance(one, BaselineMeasured)]
    # The machine may have changed meanwhile.
    watched.wait(BaselineMeasured)


def test_the_limit_of_ram_is_told_when_nobody_waits(
    setup: LiveSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dram, "ram_bytes_per_s", lambda _n_threads, longest_s: 1e10 + longest_s)
    watched = Watched(is_idle=lambda: True)
    with closing(watched.session):
        watched.load(setup)
        assert not [event for event in watched.events if isinstance(event, RamMeasured)]
        watched.session.measure_baseline()
        watched.wait(BaselineMeasured)
        first = watched.wait(RamMeasured)
        assert first.bytes_per_s == pytest.approx(1e10)
        # With the next answer it is known.
        watched.ask(setup)
        assert watched.wait(RamMeasured) == first


def test_what_fits_is_what_a_plan_says_beside_the_memory_that_a_loaded_pair_gives_back(
    setup: LiveSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The free memory is this test's, so that the models are in its process.
    monkeypatch.setattr("spectui.live.session.ProcessWorker", LocalWorker)
    watched = Watched()

    def is_free(by_cpu: int) -> None:
        free = FreeMemory(by_memory={"CPU": by_cpu})
        monkeypatch.setattr("spectui.engine.guard.free_memory", lambda _gpus: free)

    is_free(1 << 10)
    watched.session.load(setup)
    assert type(watched.wait(EngineFailed).error) is DoesNotFitError
    request = replace(PlanRequest.of(setup), max_draft=4)
    with Planner() as planner:
        plan = planner.plan(request)
        loaded = planner.plan(replace(request, max_draft=watched.session.max_draft))
    allocated = sum(one.size_bytes for one in plan.buffers if not one.is_mapped)
    mapped = sum(one.size_bytes for one in plan.buffers if one.is_mapped)
    is_free(sum(one.size_bytes for one in loaded.buffers if not one.is_mapped))
    watched.session.load(setup)
    assert isinstance(watched.wait(EngineFailed).error, ReadsFromDiskError)
    watched.session.load(setup, from_disk=True)
    watched.wait(ModelLoaded)
    assert setup.draft is not None
    watched.session.load_draft(setup.draft)
    watched.wait(ModelLoaded)
    engine = local_worker(watched.session._engine)
    held = sum(one.size_bytes for one in engine.models.buffers if not one.is_mapped)
    compared = []
    for n_bytes in (allocated - 1, allocated, allocated + mapped):
        # What is free beside the pair that would have to go.
        is_free(n_bytes - held)
        engine._free = None
        watched.session.inspector.compare(setup)
        compared.append(watched.wait(ModelInspected))
    assert [one.reason is None for one in compared] == [False, True, True]
    assert [one.slowness is None for one in compared] == [True, False, True]
    assert "RAM has no room" in str(compared[0].reason)
    watched.session.close()


def test_a_stop_between_the_tokens_and_their_generation_ends_the_turn(
    watched: Watched, setup: LiveSetup
) -> None:
    watched.load(setup)
    chat = watched.session._chat
    handle = chat.sink
    for generation_submitted in (False, True):

        def stop_in_between(event: Event, *, late: bool = generation_submitted) -> None:
            chat.sink = handle
            assert isinstance(event, Tokenized)
            if late:
                handle(event)
            watched.session.stop()
            if not late:
                handle(event)

        watched.events.clear()
        chat.sink = stop_in_between
        watched.session.send(setup, QUESTION)
        assert isinstance(watched.wait(EngineFailed).error, CancelledError)
        assert not any(isinstance(event, PromptEvaluated) for event in watched.events)
        # Exactly one answer: the next one is the next turn's.
        assert watched.ask(setup).stop is Stop.LENGTH


def test_after_another_load_nothing_is_told_of_the_old_pair(
    watched: Watched, setup: LiveSetup, tiny: TinyPath
) -> None:
    watched.load(setup)
    answering, loading = threading.Event(), threading.Event()
    chat = watched.session._chat
    handle = chat.sink
    void: list[Event] = []

    def load_in_between(event: Event) -> None:
        if isinstance(event, TokenEmitted) and not answering.is_set():
            answering.set()
            assert loading.wait(PATIENCE_S)
        if loading.is_set():
            void.append(event)
        handle(event)

    chat.sink = load_in_between
    watched.session.send(replace(setup, n_predict=-1), QUESTION)
    assert answering.wait(PATIENCE_S)
    other = replace(setup, target=ModelOptions(path=tiny(OTHER)), draft=None)
    watched.session.load(other)
    n_told = len(watched.events)
    loading.set()
    watched.wait(ModelLoaded, lambda event: event.info.path == other.target.path)
    # The old answer went on to its end, but unheard.
    assert isinstance(void[0], TokenEmitted)
    assert isinstance(void[-1], GenerationResult)
    told = watched.events[n_told:]
    assert {type(event) for event in told} == {LoadProgress, ModelLoaded}
    assert {e.path for e in told if isinstance(e, LoadProgress)} == {other.target.path}


def is_finished(event: TuningState) -> bool:
    return not event.is_running


def tuned(watched: Watched, setup: LiveSetup) -> TuningState:
    watched.session.start_tuning(setup, SearchRequest(prompts=prompts(6)))
    return watched.wait(TuningState, is_finished)


def test_a_search_beside_a_chat_keeps_its_verdict_and_has_a_report(
    watched: Watched,
    setup: LiveSetup,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched.load(setup)
    order: list[str] = []

    def ask_once(event: object) -> None:
        match event:
            case TuningState() as state if state.current is not None and not order:
                order.append("asked")
                watched.session.send(setup, QUESTION)
            case GenerationResult():
                order.append("answered")
            case TuningState() as state if state.phase is Phase.FINISHED:
                order.append("tuned")
            case _:
                pass

    watched.on_event = ask_once
    state = tuned(watched, replace(setup, extra=("--jinja",)))
    # A turn of the chat goes first, and tuning goes on.
    assert order == ["asked", "answered", "tuned"]
    assert state.result is not None
    assert state.result.speedup is not None
    assert state.result.not_kept is None
    assert state.records == ()
    assert state.n_done == state.n_steps == 6
    # What was raced is a forecast's choice.
    assert list(state.raced) == [state.confirmed]
    assert state.confirmed in {one.arm for one in state.forecasts}
    [study] = list_studies(None)
    outcome = study.outcome
    assert study.name == state.study
    assert outcome is not None
    assert outcome.verdict == state.result.verdict
    assert (outcome.context, outcome.extra) == (setup.context, ("--jinja",))
    assert outcome.target == setup.target
    assert (outcome.speculation is None) == (not outcome.verdict.use_speculation)
    # What chats were recorded for it is kept beside it.
    assert len(list(home.rglob("*.trace.json.gz"))) == 1
    # By itself a load measures nothing: this came of the end of the search.
    measured = watched.wait(BaselineMeasured)
    assert [event for event in watched.events if isinstance(event, BaselineMeasured)] == [measured]
    assert watched.events.index(state) < watched.events.index(measured)
    spectui = Spectui(monkeypatch, capsys)
    assert spectui("report", "--format", "md") == 0, spectui.err
    for section in ("A whole request", "Where the time goes", "Machine, models and versions"):
        assert f"<summary>{section}</summary>" in spectui.out


@pytest.mark.parametrize(("draft_max", "batch"), [(24, 512), (40, 32)])
def test_drafts_longer_than_tuning_tries_are_loaded_for_as_far_as_the_batch_goes(
    watched: Watched, setup: LiveSetup, draft_max: int, batch: int
) -> None:
    context = replace(setup.context, batch_size=batch, ubatch_size=batch)
    wanted = replace(
        setup, context=context, speculation=Speculation(DraftSimple(draft_max=draft_max))
    )
    watched.load(wanted)
    assert watched.session.max_draft == max(16, min(draft_max, batch - 1))
    longest = Speculation(DraftSimple(draft_max=watched.session.max_draft))
    assert watched.ask(replace(wanted, speculation=longest)).counters.n_drafted > 0


@pytest.mark.ci
def test_a_stopped_search_is_taken_up(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)

    def stop_after_the_recording(event: object) -> None:
        if isinstance(event, TuningState) and event.forecasts:
            watched.on_event = lambda _event: None
            search_of(watched).stop()

    watched.on_event = stop_after_the_recording
    watched.session.start_tuning(setup, SearchRequest(prompts=prompts(6)))
    # What it has is kept.
    stopped = watched.wait(TuningState, is_finished)
    assert stopped.phase is Phase.FINISHED
    assert stopped.result is not None
    assert stopped.result.interrupted
    resumed = tuned(watched, setup)
    assert resumed.study == stopped.study
    assert resumed.result is not None
    assert resumed.result.speedup is not None


def test_a_verdict_that_the_storage_does_not_keep_is_told_so(
    watched: Watched, setup: LiveSetup
) -> None:
    def lose(event: object) -> None:
        if not isinstance(event, TuningState) or lost:
            return
        if event.is_confirming and event.n_done == 5:
            lost.append(event)
            with sqlite3.connect(own_storage_file()) as storage:
                storage.execute("DROP TABLE study_user_attributes")

    lost: list[object] = []
    watched.load(setup)
    watched.on_event = lose
    state = tuned(watched, setup)
    assert state.phase is Phase.FINISHED
    assert state.result is not None
    assert state.result.speedup is not None
    reason = state.result.not_kept
    assert reason is not None
    assert "spectui export and verify will not know of this verdict: the storage" in reason


@pytest.mark.ci
@pytest.mark.parametrize("source", ["file", "chat"])
def test_a_promise_of_the_screen_is_verified(  # noqa: PLR0917 - fixtures
    watched: Watched,
    setup: LiveSetup,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"p{n}", "prompt": f"the {n}"}) for n in range(6)))
    watched.session.records_chats = source == "file"
    watched.load(setup)
    if source == "file":
        watched.session.start_tuning(
            setup, SearchRequest(prompts=load_prompts(path).prompts, path=path)
        )
    else:
        watched.session.start_tuning(setup, SearchRequest(prompts=prompts(6)))
    result = watched.wait(TuningState, is_finished).result
    assert result is not None
    assert result.speedup is not None
    spectui = Spectui(monkeypatch, capsys)
    command = ["verify", "--server-bin", write_server(tmp_path / "llama-server"), "--json", "-"]
    if source == "chat":
        # Turns of a chat are not kept for it.
        assert not list(tmp_path.rglob("*.trace.json.gz"))
        assert spectui(*command) == 3
        assert "turns of a chat, whose text is not kept with it; give --prompts" in spectui.err
        command += ["--prompts", path]
    assert spectui(*command) == 0, spectui.err
    found = json.loads(spectui.out)
    assert found["promised"]["speedup"] == result.speedup.estimate
    # The server is given the threads that were measured with.
    arguments = found["server"]["arguments"]["on"]
    assert arguments[arguments.index("-t") + 1] == "1"


def test_a_search_that_cannot_run_says_why(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)
    long = (Prompt(id="long", category="chat", text="the in on " * 500),)
    watched.session.start_tuning(setup, SearchRequest(prompts=long))
    state = watched.wait(TuningState, is_finished)
    assert state.phase is Phase.FAILED
    assert "prompt long has" in str(state.error)


def test_a_load_ends_the_search_even_while_it_tells_of_a_change(
    setup: LiveSetup, tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling, stopping = threading.Event(), threading.Event()

    class HeldUp(BackgroundTuning):
        """Tells of its first trial when somebody is about to stop it, not before."""

        def __init__(self, engine: Any, prepare: Any, sink: Any, **more: Any) -> None:  # noqa: ANN401
            def tell(state: TuningState) -> None:
                if state.current is not None and not telling.is_set():
                    telling.set()
                    assert stopping.wait(PATIENCE_S)
                sink(state)

            super().__init__(engine, prepare, tell, **more)

        def stop(self) -> None:
            stopping.set()
            super().stop()

    monkeypatch.setattr("spectui.live.session.BackgroundTuning", HeldUp)
    # Not the fixture: closing a session that is stuck would wait for ever.
    watched = Watched()
    watched.load(setup)
    watched.session.start_tuning(setup, SearchRequest(prompts=prompts(6)))
    assert telling.wait(PATIENCE_S)
    other = replace(setup, target=ModelOptions(path=tiny(OTHER)), draft=None)
    loading = threading.Thread(target=watched.session.load, args=(other,), daemon=True)
    loading.start()
    loading.join(PATIENCE_S)
    assert not loading.is_alive(), "the search and the load wait for each other"
    watched.wait(ModelLoaded)
    assert watched.session.tuning is None
    assert len(watched.ask(other).tokens) == 12
    watched.session.close()


def kill(watched: Watched) -> int:
    """Kill the process with the models; return its id."""
    pid = watched.session.process
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_an_answer_dies_with_its_process_and_the_models_come_back(
    watched: Watched, setup: LiveSetup
) -> None:
    def lose() -> int:
        """End the process within an answer."""
        watched.session.send(replace(setup, n_predict=-1), QUESTION)
        watched.wait(TokenEmitted)
        pid = kill(watched)
        assert isinstance(watched.wait(EngineFailed).error, EngineDiedError)
        return pid

    watched.load(setup)
    for _twice in range(2):
        lost, n_before = lose(), len(watched.events)
        # The next prompt brings them back.
        watched.session.send(setup, QUESTION)
        assert len(watched.wait(GenerationResult).tokens) == 12
        assert watched.session.process not in {None, lost}
        again = watched.events[n_before:]
        assert {one.role for one in again if isinstance(one, LoadProgress)} == set(Role)


def test_a_process_that_dies_while_nobody_waits_is_told(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)
    watched.session.records_chats = False
    stop = watched.session.process
    assert stop is not None
    # It gets no further than to begin.
    os.kill(stop, signal.SIGSTOP)
    worker = watched.session._worker
    assert worker is not None
    watched.session.measure_baseline()
    # One that dies before it is asked for anything is nobody's loss.
    until(lambda: worker._running is not None)
    kill(watched)
    assert "memory ran out while" in str(watched.wait(ModelsLost).error)
    assert len(watched.ask(setup).tokens) == 12


@pytest.mark.ci
def test_a_search_outlives_the_process_of_a_trial(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)
    killed: list[int] = []

    def kill_once(event: object) -> None:
        if isinstance(event, TuningState) and event.current is not None and not killed:
            killed.append(kill(watched))

    watched.on_event = kill_once
    state = tuned(watched, setup)
    assert killed
    assert state.phase is Phase.FINISHED
    assert state.result is not None
    assert watched.session.process not in {None, *killed}


def test_closing_ends_everything_at_once(setup: LiveSetup) -> None:
    watched = Watched()
    watched.load(setup)
    watched.session.start_tuning(setup, SearchRequest(prompts=prompts(6)))
    watched.wait(TuningState, lambda event: event.current is not None)
    watched.session.send(replace(setup, n_predict=-1), QUESTION)
    watched.session.close()
    finished = [event for event in watched.events if isinstance(event, GenerationResult)]
    failed = [event for event in watched.events if isinstance(event, EngineFailed)]
    assert finished or failed
    assert all(event.stop is Stop.CANCELLED for event in finished)
    assert all(isinstance(event.error, CancelledError) for event in failed)
