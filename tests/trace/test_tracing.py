"""Recording a workload with the costs of rounds, on tiny random models."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import psutil
import pytest

from spectui.children import Child
from spectui.engine.commands import (
    Command,
    Generate,
    LoadDraft,
    LoadTarget,
    RecordChains,
    WriteAnswers,
)
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten
from spectui.engine.isolation import ProcessWorker
from spectui.engine.worker import Worker
from spectui.errors import EngineDiedError
from spectui.interrupts import interrupts
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.speculative.decoder import Stop
from spectui.trace.costs import Costs
from spectui.trace.fit import Probed, fit_costs
from spectui.trace.ngrams import NGRAM_COSTS
from spectui.trace.record import Recording
from spectui.tune import tracing as tracing_module
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.tracing import Tracer, Tracing
from tests.support.engine import local_engine, small_context
from tests.support.layouts import expert_layouts
from tests.support.models import CLOSE_DRAFT, MOE, TARGET, TinyPath
from tests.support.search import target_of, time_told

pytest_plugins = ("tests.support.fixtures",)

WRITTEN, ALONG, PROBED, PRICED = "of the target", " along ", "rounds of every", "what rounds cost"
"""What events are of."""
DEPTH = 4
PROMPT = (88, 102, 126, 263, 261, 109, 271)
WORKLOAD = Workload(
    items=tuple(WorkItem(id=f"p{n}", category="", tokens=(*PROMPT, n)) for n in range(10)),
    n_predict=24,
    sampling=SamplingConfig(temp=0.0, ignore_eos=True),
)


def draft_of(tiny: TinyPath) -> Candidate:
    return Candidate(name="draft", options=ModelOptions(path=tiny(CLOSE_DRAFT)), loaded=None)


def trace(
    tiny: TinyPath,
    has_time: Callable[[], bool] = lambda: True,
    workload: Workload = WORKLOAD,
    worker: Worker | None = None,
    *,
    is_late: Callable[[], bool] = lambda: False,
    may_write: Callable[[], bool] = lambda: True,
) -> tuple[Tracing, list[str]]:
    events: list[str] = []
    with Engine(worker=worker) as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=DEPTH
            )
        )
        tracer = Tracer(
            workload,
            Loader(engine, [draft_of(tiny)]),
            depth=DEPTH,
            target=target_of(),
            on_event=events.append,
            is_over=time_told(has_time=has_time, is_late=is_late, may_write=may_write),
        )
        return tracer.run(), events


class Mortal(ProcessWorker):
    """Its process ends right before it is sent some commands."""

    def __init__(self, *deaths: type[Command]) -> None:
        super().__init__()
        self.deaths = list(deaths)

    def _send(self, command: Command) -> Child:
        if type(command) in self.deaths and self.pid is not None:
            self.deaths.remove(type(command))
            psutil.Process(self.pid).kill()
        return super()._send(command)


def probed(events: list[str]) -> list[str]:
    return [event.partition(":")[0] for event in events if PROBED in event]


def kinds(events: list[str]) -> list[str]:
    told = (WRITTEN, ALONG, PROBED, PRICED)
    return [kind for event in events for kind in told if kind in event]


def test_costs_are_measured_on_prompts_that_are_spread_out(tiny: TinyPath) -> None:
    tracing, events = trace(tiny)
    assert sorted(probed(events)) == ["p0", "p1", "p2", "p3", "p5", "p6", "p7", "p8"]
    assert set(tracing.trace.costs) == {"draft"}


def test_without_time_costs_are_measured_on_fewer_prompts_that_are_spread_out(
    tiny: TinyPath,
) -> None:
    tracing, events = trace(tiny, lambda: False)
    assert probed(events) == ["p0", "p2", "p5", "p7"]
    assert set(tracing.trace.costs) == {"draft"}
    # What is counted is recorded on all of them.
    assert [len(one.chains) for one in tracing.trace.recordings] == [1] * 10
    for n in (1, 3):
        _tracing, events = trace(tiny, lambda: False, replace(WORKLOAD, items=WORKLOAD.items[:n]))
        assert len(probed(events)) == n


def test_an_interrupt_while_costs_are_fitted_loses_nothing(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(probed: Probed, others: Sequence[Probed]) -> Costs:
        signal.raise_signal(signal.SIGINT)
        return fit_costs(probed, others)

    monkeypatch.setattr(tracing_module, "fit_costs", interrupted)
    handlers = {
        one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    interrupts.install()
    try:
        tracing, _events = trace(tiny)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert tracing.interrupted
    assert set(tracing.trace.costs) == {"draft"}
    assert len(tracing.trace.recordings) == 10


def test_text_ends_where_its_time_does(tiny: TinyPath) -> None:
    items = tuple(replace(WORKLOAD.items[0], id=f"p{n}") for n in range(40))
    may_write = iter((True, False))
    tracing, _events = trace(
        tiny,
        workload=replace(WORKLOAD, items=items),
        may_write=lambda: next(may_write),
    )
    assert len(tracing.trace.recordings) == 24
    assert all(set(one.chains) == {"draft"} for one in tracing.trace.recordings)


def test_a_recording_goes_on_after_a_death(tiny: TinyPath) -> None:
    workload = replace(WORKLOAD, items=WORKLOAD.items[:3])
    alive, _events = trace(tiny, workload=workload)
    worker = Mortal(WriteAnswers, Generate, LoadDraft, RecordChains)
    tracing, events = trace(tiny, workload=workload, worker=worker)
    assert worker.deaths == []
    assert tracing.error is None
    assert not tracing.interrupted
    assert tracing.trace.recordings == alive.trace.recordings
    assert set(tracing.trace.costs) == {"draft"}
    assert len(probed(events)) == 3
    # One that ends twice keeps what is whole.
    tracing, _events = trace(tiny, workload=workload, worker=Mortal(WriteAnswers, WriteAnswers))
    assert isinstance(tracing.error, EngineDiedError)
    assert tracing.interrupted
    assert tracing.trace.recordings == ()


def test_a_recording_that_is_late_does_what_has_to_be(tiny: TinyPath) -> None:
    tracing, events = trace(tiny, is_late=lambda: True)
    assert [one.id for one in tracing.trace.recordings] == ["p0"]
    assert set(tracing.trace.recordings[0].chains) == {"draft"}
    assert kinds(events) == [WRITTEN, ALONG, PROBED, PRICED]
    assert not tracing.interrupted


def test_a_recording_that_gets_late_goes_on_with_what_every_draft_was_recorded_along(
    tiny: TinyPath,
) -> None:
    # Before two commands of text, and before the second and third prompt of the draft.
    asked = iter([False] * 2 + [False] * 2 + [True] * 20)
    tracing, _events = trace(tiny, is_late=lambda: next(asked))
    assert [one.id for one in tracing.trace.recordings] == ["p0", "p1", "p2"]
    assert all(set(one.chains) == {"draft"} for one in tracing.trace.recordings)
    assert set(tracing.trace.costs) == {"draft"}


def test_a_hopeless_draft_is_left_out_after_a_few_prompts(tiny: TinyPath) -> None:
    asked: list[tuple[str, list[str], set[str]]] = []

    def hopeless(draft: str, first: Sequence[Recording], costs: Mapping[str, Costs]) -> str:
        assert all(set(one.chains) == {"draft", draft} for one in first)
        asked.append((draft, [one.id for one in first], set(costs)))
        return "it is hopeless"

    events: list[str] = []
    with Engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=DEPTH
            )
        )
        drafts = [draft_of(tiny), replace(draft_of(tiny), name="other")]
        tracing = Tracer(
            WORKLOAD,
            Loader(engine, drafts),
            depth=DEPTH,
            target=target_of(),
            on_event=events.append,
            hopeless=hopeless,
        ).run()
    # The first one has none to be held against.
    assert asked == [("other", ["p0", "p1", "p2", "p3"], {"draft"})]
    assert tracing.left_out == {"other": "it is hopeless"}
    assert "left out other: it is hopeless" in events
    assert set(tracing.trace.costs) == {"draft"}
    assert [set(one.chains) for one in tracing.trace.recordings] == [{"draft"}] * 10


def test_where_a_draft_moves_the_target_costs_are_measured_in_each_place(tiny: TinyPath) -> None:
    events: list[str] = []
    with local_engine() as engine:
        command = LoadTarget(
            options=ModelOptions(path=tiny(MOE), n_cpu_moe=1),
            context=small_context(),
            max_draft=DEPTH,
        )
        engine.load_target(
            LoadTarget(options=command.options, context=command.context, max_draft=DEPTH)
        )
        layouts = expert_layouts(command.options, 0, draft=1)
        loader = Loader(
            engine,
            [draft_of(tiny)],
            movable=(command, layouts),
        )
        tracing = Tracer(
            WORKLOAD,
            loader,
            depth=DEPTH,
            target=target_of(),
            on_event=events.append,
        ).run()
        assert loader.place == command.options
    # Outputs once, then off where it lies without the draft, then the draft where it lies with it.
    assert list(dict.fromkeys(kinds(events))) == [WRITTEN, PROBED, ALONG, PRICED]
    drafters = [event.split()[-1] for event in events if PROBED in event]
    assert drafters == [*[NGRAM_COSTS] * 8, *["draft"] * 8]
    assert set(tracing.trace.costs) == {NGRAM_COSTS, "draft"}
    assert [len(one.chains) for one in tracing.trace.recordings] == [1] * 10


def test_an_answer_that_is_there_is_recorded_as_it_is(tiny: TinyPath) -> None:
    whole, _events = trace(tiny)
    answers = {one.id: one.output for one in whole.trace.recordings}

    def given_one(item: WorkItem, stop: Stop, n: int) -> WorkItem:
        tokens = answers[item.id][:n]
        answer = AnswerWritten(index=0, tokens=tokens, stop=stop, decode_s=0.0, read_s=0.5)
        return replace(item, given=answer)

    first, second, third, *others = WORKLOAD.items
    items = (
        given_one(first, Stop.CANCELLED, 24),
        others[0],
        given_one(second, Stop.CANCELLED, 9),
        given_one(third, Stop.END_OF_GENERATION, 5),
    )
    found, events = trace(tiny, workload=replace(WORKLOAD, items=items))
    assert [one.id for one in found.trace.recordings] == [one.id for one in items]
    decoded = {one.id: one for one in whole.trace.recordings}
    assert found.trace.recordings[:2] == (decoded["p0"], decoded["p3"])
    broken_off, ended = found.trace.recordings[2:]
    assert (broken_off.output, broken_off.stop) == (answers["p1"][:9], Stop.CANCELLED)
    assert (ended.output, ended.stop) == (answers["p2"][:5], Stop.END_OF_GENERATION)
    # Its prompt was evaluated before it was read.
    assert [one.seconds for one in found.readings[NGRAM_COSTS].target].count(0.5) == 3
    assert kinds(events).count(WRITTEN) == 4
    found, _events = trace(tiny, workload=replace(WORKLOAD, items=items, n_predict=4))
    assert {(len(one.output), one.stop) for one in found.trace.recordings} == {(4, Stop.LENGTH)}


def test_a_shorter_recording_takes_a_beginning_of_an_answer() -> None:
    answer = AnswerWritten(index=0, tokens=(1, 2, 3), stop=Stop.END_OF_GENERATION, decode_s=0.0)
    assert answer.first(3) == answer.first(9) == answer
    assert (answer.first(2).tokens, answer.first(2).stop) == ((1, 2), Stop.LENGTH)
    broken_off = replace(answer, stop=Stop.CANCELLED)
    assert broken_off.first(4) == broken_off
    assert broken_off.first(3).stop is Stop.LENGTH
