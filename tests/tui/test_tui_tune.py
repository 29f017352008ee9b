"""The tune screen: driven by states and keys, seen as text, heard by a controller."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from textual.widgets import Input, Tab

from spectui.documents import Known
from spectui.engine.events import GenerationResult
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import judge, undecided
from spectui.options.drafters import DraftSimple
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.tui.tune import views
from spectui.tui.tune.controller import TuneController
from spectui.tui.tune.form import PromptSource, TuneSetup, Wanted
from spectui.tui.tune.ledger import Ledger, digest
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.tune.views import SettingsTable, TuneStatus, VerdictBox
from spectui.tune.evidence import CategoryGain
from spectui.tune.forecast import Answers, Forecast
from spectui.tune.progress import Looked, Phase, TuningState
from spectui.tune.race import Standing
from spectui.tune.result import TuneResult
from spectui.tune.trials import PromptScore, TrialRecord, TrialState, best_trial
from tests.support import cockpit
from tests.support.cockpit import Stage, staged
from tests.support.machine import DISTURBED
from tests.support.search import forecast_of, items, result

ANCHOR = 10.0
SIZES = [(80, 24), (120, 40), (200, 60)]


def arm(longest: int = 4, p_min: float = 0.0, *, shortest: int = 0, draft: str = "good") -> Arm:
    speculation = Speculation(DraftSimple(draft_max=longest, draft_min=shortest, draft_p_min=p_min))
    return Arm(draft=draft, speculation=speculation)


def trial(number: int, tried: Arm = OFF, speedup: float = 1.0, *, rate: float = 0.5) -> TrialRecord:
    """A measured trial; off is given a speedup of 1."""
    drafted, seconds = 0 if tried == OFF else 100, 100 / (ANCHOR * speedup)
    counts = {"n_drafted": drafted, "n_accepted": round(drafted * rate), "n_rounds": 40}
    score = PromptScore(prompt_id="p", category="c", n_tokens=100, decode_s=seconds, **counts)
    return TrialRecord(
        number=number, state=TrialState.COMPLETE, arm=tried, prompts=(score,), speedup=speedup
    )


def failed(number: int, error: str, tried: Arm | None = None) -> TrialRecord:
    return TrialRecord(number=number, state=TrialState.FAIL, arm=tried or arm(), error=error)


RECORDS = (
    trial(0),
    trial(1, arm(3), 1.2, rate=0.9),
    trial(2, arm(16, 0.75), 0.8, rate=0.3),
    trial(3, arm(6, 0.4, shortest=1), 1.4, rate=0.7),
    failed(4, "the draft does not fit"),
    trial(5, arm(6, 0.4), 1.3, rate=0.6),
)
BEST = "good: max 6, min 1, p_min 0.40"
SEARCHING = TuningState(phase=Phase.SEARCHING, study="study-1", records=RECORDS, seconds_left=90.0)

FORECASTS = tuple(
    forecast_of(one, speedup, n_drafted=100, n_accepted=n_accepted)
    for one, speedup, n_accepted in (
        (arm(5, 0.3), 1.45, 70),
        (arm(5, 0.35), 1.44, 71),
        (arm(8), 1.2, 55),
        (arm(2), 0.9, 90),
    )
)
"""Best first: two neighbours, of which one is in the table, another length, and one that loses."""
PREDICTED = replace(SEARCHING, records=RECORDS[:1], forecasts=FORECASTS)


LOOKED = Looked(
    arm=FORECASTS[0].arm,
    speedup=Speedup(estimate=1.1, low=0.9, high=1.2, n_pairs=8, n_prompts=8),
)


def many(n: int) -> tuple[TrialRecord, ...]:
    """Off and random settings."""
    pick = random.Random(0)  # noqa: S311 - settings, no secrets
    tried = [arm(pick.randint(1, 16), round(pick.randint(0, 19) * 0.05, 2)) for _ in range(n - 1)]
    return (
        trial(0),
        *(trial(i + 1, a, 1 + pick.random(), rate=pick.random()) for i, a in enumerate(tried)),
    )


DONE: GenerationResult = result(10.0)
MEASURED = Pair(item=items(1)[0], baseline=DONE, speculative=DONE)


def tuned(
    records: Sequence[TrialRecord] = RECORDS,
    speedup: Speedup | None = None,
    *,
    lossless: LosslessCheck | None = None,
    interrupted: bool = False,
) -> TuneResult:
    best = best_trial(records)
    return TuneResult(
        trials=tuple(records),
        best=None if best is None else best.arm,
        finalists=(Standing(arm=best.arm, speedup=speedup, pairs=(MEASURED,)),)
        if best is not None and speedup is not None
        else (),
        verdict=judge(speedup, min_gain=0.02, what=best.arm.label if best else "")
        if speedup
        else undecided("no candidate could run"),
        lossless=lossless,
        interrupted=interrupted,
        error=None,
        took_s=60.0,
    )


def speedup(estimate: float, low: float | None, high: float | None) -> Speedup:
    reason = None if low else "an interval needs 6 prompts"
    return Speedup(
        estimate=estimate, low=low, high=high, n_pairs=8, n_prompts=8, interval_reason=reason
    )


RACED = speedup(1.37, 1.3, 1.44)
DECIDED = replace(
    PREDICTED,
    phase=Phase.FINISHED,
    result=replace(
        tuned(RECORDS[:1], RACED),
        best=FORECASTS[0].arm,
        finalists=(Standing(arm=FORECASTS[0].arm, speedup=RACED, pairs=(MEASURED,)),),
        verdict=judge(RACED, min_gain=0.02, what=FORECASTS[0].arm.label),
    ),
)
"""No setting was tried: the best forecast was raced."""
USE_IT = replace(
    SEARCHING,
    phase=Phase.FINISHED,
    result=tuned(speedup=speedup(1.34, 1.28, 1.4), lossless=LosslessCheck(divergence=None)),
)
TURN_OFF = replace(USE_IT, result=tuned(speedup=speedup(0.83, 0.79, 0.88)))


def test_a_verdict_has_its_requests_and_its_categories() -> None:
    state = USE_IT
    assert state.result is not None
    (leader,) = state.result.finalists
    gain = CategoryGain(category="code", n_prompts=12, speedup=1.41, n_drafted=100, n_accepted=62)
    request = Request(
        shape=RequestShape(n_prompt=2000, n_answer=500),
        prompt_off_s=2.0,
        prompt_on_s=2.2,
        token_s=0.05,
        decoding=RACED,
    )
    result = replace(
        state.result,
        finalists=(replace(leader, categories=(gain,)),),
        requests=Known((request,)),
    )
    told = list(views.facts(replace(state, result=result), None))
    assert ("request", f"of {request.summary}") in told
    assert ("code", "1.41×, 62 % accepted, 12 prompts") in told


def test_an_earlier_verdict_stays_until_the_search_has_ended() -> None:
    going_on = replace(SEARCHING, earlier="Use it.")
    assert ("earlier", "Use it.") in views.facts(going_on, None)
    assert "earlier" not in dict(views.facts(replace(USE_IT, earlier="Use it."), None))


class Host(cockpit.Host):
    """The screen in a state."""

    def __init__(self, state: TuningState | None = None) -> None:
        super().__init__()
        self.tune = self.opened = TuneScreen(cast("TuneController", self.controller), state)

    @property
    def table(self) -> SettingsTable:
        return self.tune.query_one(SettingsTable)

    def field(self, name: str) -> Input:
        return self.tune.query_one(f"#{name}", Input)

    def asks(self) -> bool:
        """Whether the form is shown."""
        return bool(self.tune.query_one(TuneSetup).display)

    def footer(self) -> list[str]:
        return [active.binding.description for active in self.tune.active_bindings.values()]


async def show(stage: Stage[Host], state: TuningState) -> str:
    stage.app.tune.show(state)
    return await stage.idle()


# The empty state and the form


async def test_before_a_start_the_screen_says_what_tuning_does_and_how_to_start() -> None:
    async with staged(Host(), (80, 24)) as (app, stage):
        shown = app.words()
        assert "not started" in shown
        assert shown.index("minutes") < shown.index("Enter starts.")
        await stage.press("enter")
        assert app.take() == [("start", Wanted())]


async def test_what_the_form_asks_for_is_what_was_filled_in() -> None:
    async with staged(Host()) as (app, stage):
        for value in ("0", "-3", "nan", "inf", "1e9", "soon"):
            app.field("minutes").value = value
            assert "Minutes must be" in await stage.press("s"), value
        app.field("minutes").value = ""
        assert app.take() == []
        for field in ("#sources", "#minutes"):
            app.tune.query_one(field).focus()
            assert "enter Start" in await stage.idle()
            await stage.press("enter")
            assert app.take() == [("start", Wanted())]
        app.field("minutes").value = "7.5"
        await stage.press("enter")
        assert app.take() == [("start", Wanted(time_budget_s=450.0))]
        await stage.press("escape")
        assert app.screen is not app.tune


async def test_a_source_is_chosen_with_arrows_and_with_the_mouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text("Say something.")
    files = PromptSource.FILES
    async with staged(Host()) as (app, stage):
        setup, path = app.tune.query_one(TuneSetup), app.field("path")
        assert not path.region
        found = [setup.source]
        for _ in PromptSource:
            await stage.press("right")
            found.append(setup.source)
        assert found == [*PromptSource, PromptSource.BUILTIN]
        for tab, source in zip(setup.sources.query(Tab), PromptSource, strict=True):
            await stage.click(tab)
            assert setup.source is source
        await stage.press("s")
        assert app.take() == [("start", Wanted(source=PromptSource.CHAT))]
        # Files need a path.
        await stage.click(setup.sources.query(Tab)[[*PromptSource].index(files)])
        for typed in ("", "nothing", "~nobody-has-this-name/\0" + "x" * 5000):
            path.value = typed
            assert "There is nothing at this path" in await stage.press("enter")
        path.value = ""
        path.focus()
        assert "There is nothing at this path" not in await stage.press(*"p.txt", "enter")
        assert app.take() == [("start", Wanted(source=files, path=Path("p.txt")))]


async def test_after_a_search_start_first_shows_what_would_be_started() -> None:
    async with staged(Host(USE_IT)) as (app, stage):
        assert not app.asks()
        await stage.press("s")
        assert app.asks()
        assert app.take() == []
        # What is refused is said in the form until it is corrected.
        app.tune.ask("mine.txt:1: the prompt is empty.")
        assert "mine.txt:1: the prompt is empty." in await stage.idle()
        assert "the prompt is empty" not in await stage.press("right")
        await stage.press("left", "s")
        assert not app.asks()
        assert len(app.take()) == 1
        assert app.notices == []


# Steering


CONFIRMING = replace(SEARCHING, phase=Phase.CONFIRMING)
INTERRUPTED = replace(USE_IT, result=tuned(interrupted=True))
FOOTERS = [
    (TuningState(), {"Start"}),
    (TuningState(phase=Phase.STARTING), {"Stop"}),
    (SEARCHING, {"Stop", "Apply"}),
    (replace(SEARCHING, phase=Phase.STOPPING), {"Apply"}),
    (USE_IT, {"Start", "Apply"}),
    (TuningState(phase=Phase.FAILED, error="no room"), {"Start"}),
]
STEERING = set[str]().union(*(possible for _state, possible in FOOTERS))


async def test_keys_and_the_footer_have_what_makes_sense() -> None:
    async with staged(Host()) as (app, stage):
        for state, possible in FOOTERS:
            await show(stage, state)
            assert STEERING.intersection(app.footer()) == possible, state.phase
        for state in (SEARCHING, CONFIRMING):
            await show(stage, state)
            await stage.press("x")
            assert app.take() == [("stop",)]


async def test_the_facts_of_a_verdict_stand_below_it() -> None:
    assert USE_IT.result is not None
    told = replace(USE_IT.result, conditions=DISTURBED)
    async with staged(Host(), (160, 40)) as (app, stage):
        await show(stage, replace(USE_IT, result=told))
        for expected in (
            "another process (cc1plus) took 40 % of a core for 31 s",
            "the machine slept for 12 min 00 s",
            "Not explained: nothing was drafted",
        ):
            assert expected in app.words()
        assert app.words().count("Use it") == 1
        # Facts that do not fit are reached with keys.
        assert "slept" not in await stage.at((60, 15))
        await stage.press("shift+tab", "end")
        assert "slept" in app.words()


# Applying


async def test_what_is_applied_and_what_is_said_of_it() -> None:
    best = RECORDS[3].arm
    cases = [
        (USE_IT, (), best, "trial 3"),
        (PREDICTED, (), FORECASTS[0].arm, "forecast"),
        # The selected row, against the verdict; and the row of off.
        (TURN_OFF, ("home", "down", "down"), RECORDS[1].arm, "trial 1"),
        (PREDICTED, ("home", "down"), FORECASTS[2].arm, "forecast"),
        (DECIDED, ("home",), FORECASTS[0].arm, "raced"),
        (SEARCHING, ("home", "down", "down", "down"), OFF, "turned off"),
    ]
    async with staged(Host(replace(SEARCHING, records=RECORDS[:1]))) as (app, stage):
        for state, keys, expected, word in cases:
            app.clear_notifications()
            await show(stage, state)
            app.table.focus()
            await stage.press(*keys, "enter")
            assert app.take() == [("apply", expected)], (keys, word)
            (notice,) = app.notices
            assert word in notice
        # A failed trial cannot be applied.
        await stage.press("end", "enter")
        assert "Apply" not in app.footer()
        assert app.take() == []
        await stage.press("up")
        assert "Apply" in app.footer()


# What the head says


RECORDING = TuningState(phase=Phase.RECORDING, n_done=7, n_steps=28)


def test_the_phase_progress_and_the_time_left_in_words() -> None:
    for state, *expected in (
        # Without and with a turn of the chat.
        (TuningState(), "not started", "not started"),
        (TuningState(phase=Phase.PREPARING), "reading the prompts", "held back by the chat"),
        (TuningState(phase=Phase.STARTING), "measuring the target alone", "held back by the chat"),
        (RECORDING, "recording", "held back by the chat"),
        (replace(SEARCHING, current=OFF), "measuring the target alone", "held back by the chat"),
        (SEARCHING, "searching", "held back by the chat"),
        (CONFIRMING, "confirming", "held back by the chat"),
        (replace(SEARCHING, phase=Phase.STOPPING), "stopping", "stopping"),
        (USE_IT, "finished", "finished"),
        (INTERRUPTED, "stopped early", "stopped early"),
        (TuningState(phase=Phase.FAILED, error="no"), "failed", "failed"),
    ):
        assert [views.phase(state, chat_is_busy=busy) for busy in (False, True)] == expected
    confirming = replace(CONFIRMING, n_done=4, n_steps=16)
    under_way = replace(SEARCHING, n_done=6, n_steps=8)
    for state, said in (
        (TuningState(), ("", 0.0)),
        (replace(SEARCHING, phase=Phase.STARTING), ("6 trials", 0.0)),
        (replace(under_way, current=OFF), ("prompt 6 of 8", 0.75)),
        (RECORDING, ("step 7 of 28", 0.25)),
        (
            replace(RECORDING, looked=LOOKED),
            ("further prompts, step 7 of 28", 0.25),
        ),
        (PREDICTED, ("4 settings replayed", 1.0)),
        (confirming, ("prompt 4 of at most 16", 0.25)),
        # Where nothing can be forecast.
        (replace(under_way, current=arm()), ("trial 6, prompt 6 of 8", 0.75)),
        (SEARCHING, ("6 trials", 1.0)),
    ):
        assert views.progress(state, digest(state)) == said
    # Interrupted trials do not count as done.
    stopped = replace(RECORDS[1], state=TrialState.INTERRUPTED)
    assert digest(TuningState(records=(RECORDS[0], stopped))).n_tried == 1
    assert views.headline(TuningState(study="s"), Ledger()) == "study s"
    assert "up to 1 min 30 s left" in views.headline(SEARCHING, Ledger())
    assert "up to 1 min 30 s left •" in views.headline(SEARCHING, Ledger(), 12)
    assert "left" not in views.headline(USE_IT, Ledger())
    assert views.headline(TuningState(phase=Phase.STARTING), Ledger(), 72) == "1 min 12 s"


def test_the_verdict_or_how_far_it_is_known() -> None:
    why = "no setting was confirmed (no candidate could run)"
    unconfirmed = f"{why}; best so far: {BEST} (1.40×); Start goes on from here"
    worth = f"{BEST} is worth +34 % ± 6 (95 % interval +28 % to +40 %, 8 prompts)."
    loses = f"best setting so far: {arm(2).label}"
    for state, advice, because, factor, pays in (
        (SEARCHING, "Best so far, not confirmed", BEST, 1.4, None),
        (USE_IT, "Use it", worth, 1.34, True),
        (replace(SEARCHING, records=RECORDS[:1]), "No speedup yet", "", None, None),
        (PREDICTED, "Best forecast, not confirmed", FORECASTS[0].arm.label, 1.45, None),
        (
            replace(PREDICTED, looked=LOOKED),
            *("So far, on 8 prompts", FORECASTS[0].arm.label, 1.1, None),
        ),
        (
            replace(PREDICTED, forecasts=FORECASTS[3:]),
            *("Nothing faster than off yet", loses, 0.9, None),
        ),
        (INTERRUPTED, "Nothing was decided", unconfirmed, None, None),
    ):
        told = views.verdict(state, digest(state))
        assert (told.advice, told.because, told.pays) == (advice, because, pays)
        assert told.speedup == (None if factor is None else pytest.approx(factor))


async def test_at_every_size_what_matters_is_in_view() -> None:
    open_case = judge(speedup(1.1, 0.9, 1.2), min_gain=0.02, what=BEST, temp=0.8)
    undecided = tuned(speedup=speedup(1.1, 0.9, 1.2))
    undecided = replace(undecided, verdict=open_case, conditions=DISTURBED)
    lost = replace(tuned(), not_kept=", and ".join(["the disk is full"] * 40))
    broken = replace(SEARCHING, phase=Phase.FAILED, error="the GPU is gone")
    running = ("searching", "trial 6, prompt 2 of 8", "25 %", "1.40×", "tokens/s", "Stop", "Apply")
    cases = [
        (replace(SEARCHING, current=arm(), n_done=2, n_steps=8), running),
        (PREDICTED, ("4 settings replayed", "1.45×", "forecast", "tokens/s")),
        (USE_IT, ("finished", "Use it")),
        (TURN_OFF, ("finished", "Turn it off")),
        (broken, ("failed", "the GPU is gone", "1.40×")),
        (replace(USE_IT, result=lost), ("finished", "not kept the disk is full")),
        (replace(USE_IT, result=undecided), ("tokens/s",)),
    ]
    async with staged(Host()) as (app, stage):
        for size in [*SIZES, (60, 15)]:
            await stage.at(size)
            for state, expected in cases:
                await show(stage, state)
                assert size == (60, 15) or all(each in app.words() for each in expected), size
            # The whole verdict, and keys of the trials.
            box = app.tune.query_one(VerdictBox)
            assert box.max_scroll_y == 0
            # Long findings leave no gap above the table.
            status = app.tune.query_one(TuneStatus)
            parts = [part for part in status.children if part.display]
            assert status.region.height == sum(part.region.height for part in parts)
            assert app.tune.region.contains_region(box.region)


# The trials


def test_the_ledger_has_the_trials_and_what_no_trial_has_timed_the_best_first() -> None:
    records = (*RECORDS, *(replace(record, number=record.number + 10) for record in many(50)))
    ledger = digest(TuningState(records=records))
    assert len(ledger.rows) == len(records)
    speedups = [row.speedup for row in ledger.rows[1:] if row.speedup is not None]
    assert speedups == sorted(speedups, reverse=True)
    assert not ledger.rows[-1].is_known
    assert ledger.best is not None
    assert ledger.best.arm == best_arm(records)
    # The best forecast of each length.
    first, losing = FORECASTS[0].arm, FORECASTS[3].arm
    off = (OFF, "trial 0", 1.0)
    best, neighbour, second, last = ((one.arm, "forecast", one.speedup) for one in FORECASTS)
    stopped = TrialRecord(number=1, state=TrialState.INTERRUPTED, arm=first)
    tried = (RECORDS[0], failed(1, "no", first), trial(2, losing, 0.8))
    assert USE_IT.result is not None
    raced = replace(USE_IT.result.finalists[0], arm=losing)
    slower = replace(USE_IT.result, best=losing, finalists=(raced,))
    for state, rows, favourite in (
        (PREDICTED, (best, second, off, last), first),
        # What is raced has the last look's speedup, and what was raced the race's.
        (replace(PREDICTED, looked=LOOKED), ((first, "raced", 1.1), second, off, last), first),
        (DECIDED, ((first, "raced", 1.37), second, off, last), first),
        # A trial takes the place of a forecast, but for one that was stopped.
        (
            replace(PREDICTED, records=tried),
            (neighbour, second, off, (losing, "trial 2", 0.8), (first, "failed", None)),
            FORECASTS[1].arm,
        ),
        (
            replace(PREDICTED, records=(RECORDS[0], stopped)),
            (best, second, off, last, (first, "interrupted", None)),
            first,
        ),
        # What was confirmed is the best although a trial was faster.
        (
            replace(USE_IT, records=(RECORDS[0], trial(1, first), *tried[2:]), result=slower),
            ((losing, "trial 2", 0.8), off, (first, "trial 1", 1.0)),
            losing,
        ),
    ):
        ledger = digest(state)
        assert [(row.arm, row.origin, row.speedup) for row in ledger.rows] == list(rows)
        assert not any(row.detail.startswith("Its gain") for row in ledger.rows)
        assert ledger.best is not None
        assert ledger.best.arm == favourite


def test_the_best_forecast_says_why_it_is_below_a_higher_one() -> None:
    # All of a gain of 2.0 is that of one answer of six.
    each = np.ones((6, 1))
    lucky = Answers(each, each, each, each, np.array([[7.0], *[[1.0]] * 5]))
    steady, higher = FORECASTS[0], replace(FORECASTS[2], speedup=2.0, answers=lucky)
    ledger = digest(replace(PREDICTED, forecasts=(higher, steady)))
    assert [row.arm for row in ledger.rows[:2]] == [steady.arm, higher.arm]
    assert [bool(row.detail) for row in ledger.rows[:2]] == [True, False]


async def test_the_table_has_numbers_first_and_says_where_they_are_from() -> None:
    async with staged(Host(SEARCHING), (80, 24)) as (app, stage):
        rows = [" ".join(line.split()) for line in app.text().splitlines()]
        assert f"1.40× 14.0 70 % trial 3, best {BEST}" in rows
        assert "1.00× 10.0 – trial 0 off" in rows
        # An error in full, where the cursor is.
        assert "the draft does not fit" not in app.text()
        assert "the draft does not fit" in await stage.press("end")


async def test_the_selected_row_stays_selected_and_the_top_stays_the_top() -> None:
    records = many(60)
    async with staged(Host(replace(SEARCHING, records=records[:50])), (120, 40)) as (app, stage):
        assert app.table.selected == digest(TuningState(records=records[:50])).rows[0]
        await stage.press("down", "down")
        held = app.table.selected
        assert held is not None
        await show(stage, replace(SEARCHING, records=records))
        assert app.table.selected is not None
        assert app.table.selected.arm == held.arm
        await stage.press("home")
        fast = trial(60, arm(16, 0.1, draft="fast"), 9.0)
        await show(stage, replace(SEARCHING, records=(*records, fast)))
        assert app.table.selected is not None
        assert app.table.selected.arm == fast.arm


async def test_a_state_may_come_before_the_screen_is_shown() -> None:
    app = Host()
    app.tune.show(SEARCHING)
    async with staged(app) as (_, stage):
        assert "6 trials" in app.text()
        # That the chat has the engine is shown at once.
        for is_busy in (True, False):
            app.tune.chat_is_busy = is_busy
            assert ("held back by the chat" in await stage.idle()) is is_busy


def forecast(longest: int, p_min: float, speedup: float) -> Forecast:
    return forecast_of(arm(longest, p_min), speedup)


def best_arm(records: Sequence[TrialRecord]) -> Arm | None:
    best = best_trial(records)
    return None if best is None else best.arm
