"""Rates and sums of an attached server, over restarts and lost connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spectui.documents import Known
from spectui.server.metrics import DraftCounts
from spectui.server.replies import SlotPhase
from spectui.server.watch.sample import Failure, Trouble
from spectui.server.watch.tracker import (
    AttachState,
    SlotMeter,
    Tracker,
    decoded_between,
    is_exact_enough,
)
from tests.support.attached import COUNTERS, DRAFTS, ELSEWHERE, IDLE_SLOTS, LOST, busy, sample, slot

URL = "http://localhost:8080"
NO_DRAFTS = DraftCounts(n_drafts=0, n_drafted=0, n_accepted=0)


def test_what_six_digits_tell() -> None:
    for difference, total, known in (
        (1, 999_999, True),
        (1, 1_000_000, False),
        (200, 1_000_000, True),
        (0, 10, False),
        (0, 0, False),
    ):
        assert is_exact_enough(difference, total) is known, (difference, total)


def drafted(n_drafts: int) -> DraftCounts:
    return DraftCounts(n_drafts=n_drafts, n_drafted=4 * n_drafts, n_accepted=2 * n_drafts)


@given(st.lists(st.integers(0, 900), min_size=1, max_size=20))
def test_of_ended_requests_none_is_lost_and_none_counts_twice(steps: list[int]) -> None:
    tracker, total, found = Tracker(URL), 7, 0
    tracker.add(sample(0.0, counters=replace(COUNTERS, drafts=drafted(total))))
    for time_s, step in enumerate(steps, start=1):
        total += step
        before = tracker.state.last_drafts
        tracker.add(sample(float(time_s), counters=replace(COUNTERS, drafts=drafted(total))))
        last = tracker.state.last_drafts
        if last is not None and last is not before:
            found += last.n_drafts
    assert found == total - 7


def test_counts_wait_until_rounded_totals_tell_enough() -> None:
    # Behind 1,234,560 drafts, llama-server counts in tens.
    tracker, known = Tracker(URL), []
    for n in range(6):
        counters = replace(COUNTERS, drafts=drafted(1_234_560 + 50 * n))
        tracker.add(sample(float(n), counters=counters))
        known.append(tracker.state.last_drafts)
    assert known[:4] == [None] * 4
    assert known[4] == drafted(200)


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
        (None, busy, 0),
    ):
        assert decoded_between(before, after) == n


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 1000)), min_size=2, max_size=40))
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[float, int]]) -> None:
    meter, time_s, decoded = SlotMeter(), 0.0, 0

    def look() -> None:
        meter.add(time_s, (slot(decoded=decoded, task=1, is_processing=True),))

    for seconds, n in steps:
        time_s, decoded = time_s + seconds, decoded + n
        look()
    rates = [n / seconds for seconds, n in steps[1:]]
    assert meter.tokens_per_s is not None
    assert min(rates) - 1e-6 <= meter.tokens_per_s <= max(rates) * (1 + 1e-6) + 1e-6
    # A steady rate is told over two seconds, of the only slot as of all.
    for _ in range(50):
        time_s, decoded = time_s + 0.1, decoded + 2
        look()
    of_slot = meter.of(slot(decoded=decoded, task=1, is_processing=True))
    assert meter.tokens_per_s == of_slot == pytest.approx(20)


def tracked(*samples: object) -> AttachState:
    tracker = Tracker(URL)
    for each in samples:
        tracker.add(each)  # type: ignore[arg-type]
    return tracker.state


def test_a_busy_server() -> None:
    state = tracked(*busy(40))
    assert state.now_tokens_per_s.value is not None
    assert [each.phase for each in state.sample.slots.value or ()] == [
        SlotPhase.GENERATING,
        SlotPhase.GENERATING,
        SlotPhase.PROMPT,
        SlotPhase.IDLE,
    ]
    assert state.sample.slots.value is not None
    assert state.slot_tokens_per_s[0] == pytest.approx(6)
    assert state.last_drafts is not None
    assert state.last_drafts.n_drafts == 30
    assert state.sample.drafters == ("draft-simple",)


def test_before_the_first_answer_and_after_one_look() -> None:
    state = tracked()
    assert (state.sample.took_s, state.failure) == (None, None)
    assert (
        state.sample.slots.reason == state.sample.undrafted == "the server has not been asked yet"
    )
    state = tracked(sample(0.0, slots=(slot(decoded=5, task=1, is_processing=True),)))
    assert state.now_tokens_per_s.value is None
    assert state.now_tokens_per_s.reason == "the server has been asked only once"
    assert state.last_drafts is None


def test_history_and_counts_outlast_a_lost_connection() -> None:
    before = tracked(*busy(40))
    state = tracked(*busy(40), LOST, LOST)
    assert (state.sample.took_s, state.failure) == (None, LOST)
    assert state.speeds == (*before.speeds, None, None)
    assert state.sample.counters == before.sample.counters
    assert state.sample.facts == before.sample.facts
    assert state.sample.slots.reason == "no connection"
    assert state.now_tokens_per_s.value is None
    # What happened meanwhile is counted.
    later = replace(COUNTERS, drafts=drafted(DRAFTS.n_drafts + 50))
    state = tracked(sample(0.0), LOST, sample(9.0, counters=later))
    assert state.sample.took_s is not None
    assert state.last_drafts is not None
    assert state.last_drafts.n_drafts == 50


def test_after_a_restart_all_counts_are_new() -> None:
    anew = replace(COUNTERS, drafts=drafted(7))
    state = tracked(sample(0.0), LOST, sample(3.0, counters=anew), sample(4.0, counters=anew))
    assert state.last_drafts == drafted(7)


def test_why_nothing_was_drafted() -> None:
    without = tuple(slot(number, speculates=False) for number in range(4))
    for drafts, slots, reason in (
        (None, IDLE_SLOTS, "this llama-server does not count drafts"),
        (NO_DRAFTS, IDLE_SLOTS, "no request with a draft has ended"),
        (NO_DRAFTS, without, "this server drafts nothing"),
        (NO_DRAFTS, "/slots is off", "no request with a draft has ended"),
    ):
        counters = replace(COUNTERS, drafts=drafts)
        state = tracked(sample(0.0, counters=counters, slots=slots))
        assert reason in str(state.sample.undrafted)


def test_without_slots_and_without_metrics_nothing_is_made_up() -> None:
    off = "/metrics is off; start the server with --metrics"
    state = tracked(sample(0.0, slots="/slots is off", counters=off))
    assert state.sample.counters == Known(None, off)
    assert state.now_tokens_per_s == Known(None, "/slots is off")
    assert state.sample.slots.reason == "/slots is off"
    assert not tracked(sample(0.0, where=ELSEWHERE)).sample.is_here


def test_why_panels_are_empty() -> None:
    for trouble in (Trouble.LOCKED, Trouble.LOADING, Trouble.UNREACHABLE):
        state = tracked(Failure(trouble=trouble, reason="it is so"))
        reasons = {state.sample.facts.reason, state.sample.slots.reason, state.sample.undrafted}
        assert reasons | {state.now_tokens_per_s.reason} == {str(trouble)}
