"""Rates and sums of an attached server, over restarts and lost connections."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.known import Known
from spectui.server.metrics import NO_DRAFTS, Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.meters import (
    N_COLUMNS,
    Columns,
    Window,
    decoded_between,
    is_exact_enough,
    progress,
    was_restarted,
)
from spectui.server.watch.poller import Backoff
from spectui.server.watch.sample import (
    Failure,
    HostState,
    Late,
    Trouble,
    WaitingSample,
    sentence_of,
    waiting_for,
)
from spectui.server.watch.tracker import AttachState, SlotPhase, Tracker, Work
from tests.support.attached import (
    COUNTERS,
    DRAFTS,
    ELSEWHERE,
    PROCESS,
    busy,
    lost,
    sample,
    slot,
)

URL = "http://localhost:8080"
_COUNT = st.integers(0, 10**6)


@st.composite
def draft_counts(draw: st.DrawFn) -> DraftCounts:
    return DraftCounts(
        n_drafts=draw(_COUNT),
        n_drafted=draw(_COUNT),
        n_accepted=draw(_COUNT),
        accepted_per_position=tuple(draw(st.lists(_COUNT, max_size=6))),
    )


@st.composite
def steps(draw: st.DrawFn) -> Counters:
    """What happens between two looks."""
    return Counters(
        n_prompt=draw(_COUNT),
        prompt_s=float(draw(_COUNT)),
        n_prompt_cached=None,
        n_predicted=draw(_COUNT),
        predicted_s=float(draw(_COUNT)),
        n_processing=0,
        n_deferred=0,
        drafts=draw(draft_counts()),
        started="1",
    )


def _after(before: Counters, step: Counters) -> Counters:
    return replace(
        before,
        n_prompt=before.n_prompt + step.n_prompt,
        prompt_s=before.prompt_s + step.prompt_s,
        n_predicted=before.n_predicted + step.n_predicted,
        predicted_s=before.predicted_s + step.predicted_s,
        drafts=(before.drafts or NO_DRAFTS) + (step.drafts or NO_DRAFTS),
    )


@given(steps(), steps())
def test_progress_is_what_happened(before: Counters, step: Counters) -> None:
    after = _after(before, step)
    assert not was_restarted(before, after)
    done = progress(before, after)
    assert (done.n_prompt, done.n_predicted) == (step.n_prompt, step.n_predicted)
    assert (done.prompt_s, done.predicted_s) == (step.prompt_s, step.predicted_s)
    assert step.drafts is not None
    assert done.drafts is not None
    assert done.drafts.n_accepted == step.drafts.n_accepted


@given(steps(), steps())
def test_nothing_is_negative_whatever_the_server_counts(one: Counters, other: Counters) -> None:
    done = progress(one, other)
    numbers = (done.n_prompt, done.prompt_s, done.n_predicted, done.predicted_s)
    counts = done.drafts or NO_DRAFTS
    drafts = (counts.n_drafts, counts.n_drafted, counts.n_accepted)
    assert min(*numbers, *drafts, *counts.accepted_per_position, 0) == 0


@given(steps())
def test_a_restart_is_seen_by_its_start_alone(counters: Counters) -> None:
    again = replace(counters, started="2")
    assert was_restarted(counters, again)
    done = progress(counters, again)
    assert done.n_predicted == counters.n_predicted


@given(draft_counts(), draft_counts())
def test_sums_of_drafts_can_be_taken_apart(one: DraftCounts, other: DraftCounts) -> None:
    both = one + other
    assert both == other + one
    rest = both - one
    assert (rest.n_drafts, rest.n_drafted) == (other.n_drafts, other.n_drafted)
    n = len(other.accepted_per_position)
    assert rest.accepted_per_position[:n] == other.accepted_per_position
    assert not any(rest.accepted_per_position[n:])


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_a_difference_that_counts_is_not_made_of_rounding(total: int, part: int) -> None:
    told = float(f"{total + part:.6g}") - float(f"{total:.6g}")
    if is_exact_enough(told, float(f"{total + part:.6g}")):
        assert told == pytest.approx(part, rel=0.06)


@pytest.mark.parametrize(
    ("difference", "total", "known"),
    [
        (1, 999_999, True),
        (1, 1_000_000, False),
        (200, 1_000_000, True),
        (2.0, 123_456.0, False),
        (20.0, 123_456.0, True),
        (0.5, 16.2675, True),
        (0, 10, False),
    ],
)
def test_what_six_digits_tell(*, difference: float, total: float, known: bool) -> None:
    assert is_exact_enough(difference, total) is known


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


@pytest.mark.parametrize(
    ("before", "after", "n"),
    [
        (slot(decoded=10, task=1), slot(decoded=14, task=1), 4),
        (slot(decoded=10, task=1), slot(decoded=3, task=2), 3),
        (slot(decoded=10, task=1), slot(decoded=3, task=1), 3),
        (slot(), slot(decoded=3, task=1), 3),
        (slot(decoded=10, task=1), slot(decoded=10, task=1), 0),
        (slot(), slot(), 0),
    ],
    ids=["goes on", "another request", "another server", "the first request", "rests", "unused"],
)
def test_tokens_between_two_looks(before: object, after: object, n: int) -> None:
    assert decoded_between(before, after) == n  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.integers(0, 1000)),
        min_size=2,
        max_size=40,
    )
)
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[float, int]]) -> None:
    window, time_s = Window(), 0.0
    for seconds, n in steps:
        time_s += seconds
        window.add(time_s, n)
    rates = [n / seconds for seconds, n in steps[1:]]
    assert window.per_s is not None
    assert min(rates) - 1e-6 <= window.per_s <= max(rates) * (1 + 1e-6) + 1e-6


def test_a_steady_rate_is_told_over_two_seconds() -> None:
    window = Window()
    for step in range(100):
        window.add(step / 10, 100 if step < 50 else 2)
    assert window.per_s == pytest.approx(20)


@given(st.lists(st.floats(0.05, 30), max_size=60))
def test_a_column_stands_for_half_a_second(waits: list[float]) -> None:
    columns, time_s = Columns(), 0.0
    columns.add(0.0, 1.0)
    for wait_s in waits:
        time_s += wait_s
        columns.add(time_s, 1.0)
    expected = min(int(time_s / 0.5) + 1, N_COLUMNS)
    assert abs(len(columns.values()) - expected) <= 1


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


def test_before_the_first_answer() -> None:
    state = tracked()
    assert not state.link.is_connected
    assert state.link.failure is None
    assert state.slots.reason == state.drafts.reason == "the server has not been asked yet"


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


def test_one_look_tells_no_rate() -> None:
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


def test_what_happened_while_the_connection_was_lost_is_counted() -> None:
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


@pytest.mark.parametrize(
    ("slots", "counters", "reason"),
    [
        ((slot(), slot(1)), COUNTERS, "this llama-server does not count drafts"),
        ((slot(), slot(1)), replace(COUNTERS, n_processing=1), "does not count drafts"),
    ],
)
def test_an_older_server_has_no_acceptance(
    slots: tuple[object, ...], counters: Counters, reason: str
) -> None:
    state = tracked(sample(0.0, slots=slots, counters=replace(counters, drafts=None)))  # type: ignore[arg-type]
    assert reason in str(state.drafts.reason)
    assert state.drafts.overall is None


@pytest.mark.parametrize(
    ("speculates", "n_processing", "reason"),
    [
        (False, 0, "this server does not speculate"),
        (True, 1, "drafts count when their request has ended"),
        (True, 0, "nothing was drafted since the server was started"),
    ],
)
def test_why_nothing_was_drafted(*, speculates: bool, n_processing: int, reason: str) -> None:
    slots = (slot(speculates=speculates),)
    counters = replace(COUNTERS, drafts=NO_DRAFTS, n_processing=n_processing)
    state = tracked(sample(0.0, slots=slots, counters=counters))
    assert reason in str(state.drafts.reason)


def test_without_slots_and_without_metrics_nothing_is_made_up() -> None:
    off = "/metrics is off; start the server with --metrics"
    state = tracked(sample(0.0, slots="/slots is off", counters=off))
    assert state.served.work is Work.UNKNOWN
    for reading in (state.served.mean_tokens_per_s, state.served.prompt_tokens_per_s):
        assert (reading.value, reading.reason) == (None, off)
    assert state.slots.reason == "/slots is off"


@pytest.mark.parametrize(("n", "work"), [(0, Work.IDLE), (2, Work.WORKING)])
def test_without_slots_the_counters_tell_whether_it_works(n: int, work: Work) -> None:
    state = tracked(sample(0.0, slots="off", counters=replace(COUNTERS, n_processing=n)))
    assert state.served.work is work


def test_an_answer_that_is_late_leaves_the_last_counters() -> None:
    late = replace(sample(1.0), counters=Late(None, "/metrics was not answered"))
    state = tracked(sample(0.0), late)
    assert state.link.is_late
    assert state.served.counters.value == COUNTERS
    off = tracked(sample(0.0), sample(1.0, counters="/metrics is off"))
    assert off.served.counters.reason == "/metrics is off"


def test_a_server_elsewhere_has_no_process_here() -> None:
    state = tracked(sample(0.0, where=ELSEWHERE))
    assert not state.host.is_here
    assert state.host.process.reason == "the server runs on another machine"


def test_another_process_has_no_rate_at_first() -> None:
    other = HostState(is_here=True, process=Known(replace(PROCESS, pid=5, cpu_s=1.0)))
    state = tracked(sample(0.0), sample(1.0, where=other))
    assert state.host.cores is None
    assert state.host.read_bytes_per_s.value is None


def test_a_process_that_comes_to_rest_is_seen_to_rest() -> None:
    def at(cpu_s: float) -> HostState:
        return HostState(is_here=True, process=Known(replace(PROCESS, cpu_s=cpu_s)))

    second = at(102.0)
    working = tracked(sample(0.0), sample(1.0, where=second), sample(1.5, where=second))
    assert working.host.cores == pytest.approx(2)
    resting = tracked(sample(0.0), sample(1.0, where=second), sample(2.0, where=at(102.0)))
    assert resting.host.cores == 0


def test_waits_grow_and_begin_anew() -> None:
    backoff = Backoff()
    waits = [backoff.failed(Trouble.UNREACHABLE) for _ in range(7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.succeeded()
    assert backoff.failed(Trouble.SILENT) == 0.5
    assert backoff.failed(Trouble.LOADING) == 1.0


def test_drafts_counts_without_drafts_have_no_rates() -> None:
    assert NO_DRAFTS.acceptance_rate is None
    assert NO_DRAFTS.mean_accepted_length is None
    assert NO_DRAFTS.share_per_position == ()
    assert DRAFTS.acceptance_rate == pytest.approx(0.65)


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


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Trouble.LOCKED, "the server tells nothing without its API key"),
        (Trouble.LOADING, "the server loads its model"),
        (Trouble.UNREACHABLE, "there is no connection"),
    ],
)
def test_why_panels_are_empty(trouble: Trouble, reason: str) -> None:
    tracker = Tracker(URL)
    tracker.add(lost(0.0, Failure(trouble=trouble, reason="it is so")))
    state = tracker.state()
    reasons = {state.facts.reason, state.slots.reason, state.drafts.reason}
    assert reasons | {state.served.now_tokens_per_s.reason} == {reason}


def test_a_server_that_fell_asleep_still_does_not_speculate() -> None:
    quiet = replace(COUNTERS, drafts=NO_DRAFTS, n_processing=0)
    tracker = Tracker(URL)
    tracker.add(sample(0.0, counters=quiet, slots=(slot(speculates=False),)))
    awake = tracker.state().drafts.reason
    tracker.add(sample(1.0, counters=quiet, slots="the server sleeps"))
    assert tracker.state().drafts.reason == awake == "this server does not speculate"


@pytest.mark.parametrize("drafts", [NO_DRAFTS, None], ids=["none drafted", "none counted"])
@pytest.mark.parametrize("slots", [(slot(speculates=False),), "/slots is off"])
def test_nothing_is_said_of_a_server_that_tells_nothing_any_more(
    drafts: DraftCounts | None, slots: tuple[SlotReply, ...] | str
) -> None:
    quiet = replace(COUNTERS, drafts=drafts, n_processing=0)
    tracker = Tracker(URL)
    tracker.add(sample(0.0, counters=quiet, slots=slots))
    tracker.add(lost(1.0, Failure(trouble=Trouble.LOCKED, reason="it is so")))
    assert tracker.state().drafts.reason == "the server tells nothing without its API key"
    tracker.add(WaitingSample(time_s=2.0, waited_s=3.0))
    assert tracker.state().drafts.reason == "the server tells nothing without its API key"


def test_another_server_is_not_taken_for_the_one_before() -> None:
    quiet = replace(COUNTERS, drafts=NO_DRAFTS, n_processing=0)
    first = sample(0.0, counters=quiet, slots=(slot(speculates=False),))
    anew = replace(quiet, started="later")
    for between in ((), (lost(0.5),)):
        state = tracked(first, *between, sample(1.0, counters=anew, slots="/slots is off"))
        assert state.drafts.reason == "nothing was drafted since the server was started"


def test_a_screen_says_how_a_key_is_given() -> None:
    locked = Failure(trouble=Trouble.LOCKED, reason="http://box wants an API key")
    assert "quit and attach again" in waiting_for(locked)
    assert "SPECTUI_API_KEY" in sentence_of(locked)
