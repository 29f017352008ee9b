"""Recording a workload with the costs of rounds, on tiny random models."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from spectui.config import ModelOptions, SamplingConfig, Schedule
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.tune.candidates import Candidate
from spectui.tune.tracing import (
    OutputRecorded,
    PromptProbed,
    Tracer,
    Tracing,
    TracingEvent,
    n_tracing_steps,
)
from spectui.tune.workload import WorkItem, Workload
from tests.support.engine import small_context
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures",)

DEPTH = 4
PROMPT = (88, 102, 126, 263, 261, 109, 271)
WORKLOAD = Workload(
    items=tuple(WorkItem(id=f"p{n}", category="", tokens=(*PROMPT, n)) for n in range(10)),
    n_predict=24,
    sampling=SamplingConfig(ignore_eos=True),
)


def trace(
    tiny: TinyPath,
    has_time: Callable[[], bool] = lambda: True,
    workload: Workload = WORKLOAD,
    outputs: Mapping[str, GenerationResult] | None = None,
) -> tuple[Tracing, list[TracingEvent]]:
    events: list[TracingEvent] = []
    draft = Candidate(name="draft", options=ModelOptions(path=tiny(CLOSE_DRAFT)), loaded=None)
    with Engine() as engine:
        engine.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=DEPTH)
        tracer = Tracer(
            engine,
            workload,
            [draft],
            depth=DEPTH,
            n_ctx=512,
            schedule=Schedule.SERVER,
            on_event=events.append,
            has_time=has_time,
            outputs=outputs,
        )
        return tracer.run(), events


def probed(events: list[TracingEvent]) -> list[str]:
    return [event.prompt_id for event in events if isinstance(event, PromptProbed)]


def test_costs_are_measured_on_prompts_that_are_spread_out(tiny: TinyPath) -> None:
    tracing, events = trace(tiny)
    assert len(events) == n_tracing_steps(n_prompts=10, n_drafts=1)
    assert sorted(probed(events)) == ["p0", "p1", "p2", "p3", "p5", "p6", "p7", "p8"]
    assert set(tracing.costs) == {"draft"}


def test_without_time_costs_are_measured_on_fewer_prompts_that_are_spread_out(
    tiny: TinyPath,
) -> None:
    tracing, events = trace(tiny, lambda: False)
    assert probed(events) == ["p0", "p2", "p5", "p7"]
    assert set(tracing.costs) == {"draft"}
    # What is counted is recorded on all of them.
    assert [len(one.chains) for one in tracing.recordings] == [1] * 10


@pytest.mark.parametrize("n_prompts", [1, 3])
def test_few_prompts_are_all_probed(tiny: TinyPath, n_prompts: int) -> None:
    _tracing, events = trace(
        tiny, lambda: False, replace(WORKLOAD, items=WORKLOAD.items[:n_prompts])
    )
    assert len(probed(events)) == n_prompts


def test_what_the_target_has_written_already_is_not_decoded_again(tiny: TinyPath) -> None:
    tracing, events = trace(tiny)
    told = {e.prompt_id: e.result for e in events if isinstance(e, OutputRecorded)}
    # A run of its own would not take a million seconds.
    outputs = {"p3": replace(told["p3"], decode_s=1e6)}
    again, _events = trace(tiny, outputs=outputs)
    assert again.recordings == tracing.recordings
    assert 1e6 < again.baseline_s < 1e6 + 1e3
