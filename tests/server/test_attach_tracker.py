"""Rates and sums of an attached server, over restarts and lost connections."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.known import Known
from spectui.server.metrics import NO_DRAFTS, Counters, DraftCounts
from spectui.server.watch.meters import (
    Columns,
    Window,
    decoded_between,
    is_exact_enough,
    progress,
    was_restarted,
)
from spectui.server.watch.poller import Backoff
from spectui.server.watch.sample import Failure, HostState, Late, Trouble, WaitingSample
from spectui.server.watch.tracker import AttachState, SlotPhase, Tracker, Work
from tests.support.attached import COUNTERS, ELSEWHERE, PROCESS, busy, lost, sample, slot

URL = "http://localhost:8080"
_COUNT = st.integers(0, 10**6)
DRAFT_COUNTS = st.builds(
    DraftCounts,
    n_drafts=_COUNT,
    n_drafted=_COUNT,
    n_accepted=_COUNT,
    accepted_per_position=st.lists(_COUNT, max_size=6).map(tuple),
)
STEPS = st.builds(
    Counters,
    n_prompt=_COUNT,
    prompt_s=_COUNT.map(float),
    n_prompt_cached=st.none(),
    n_predicted=_COUNT,
    predicted_s=_COUNT.map(float),
    n_processing=st.just(0),
    n_deferred=st.just(0),
    drafts=DRAFT_COUNTS,
    started=st.just("1"),
)
"""What happens between two looks."""


@given(STEPS, STEPS)
def test_progress_is_what_happened(before: Counters, step: Counters) -> None:
    assert before.drafts is not None
    assert step.drafts is not None
    both = before.drafts + step.drafts
    assert both == step.drafts + before.drafts
    after = replace(
        before,
        n_prompt=before.n_prompt + step.n_prompt,
        prompt_s=before.prompt_s + step.prompt_s,
        n_predicted=before.n_predicted + step.n_predicted,
        predicted_s=before.predicted_s + step.predicted_s,
        drafts=both,
    )
    assert not was_restarted(before, after)
    done = progress(before, after)
    assert (done.n_prompt, done.n_predicted) == (step.n_prompt, step.n_predicted)
    assert (done.prompt_s, done.predicted_s) == (step.prompt_s, step.predicted_s)
    assert done.drafts is not None
    assert done.drafts.n_drafts == step.drafts.n_drafts
    assert (done.drafts.n_drafted, done.drafts.n_accepted) == (
        step.drafts.n_drafted,
        step.drafts.n_accepted,
    )
    n = len(step.drafts.accepted_per_position)
    assert done.drafts.accepted_per_position[:n] == step.drafts.accepted_per_position
    assert not any(done.drafts.accepted_per_position[n:])
    # A restart is seen by its start alone.
    again = replace(before, started="2")
    assert was_restarted(before, again)
    assert progress(before, again).n_predicted == before.n_predicted


@given(STEPS, STEPS)
def test_nothing_is_negative_whatever_the_server_counts(one: Counters, other: Counters) -> None:
    done = progress(one, other)
    numbers = (done.n_prompt, done.prompt_s, done.n_predicted, done.predicted_s)
    counts = done.drafts or NO_DRAFTS
    drafts = (counts.n_drafts, counts.n_drafted, counts.n_accepted)
    assert min(*numbers, *drafts, *counts.accepted_per_position, 0) == 0


def test_what_six_digits_tell() -> None:
    for difference, total, known in (
        (1, 999_999, True),
        (1, 1_000_000, False),
        (200, 1_000_000, True),
        (2.0, 123_456.0, False),
        (20.0, 123_456.0, True),
        (0.5, 16.2675, True),
        (0, 10, False),
    ):
        assert is_exact_enough(difference, total) is known, (difference, total)


def test_rates_wait_until_rounded_totals_tell_enough() -> None:
    # Behind 1,234,560 tokens, llama-server counts in tens.
    large = replace(COUNTERS, n_predicted=1_234_560, predicted_s=61_728.0)
    counters = [
        replace(large, n_predicted=1_234_560 + 50 * n, predicted_s=61_728.0 + 2.5 * n)
        for n in range(6)
    ]
    tracker, known = Tracker(URL), []
    for step, each in enumerate(counters):
        tracker.add(sample(float(step), counters=each))
        known.append(tracker.state().served.last_tokens_per_s.value)
    assert known[:4] == [None] * 4
    assert known[4] == pytest.approx(20)
    assert tracker.state().served.n_watched_predicted == 250


def test_tokens_between_two_looks() -> None:
    busy = slot(decoded=10, task=1)
    for before, after, n in (
        (busy, slot(decoded=14, task=1), 4),
        # Another request, another server, the first request.
        (busy, slot(decoded=3, task=2), 3),
        (busy, slot(decoded=3, task=1), 3),
        (slot(), slot(decoded=3, task=1), 3),
        (busy, busy, 0),
        (slot(), slot(), 0),
    ):
        assert decoded_between(before, after) == n


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 1000)), min_size=2, max_size=40))
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[float, int]]) -> None:
    window, time_s = Window(), 0.0
    for seconds, n in steps:
        time_s += seconds
        window.add(time_s, n)
    rates = [n / seconds for seconds, n in steps[1:]]
    assert window.per_s is not None
    assert min(rates) - 1e-6 <= window.per_s <= max(rates) * (1 + 1e-6) + 1e-6
    # A steady rate is told over two seconds.
    for step in range(50):
        window.add(time_s + (step + 1) / 10, 2)
    assert window.per_s == pytest.approx(20)


def test_a_lost_connection_leaves_a_gap_as_long_as_it_was() -> None:
    columns = Columns()
    for time_s, value in ((0.0, 1.0), (0.5, 2.0), (1.0, None), (3.0, 4.0)):
        columns.add(time_s, value)
    assert columns.values() == (1.0, 2.0, None, None, None, None, 4.0)


def tracked(*samples: object) -> AttachState:
    tracker = Tracker(URL)
    for each in samples:
        tracker.add(each)  # type: ignore[arg-type]
    return tracker.state()


def test_a_busy_server() -> None:
    state = tracked(*busy(40))
    assert state.served.work is Work.GENERATING
    assert state.served.now_tokens_per_s.value is not None
    assert state.served.last_tokens_per_s.value == pytest.approx(25)
    assert state.served.prompt_tokens_per_s.value == pytest.approx(416 / 0.9)
    assert [each.phase for each in state.slots.slots] == [
        SlotPhase.GENERATING,
        SlotPhase.GENERATING,
        SlotPhase.PROMPT,
        SlotPhase.IDLE,
    ]
    assert state.slots.slots[0].tokens_per_s == pytest.approx(6)
    assert state.slots.n_deferred == 2
    assert state.drafts.watched is not None
    assert state.drafts.watched.n_drafts == 90
    assert state.drafts.drafters == ("draft-simple",)
    assert state.host.cores == pytest.approx(3.8)


def test_before_the_first_answer_and_after_one_look() -> None:
    state = tracked()
    assert (state.link.is_connected, state.link.failure) == (False, None)
    assert state.slots.reason == state.drafts.reason == "the server has not been asked yet"
    state = tracked(sample(0.0, slots=(slot(decoded=5, task=1, is_processing=True),)))
    assert state.served.now_tokens_per_s.value is None
    assert state.served.now_tokens_per_s.reason == "the server has been asked only once"
    assert state.served.last_tokens_per_s.value is None
    assert state.served.mean_tokens_per_s.value == pytest.approx(9876 / 420)


def test_history_and_counts_outlast_a_lost_connection() -> None:
    before = tracked(*busy(40))
    state = tracked(*busy(40), lost(20.0), lost(21.0))
    assert (state.link.is_connected, state.link.n_failures) == (False, 2)
    assert state.served.history[: len(before.served.history)] == before.served.history
    assert state.served.history[-1] is None
    assert state.drafts.overall == before.drafts.overall
    assert state.facts == before.facts
    assert state.slots.reason == "there is no connection"
    assert state.served.now_tokens_per_s.value is None
    # What happened meanwhile is counted.
    later = replace(COUNTERS, n_predicted=COUNTERS.n_predicted + 50, predicted_s=425.0)
    state = tracked(sample(0.0), lost(1.0), sample(9.0, counters=later))
    assert state.link.is_connected
    assert state.served.n_watched_predicted == 50
    assert state.served.last_tokens_per_s.value == pytest.approx(10)


def test_a_restart_is_counted_and_loses_nothing_that_was_watched() -> None:
    first = replace(COUNTERS, n_predicted=COUNTERS.n_predicted + 10, predicted_s=421.0)
    anew = replace(COUNTERS, n_predicted=7, predicted_s=1.0, drafts=NO_DRAFTS, started="2")
    state = tracked(sample(0.0), sample(1.0, counters=first), lost(2.0), sample(3.0, counters=anew))
    assert state.link.n_restarts == 1
    assert state.served.n_watched_predicted == 17
    assert state.drafts.overall == NO_DRAFTS


def test_why_nothing_was_drafted() -> None:
    uncounted = "this llama-server does not count drafts"
    for drafts, speculates, n_processing, reason in (
        (None, True, 0, uncounted),
        (None, True, 1, uncounted),
        (NO_DRAFTS, False, 0, "this server does not speculate"),
        (NO_DRAFTS, True, 1, "drafts count when their request has ended"),
        (NO_DRAFTS, True, 0, "nothing was drafted since the server was started"),
    ):
        slots = (slot(speculates=speculates),)
        counters = replace(COUNTERS, drafts=drafts, n_processing=n_processing)
        first = sample(0.0, slots=slots, counters=counters)
        state = tracked(first)
        assert reason in str(state.drafts.reason)
        assert state.drafts.overall == drafts
        if not speculates:
            # Nor does it once it fell asleep.
            asleep = tracked(first, sample(1.0, slots="the server sleeps", counters=counters))
            assert asleep.drafts.reason == reason


def test_without_slots_and_without_metrics_nothing_is_made_up() -> None:
    off = "/metrics is off; start the server with --metrics"
    state = tracked(sample(0.0, slots="/slots is off", counters=off))
    assert state.served.work is Work.UNKNOWN
    for reading in (state.served.mean_tokens_per_s, state.served.prompt_tokens_per_s):
        assert (reading.value, reading.reason) == (None, off)
    assert state.slots.reason == "/slots is off"
    # The counters tell whether it works.
    for n, work in ((0, Work.IDLE), (2, Work.WORKING)):
        state = tracked(sample(0.0, slots="off", counters=replace(COUNTERS, n_processing=n)))
        assert state.served.work is work


def test_an_answer_that_is_late_leaves_the_last_counters() -> None:
    late = replace(sample(1.0), counters=Late(None, "/metrics was not answered"))
    state = tracked(sample(0.0), late)
    assert state.link.is_late
    assert state.served.counters.value == COUNTERS
    off = tracked(sample(0.0), sample(1.0, counters="/metrics is off"))
    assert off.served.counters.reason == "/metrics is off"


def test_the_load_of_a_process_is_its_own_and_sinks_to_rest() -> None:
    def at(cpu_s: float, pid: int = PROCESS.pid) -> HostState:
        return HostState(is_here=True, process=Known(replace(PROCESS, pid=pid, cpu_s=cpu_s)))

    second = at(102.0)
    working = tracked(sample(0.0), sample(1.0, where=second), sample(1.5, where=second))
    assert working.host.cores == pytest.approx(2)
    resting = tracked(sample(0.0), sample(1.0, where=second), sample(2.0, where=at(102.0)))
    assert resting.host.cores == 0
    other = tracked(sample(0.0), sample(1.0, where=at(1.0, pid=5)))
    assert (other.host.cores, other.host.read_bytes_per_s.value) == (None, None)
    elsewhere = tracked(sample(0.0, where=ELSEWHERE))
    assert not elsewhere.host.is_here
    assert elsewhere.host.process.reason == "the server runs on another machine"


def test_waits_grow_and_begin_anew() -> None:
    backoff = Backoff()
    waits = [backoff.failed(Trouble.UNREACHABLE) for _ in range(7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.succeeded()
    assert backoff.failed(Trouble.SILENT) == 0.5
    assert backoff.failed(Trouble.LOADING) == 1.0


def test_while_an_answer_is_waited_for_nothing_is_shown_as_it_was() -> None:
    tracker = Tracker(URL)
    for each in busy(20):
        tracker.add(each)
    before = tracker.state()
    assert before.served.now_tokens_per_s.value is not None
    tracker.add(WaitingSample(time_s=100.0, waited_s=3.0))
    state = tracker.state()
    assert (state.link.waits_s, state.link.is_connected) == (3.0, True)
    assert state.served.work is Work.UNKNOWN
    assert state.served.now_tokens_per_s.reason == "the server does not answer"
    assert state.slots.reason == "the server does not answer"
    assert state.served.counters == before.served.counters
    tracker.add(sample(101.0))
    assert tracker.state().link.waits_s is None


def test_why_panels_are_empty() -> None:
    locked = "the server tells nothing without its API key"
    for trouble, reason in (
        (Trouble.LOCKED, locked),
        (Trouble.LOADING, "the server loads its model"),
        (Trouble.UNREACHABLE, "there is no connection"),
    ):
        state = tracked(lost(0.0, Failure(trouble=trouble, reason="it is so")))
        reasons = {state.facts.reason, state.slots.reason, state.drafts.reason}
        assert reasons | {state.served.now_tokens_per_s.reason} == {reason}
    # Nothing is said any more of what the server told before.
    failure = lost(1.0, Failure(trouble=Trouble.LOCKED, reason="it is so"))
    for drafts in (NO_DRAFTS, None):
        quiet = replace(COUNTERS, drafts=drafts, n_processing=0)
        for slots in ((slot(speculates=False),), "/slots is off"):
            before = (sample(0.0, counters=quiet, slots=slots), failure)
            for after in ((), (WaitingSample(time_s=2.0, waited_s=3.0),)):
                assert tracked(*before, *after).drafts.reason == locked


def test_another_server_is_not_taken_for_the_one_before() -> None:
    quiet = replace(COUNTERS, drafts=NO_DRAFTS, n_processing=0)
    first = sample(0.0, counters=quiet, slots=(slot(speculates=False),))
    anew = replace(quiet, started="later")
    for between in ((), (lost(0.5),)):
        state = tracked(first, *between, sample(1.0, counters=anew, slots="/slots is off"))
        assert state.drafts.reason == "nothing was drafted since the server was started"
