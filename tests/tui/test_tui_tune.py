"""The tune screen: driven by states and keys, seen as text, heard by a controller."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import cast

import pytest
from textual.widgets import Input

from spectui.engine.events import GenerationResult
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import Divergence, LosslessCheck
from spectui.measure.measurer import Pair
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import judge, undecided
from spectui.monitor.readings import Reading
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.tui.tune import words
from spectui.tui.tune.controller import TuneController
from spectui.tui.tune.form import PromptSource, TuneSetup, Wanted
from spectui.tui.tune.ledger import Choice, Ledger, best_choice, digest
from spectui.tui.tune.map import Heatmap, Landscape, Source, landscape, searched
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.tune.status import VerdictBox
from spectui.tui.tune.table import COLUMNS, TRIAL, TrialsTable
from spectui.tui.widgets import ChoiceRow
from spectui.tune.forecast import Forecast
from spectui.tune.pace import Spent
from spectui.tune.progress import Phase, TuningState
from spectui.tune.race import Standing
from spectui.tune.result import Conditions, TuneResult
from spectui.tune.space import P_MINS
from spectui.tune.trials import PromptScore, TrialRecord, TrialState, best_trial
from tests.support import cockpit
from tests.support.cockpit import Stage, staged
from tests.support.machine import DISTURBED
from tests.support.search import items, result

SIZES = [(80, 24), (120, 40), (200, 60)]


def arm(longest: int = 4, p_min: float = 0.0, *, shortest: int = 0, draft: str = "good") -> Arm:
    speculation = Speculation(DraftSimple(draft_max=longest, draft_min=shortest, draft_p_min=p_min))
    return Arm(draft=draft, speculation=speculation)


def trial(
    number: int, tried: Arm = OFF, speedup: float = 1.0, *, rate: float = 0.5, is_old: bool = False
) -> TrialRecord:
    """A measured trial; off is given a speedup of 1."""
    drafted, seconds = 0 if tried == OFF else 100, 100 / (10 * speedup)
    counts = {"n_drafted": drafted, "n_accepted": round(drafted * rate), "n_rounds": 40}
    score = PromptScore(prompt_id="p", category="c", n_tokens=100, decode_s=seconds, **counts)
    measured = TrialRecord(number=number, state=TrialState.COMPLETE, arm=tried, prompts=(score,))
    return replace(measured, speedup=speedup, is_old=is_old)


def failed(number: int, error: str, tried: Arm | None = None) -> TrialRecord:
    return TrialRecord(number=number, state=TrialState.FAIL, arm=tried or arm(), error=error)


RECORDS = (
    trial(0),
    trial(1, arm(3), 1.2, rate=0.9),
    trial(2, arm(16, 0.75), 0.8, rate=0.3),
    trial(3, arm(6, 0.4, shortest=1), 1.4, rate=0.7),
    failed(4, "the draft does not fit"),
    trial(5, arm(6, 0.4), 1.3, rate=0.6, is_old=True),
)
BEST = "good: max 6, min 1, p_min 0.40"
SEARCHING = TuningState(phase=Phase.SEARCHING, study="study-1", records=RECORDS, seconds_left=90.0)

FORECASTS = tuple(
    Forecast(arm=one, speedup=speedup, n_drafted=100, n_accepted=n_accepted)
    for one, speedup, n_accepted in (
        (arm(5, 0.3), 1.45, 70),
        (arm(5, 0.35), 1.44, 71),
        (arm(8), 1.2, 55),
        (arm(2), 0.9, 90),
    )
)
"""Best first: two neighbours, of which one is in the table, another length, and one that loses."""
PREDICTED = replace(SEARCHING, records=RECORDS[:1], forecasts=FORECASTS)


def many(n: int) -> tuple[TrialRecord, ...]:
    """Off and random settings."""
    pick = random.Random(0)  # noqa: S311 - settings, no secrets
    tried = [arm(pick.randint(1, 16), round(pick.randint(0, 19) * 0.05, 2)) for _ in range(n - 1)]
    return (
        trial(0),
        *(trial(i + 1, a, 1 + pick.random(), rate=pick.random()) for i, a in enumerate(tried)),
    )


def tuned(
    records: Sequence[TrialRecord] = RECORDS,
    speedup: Speedup | None = None,
    *,
    lossless: LosslessCheck | None = None,
    interrupted: bool = False,
) -> TuneResult:
    done: GenerationResult = result(10.0)
    pair = Pair(item=items(1)[0], baseline=done, speculative=done)
    best = best_trial(records)
    return TuneResult(
        trials=tuple(records),
        best=None if best is None else best.arm,
        pairs=(pair,) if speedup else (),
        speedup=speedup,
        verdict=judge(speedup, min_gain=0.02, what=best.arm.label if best else "")
        if speedup
        else undecided("no candidate could run"),
        lossless=lossless,
        interrupted=interrupted,
        error=None,
        spent=Spent(budget_s=None, took_s=60.0, n_trials=1, n_tried=1, ended_trials=False),
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
        finalists=(Standing(arm=FORECASTS[0].arm, speedup=RACED, n_pairs=8),),
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


class Host(cockpit.Host):
    """The screen in a state."""

    def __init__(self, state: TuningState | None = None) -> None:
        super().__init__()
        self.tune = self.opened = TuneScreen(cast("TuneController", self.controller), state)

    @property
    def table(self) -> TrialsTable:
        return self.tune.query_one(TrialsTable)

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
        assert shown.index("minutes") < shown.index("The chat has priority")
        assert "Press Enter to start" in shown
        app.tune.missing = "Choose a target and a draft first (F7)"
        assert "Choose a target and a draft first (F7)." in await stage.idle()
        assert "to start" not in app.text()
        app.tune.missing = None
        app.settings = Settings(keys={"tune.begin": "f5"})
        app.set_keymap(app.settings.keys)
        assert "Press F5 to start;" in await show(stage, TuningState())
        await stage.press("f5")
        assert app.take() == [("start", Wanted())]
        # A digit is meant for the minutes, wherever the form begins.
        await stage.at((120, 40))
        assert "at most; the verdict is then of what was measured" in await stage.press("1", "8")
        assert app.tune.query_one(TuneSetup).filled.minutes == "18"
        # Where there is no time for a verdict it is said.
        await stage.press("home", "delete")
        app.tune.text_s = 125.0
        few = "too few for a verdict, which takes some 8 min 20 s here"
        assert few in await stage.idle()
        assert "at most; the verdict" in await stage.press("backspace", "9")


WRONG = {
    "minutes": (("0", "-3", "nan", "inf", "1e9", "soon"), "Minutes must be"),
}


async def test_what_the_form_asks_for_is_what_was_filled_in() -> None:
    async with staged(Host()) as (app, stage):
        for name, (values, reason) in WRONG.items():
            before = app.field(name).value
            for value in values:
                app.field(name).value = value
                assert reason in await stage.press("s"), (name, value)
            app.field(name).value = before
        assert app.take() == []
        for field in ("#sources", "#minutes", None):
            app.tune.set_focus(None if field is None else app.tune.query_one(field))
            assert "enter Start" in await stage.idle()
            # A letter would be typed into a field: no key of the footer is one.
            assert ("p Prompts" in app.text()) is not isinstance(app.tune.focused, Input)
            await stage.press("enter")
            assert app.take() == [("start", Wanted())]
        app.field("minutes").value = "7.5"
        await stage.press("s")
        assert app.take() == [("start", Wanted(time_budget_s=450.0))]
        # Back leaves a field, then the screen.
        app.field("minutes").focus()
        await stage.press("escape")
        assert not isinstance(app.tune.focused, Input)
        assert app.screen is app.tune
        await stage.press("escape")
        assert app.screen is not app.tune


async def test_a_source_is_chosen_with_its_key_with_arrows_and_with_the_mouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text("Say something.")
    files, chats = PromptSource.FILES, PromptSource.CHATS
    async with staged(Host()) as (app, stage):
        setup, path = app.tune.query_one(TuneSetup), app.field("path")
        choice = setup.sources
        assert not path.region
        found = [setup.source]
        # In the box of the path, letters are the path's, and arrows leave it where it is empty.
        for key in ("p", "right", "p", "right", "left", "right"):
            await stage.press(key)
            found.append(setup.source)
        assert found == [*PromptSource, PromptSource.BUILTIN, chats, PromptSource.BUILTIN]
        await stage.press("p", "x", "left", "y")
        assert path.value == "yx"
        await stage.press("right", "delete", "backspace", "backspace", "left")
        assert setup.source is PromptSource.BUILTIN
        assert choice.has_focus
        for source in PromptSource:
            await stage.click(ChoiceRow, str(choice.render()).index(source))
            assert setup.source is source
        # A chat without turns cannot be tuned on.
        app.tune.n_chat_turns = 0
        choice.index = [*PromptSource].index(PromptSource.CHAT)
        assert "no turns yet" in await stage.press("s")
        assert app.take() == []
        app.tune.n_chat_turns = 1
        await stage.press("s")
        assert app.take() == [("start", Wanted(source=PromptSource.CHAT))]
        # Files need a path.
        await stage.press("p")
        for typed, problem in (
            ("", "Which files?"),
            ("nothing", "nothing at this path"),
            ("~nobody-has-this-name/\0" + "x" * 5000, "nothing at this path"),
        ):
            path.value = typed
            assert problem in await stage.press("enter")
        path.value = ""
        assert "nothing at this path" not in await stage.press(*"p.txt", "enter")
        assert app.take() == [("start", Wanted(source=chats, path=Path("p.txt")))]
        choice.index = [*PromptSource].index(files)
        await stage.press("enter")
        assert app.take() == [("start", Wanted(source=files, path=Path("p.txt")))]


async def test_after_a_search_start_first_shows_what_would_be_started() -> None:
    async with staged(Host(USE_IT)) as (app, stage):
        assert not app.asks()
        await stage.press("s")
        assert app.asks()
        assert app.take() == []
        # What is refused is said in the form until it is corrected.
        await stage.press("right")
        app.tune.ask("mine.txt:1: the prompt is empty.")
        assert "mine.txt:1: the prompt is empty." in await stage.idle()
        assert "the prompt is empty" not in await stage.press("x")
        await stage.press("backspace", "left", "s")
        assert not app.asks()
        assert len(app.take()) == 1
        assert app.notices == []


# Steering


PAUSED = replace(SEARCHING, paused=True)
CONFIRMING = replace(SEARCHING, phase=Phase.CONFIRMING)
INTERRUPTED = replace(USE_IT, result=tuned(interrupted=True))
FOOTERS = [
    (TuningState(), {"Start", "Prompts"}),
    (TuningState(phase=Phase.STARTING), {"Pause", "Stop", "Apply"}),
    (SEARCHING, {"Pause", "Stop", "Apply", "Export", "Sort"}),
    (PAUSED, {"Resume", "Stop", "Apply", "Export", "Sort"}),
    (replace(SEARCHING, phase=Phase.STOPPING), {"Apply", "Export", "Sort"}),
    (USE_IT, {"Start", "Apply", "Export", "Prompts", "Sort"}),
    (TuningState(phase=Phase.FAILED, error="no room"), {"Start", "Prompts"}),
]
STEERING = set[str]().union(*(possible for _state, possible in FOOTERS)) | {"Apply row"}


async def test_keys_and_the_footer_have_what_makes_sense() -> None:
    async with staged(Host()) as (app, stage):
        for state, possible in FOOTERS:
            await show(stage, state)
            assert STEERING.intersection(app.footer()) == possible, state.phase
        for key, wish, *states in (
            ("space", "toggle_pause", SEARCHING, PAUSED, CONFIRMING),
            ("x", "stop", SEARCHING),
            ("e", "export", SEARCHING, USE_IT),
        ):
            for state in states:
                await show(stage, state)
                await stage.press(key)
                assert app.take() == [(wish,)]


UNHEARD = Reading(None, "no sensor")


async def test_the_facts_of_a_verdict_stand_below_it() -> None:
    assert USE_IT.result is not None
    met = Conditions(temperatures_c=(UNHEARD, UNHEARD), disturbance=DISTURBED)
    told = replace(USE_IT.result, conditions=met)
    async with staged(Host(), (160, 40)) as (app, stage):
        await show(stage, replace(USE_IT, result=told))
        for expected in (
            "another process (cc1plus) took 40 % of a core for 31 s",
            "the machine slept for 12 min 00 s",
        ):
            assert expected in app.words()
        # Reasons are told where there is room.
        for height, n_told in ((40, 1), (24, 0)):
            await stage.at((120, height))
            await show(stage, SEARCHING)
            shown = await show(stage, USE_IT)
            assert shown.count("Not explained: nothing was drafted") == n_told
            assert shown.count("Use it") == 1
        # Facts that do not fit are reached with keys.
        await show(stage, replace(USE_IT, result=told))
        await stage.at((60, 15))
        await stage.press("shift+tab", "shift+tab", "end")
        assert "slept" in app.words()


# Applying


async def test_what_is_applied_and_what_is_said_of_it() -> None:
    best = RECORDS[3].arm
    cases = [
        (USE_IT, ("a",), best, "confirmed best"),
        (TURN_OFF, ("a",), OFF, "Speculation is turned off. Turn it off:"),
        (INTERRUPTED, ("a",), best, "not confirmed yet"),
        (SEARCHING, ("a",), best, "not confirmed yet"),
        (replace(SEARCHING, records=RECORDS[:3:2]), ("a",), OFF, "no setting is faster"),
        (PREDICTED, ("a",), FORECASTS[0].arm, "not confirmed yet"),
        (DECIDED, ("a",), FORECASTS[0].arm, "confirmed best"),
        # The selected row, against the verdict; and the row of off.
        (TURN_OFF, ("end", "up", "enter"), RECORDS[1].arm, "trial 1"),
        (PREDICTED, ("end", "up", "enter"), FORECASTS[2].arm, "as forecast"),
        (DECIDED, ("home", "down", "enter"), FORECASTS[0].arm, "as raced"),
        (SEARCHING, ("end", "enter"), OFF, "turned off"),
    ]
    async with staged(Host(replace(SEARCHING, records=RECORDS[:1]))) as (app, stage):
        # Dimmed until something is known.
        assert app.tune.check_action("apply", ()) is None
        await stage.press("a")
        assert app.notices == []
        for state, keys, expected, word in cases:
            app.clear_notifications()
            await show(stage, state)
            app.table.focus()
            await stage.press(*keys)
            assert app.take() == [("apply", expected)], (keys, word)
            (notice,) = app.notices
            assert word in notice
        # A failed trial cannot be applied.
        await stage.press("home", "down", "enter")
        assert "Apply row" not in app.footer()
        assert app.take() == []
        await stage.press("down")
        assert "Apply row" in app.footer()


def chosen(state: TuningState) -> Choice | None:
    return best_choice(state, digest(state))


def test_nothing_is_chosen_before_a_setting_is_known() -> None:
    for records in ((), RECORDS[:1], (failed(0, "no"),)):
        assert chosen(TuningState(records=records)) is None
    assert chosen(replace(USE_IT, records=(), result=tuned((), interrupted=True))) is None


# What the head says


RECORDING = TuningState(phase=Phase.RECORDING, n_done=7, n_steps=28)


def test_the_phase_progress_and_the_time_left_in_words() -> None:
    for state, *expected in (
        # Without and with a turn of the chat.
        (TuningState(), "not started", "not started"),
        (TuningState(phase=Phase.STARTING), "starting", "held back by the chat"),
        (RECORDING, "recording", "held back by the chat"),
        (replace(RECORDING, paused=True), "paused while recording", "paused while recording"),
        (replace(SEARCHING, current=OFF), "measuring the target alone", "held back by the chat"),
        (SEARCHING, "searching", "held back by the chat"),
        (PAUSED, "paused while searching", "paused while searching"),
        (CONFIRMING, "confirming", "held back by the chat"),
        (replace(SEARCHING, phase=Phase.STOPPING), "stopping", "stopping"),
        (USE_IT, "finished", "finished"),
        (INTERRUPTED, "stopped early", "stopped early"),
        (TuningState(phase=Phase.FAILED, error="no"), "failed", "failed"),
    ):
        assert [words.phase(state, chat_is_busy=busy) for busy in (False, True)] == expected
    confirming = replace(CONFIRMING, n_done=4, n_steps=16)
    under_way = replace(SEARCHING, n_done=6, n_steps=8)
    for state, said in (
        (TuningState(), ("", 0.0)),
        (replace(SEARCHING, phase=Phase.STARTING), ("6 trials", 0.0)),
        (replace(under_way, current=OFF), ("prompt 6 of 8", 0.75)),
        (RECORDING, ("step 7 of 28, to replay every setting", 0.25)),
        (PREDICTED, ("4 settings replayed", 1.0)),
        (confirming, ("prompt 4 of at most 16", 0.25)),
        # Where nothing can be forecast.
        (replace(under_way, current=arm()), ("trial 6, prompt 6 of 8", 0.75)),
        (SEARCHING, ("6 trials", 1.0)),
    ):
        assert words.progress(state, digest(state)) == said
    # Interrupted trials do not count as done.
    stopped = replace(RECORDS[1], state=TrialState.INTERRUPTED)
    assert digest(TuningState(records=(RECORDS[0], stopped))).n_tried == 1
    assert words.headline(TuningState(study="s"), Ledger()) == "study s"
    assert "up to 1 min 30 s left" in words.headline(SEARCHING, Ledger())
    assert "left" not in words.headline(USE_IT, Ledger())


def test_the_verdict_or_how_far_it_is_known() -> None:
    unconfirmed = f"no setting was confirmed; best so far: {BEST}; Start goes on from here"
    worth = f"{BEST} is worth +34 % ± 6 (95 % interval +28 % to +40 %, 8 prompts)."
    loses = f"best setting so far: {arm(2).label}"
    for state, advice, because, factor, pays in (
        (SEARCHING, "Best so far, not confirmed", BEST, 1.4, None),
        (USE_IT, "Use it", worth, 1.34, True),
        (replace(SEARCHING, records=RECORDS[:1]), "No speedup yet", "", None, None),
        (PREDICTED, "Best forecast, not confirmed", FORECASTS[0].arm.label, 1.45, None),
        (
            replace(PREDICTED, forecasts=FORECASTS[3:]),
            *("Nothing faster than off yet", loses, 0.9, None),
        ),
        (INTERRUPTED, "Nothing was decided", unconfirmed, 1.4, None),
    ):
        told = words.verdict(state, digest(state))
        assert (told.advice, told.because, told.pays) == (advice, because, pays)
        assert told.speedup == (None if factor is None else pytest.approx(factor))


def test_whether_the_output_was_lossless() -> None:
    gain, where = speedup(1.3, 1.2, 1.4), "at token 3 of prompt p"
    likely = Divergence(prompt_id="p", position=3, margin=0.01, noise=0.01)
    unlikely = f"▲ differs from the target's {where}; rounding does not explain it"
    for check, expected in (
        (None, "not checked"),
        (LosslessCheck(divergence=None), "equal to the target's on every prompt"),
        (
            LosslessCheck(divergence=likely),
            f"equal but for rounding (two tokens as likely {where})",
        ),
        (LosslessCheck(divergence=replace(likely, margin=1.0)), unlikely),
    ):
        assert words.lossless(tuned(speedup=gain, lossless=check)) == expected
    # Without a confirmation it is no matter.
    assert words.lossless(tuned(interrupted=True)) is None


async def test_at_every_size_what_matters_is_in_view() -> None:
    open_case = judge(speedup(1.1, 0.9, 1.2), min_gain=0.02, what=BEST, temp=0.8)
    met = Conditions(temperatures_c=(UNHEARD, UNHEARD), disturbance=DISTURBED)
    undecided = replace(tuned(speedup=speedup(1.1, 0.9, 1.2)), verdict=open_case, conditions=met)
    lost = replace(tuned(), not_kept="the disk is full")
    broken = replace(SEARCHING, phase=Phase.FAILED, error="the GPU is gone")
    running = ("searching", "trial 6, prompt 2 of 8", "25%", "1.40×", "tokens/s", "Pause", "Apply")
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
            assert app.tune.region.contains_region(box.region)


# The trials


def test_the_ledger_has_the_trials_and_behind_them_what_no_trial_has_timed() -> None:
    records = (*RECORDS, *(replace(record, number=record.number + 10) for record in many(50)))
    ledger = digest(TuningState(records=records))
    assert [row.record for row in ledger.rows] == list(records)
    assert [row.speedup for row in ledger.rows] == [one.speedup for one in records]
    assert ledger.best is not None
    assert ledger.best.record is best_trial(records)
    # The best forecast of each length, the best first.
    first, losing = FORECASTS[0].arm, FORECASTS[3].arm
    off = (0, OFF, "done", 1.0)
    best, neighbour, second, last = ((None, one.arm, "forecast", one.speedup) for one in FORECASTS)
    stopped = TrialRecord(number=1, state=TrialState.INTERRUPTED, arm=first)
    tried = (RECORDS[0], failed(1, "no", first), trial(2, losing, 0.8))
    assert USE_IT.result is not None
    slower = replace(USE_IT.result, best=losing)
    for state, rows, favourite in (
        (PREDICTED, (off, best, second, last), first),
        # What was raced has the race's speedup.
        (DECIDED, (off, (None, first, "raced", 1.37), second, last), first),
        # A trial takes the place of a forecast, but for one that was stopped.
        (
            replace(PREDICTED, records=tried),
            (off, (1, first, "failed", None), (2, losing, "done", 0.8), neighbour, second),
            FORECASTS[1].arm,
        ),
        (
            replace(PREDICTED, records=(RECORDS[0], stopped)),
            (off, (1, first, "interrupted", None), best, second, last),
            first,
        ),
        # What was confirmed is the best although a trial was faster.
        (
            replace(USE_IT, records=(RECORDS[0], trial(1, first), *tried[2:]), result=slower),
            (off, (1, first, "done", 1.0), (2, losing, "done", 0.8)),
            losing,
        ),
    ):
        ledger = digest(state)
        told = [(row.number, row.arm, row.state, row.speedup) for row in ledger.rows]
        assert told == list(rows)
        assert ledger.best is not None
        assert ledger.best.arm == favourite


async def test_trials_are_sorted_and_chosen_with_keys_and_with_the_mouse() -> None:
    async with staged(Host(SEARCHING)) as (app, stage):
        # States in words.
        rows = [line for line in app.text().splitlines() if line[2:9].strip(" •").isdecimal()]
        told = {int(row[2:9].strip(" •")): row.rstrip(" │") for row in rows[: len(RECORDS)]}
        words_of = {number: told[number].split()[-1] for number in (0, 3, 4, 5)}
        assert words_of == {0: "done", 3: "best", 4: "failed", 5: "way"}
        assert "•" in told[3]
        assert "↓trial" in app.text()
        assert "↑trial" in await stage.press("r")
        assert "↑draft_max" in await stage.press("r", "o")
        for column in [*COLUMNS[2:], TRIAL]:
            await stage.press("o")
            assert app.table.column is column
        before = app.table.order
        await stage.press("r")
        assert app.table.order == before[::-1]
        columns = {column.title: column for column in COLUMNS}
        for title, descending, order in (
            ("draft_max", False, (1, 4, 3, 5, 2, 0)),
            ("draft_min", True, (3, 1, 2, 4, 5, 0)),
            ("draft", False, (1, 2, 3, 4, 5, 0)),
            ("speedup", True, (3, 5, 1, 0, 2, 4)),
            ("speedup", False, (2, 0, 1, 5, 3, 4)),
            ("acceptance", True, (1, 3, 5, 2, 0, 4)),
            ("state", False, (0, 1, 2, 3, 4, 5)),
        ):
            app.table.sort_by(columns[title], descending=descending)
            assert app.table.order == order, (title, descending)
        for column in COLUMNS:
            ends = accumulate(one.get_render_width(app.table) for one in app.table.ordered_columns)
            x = [*ends][COLUMNS.index(column)] - 2
            await stage.click(TrialsTable, x)
            assert app.table.column is column
            first = app.table.descending
            await stage.click(TrialsTable, x)
            assert app.table.column is column
            assert app.table.descending is not first
        app.table.sort_by(TRIAL, descending=True)
        # The selected trial in full.
        expected = "trial 5, good: max 6, min 0, p_min 0.40: 13.0 tokens/s, 1.30× of off"
        assert expected in await stage.press("home")
        expected = "trial 4, good: max 4, min 0, p_min 0.00: failed: the draft does not fit"
        assert expected in await stage.press("down")
        # A click below the rows selects none.
        for y in (3, 12):
            await stage.click(TrialsTable, 5, y)
            assert app.table.selected is not None
            assert app.table.selected.number == 3


async def test_the_selected_row_stays_selected_and_in_view() -> None:
    records = many(60)
    async with staged(Host(replace(SEARCHING, records=records[:50])), (120, 40)) as (app, stage):

        async def selected(*keys: str) -> int:
            await stage.press(*keys)
            assert app.table.selected is not None
            return app.table.selected.number or 0

        assert [await selected(key) for key in ("down", "down", "up", "up")] == [49, 48, 49, 49]
        assert [await selected(key) for key in ("end", "down")] == [0, 0]
        assert app.table.scroll_y == app.table.max_scroll_y
        assert 0 < await selected("pageup") < app.table.size.height
        assert await selected("home") == 49
        assert app.table.scroll_y == 0
        await show(stage, replace(SEARCHING, records=records))
        assert app.table.order[:11] == tuple(range(59, 48, -1))
        for column in COLUMNS:
            app.table.sort_by(column, descending=True)
            assert await selected() == 49
            assert 0 <= app.table.order.index(49) - app.table.scroll_y < app.table.size.height - 1
        # A forecast stays selected when it has been raced.
        app.table.sort_by(TRIAL, descending=True)
        await show(stage, PREDICTED)
        forecast = f"forecast, {FORECASTS[0].arm.label}: 1.45× of off, acceptance 70%"
        assert forecast in await stage.press("home", "down")
        raced = f"raced, {FORECASTS[0].arm.label}: 1.37× of off, acceptance 70%"
        assert raced in await show(stage, DECIDED)
        lines = [line.split() for line in app.text().splitlines()]
        assert ["1.37×", "70%", "best,", "raced"] in [line[-5:-1] for line in lines]
        assert app.table.order == (0, *(one.arm for one in (FORECASTS[0], *FORECASTS[2:])))


# Map


def forecast(longest: int, p_min: float, speedup: float) -> Forecast:
    return Forecast(arm=arm(longest, p_min), speedup=speedup, n_drafted=9, n_accepted=6)


def land_of(
    *records: TrialRecord, forecasts: Sequence[Forecast] = (), room: tuple[int, int] = (16, 20)
) -> Landscape:
    ledger = digest(TuningState(records=(trial(0), *records), forecasts=tuple(forecasts)))
    return landscape(tuple(searched(ledger)), max_columns=room[0], max_rows=room[1])


def rounded(land: Landscape) -> dict[tuple[int, int], tuple[Source, float]]:
    return {at: (cell.source, round(cell.value, 6)) for at, cell in land.cells.items()}


def test_the_map_has_the_best_of_each_place_and_what_was_measured_hides_what_was_replayed() -> None:
    other = trial(2, arm(4, 0.5, draft="other"), 1.4)
    land = land_of(trial(1, arm(4, 0.5), 1.2), other)
    assert rounded(land) == {(3, 5): (Source.BEST, 1.4)}
    assert land.best == (3, 5)
    assert (land.columns[3], land.rows[5]) == ("4", "0.50")
    assert (land.per_column, land.per_row) == (1, 1)
    every = [forecast(n, p_min, 1 + n / 100) for n in range(1, 17) for p_min in P_MINS]
    every.sort(key=lambda one: -one.speedup)
    land = land_of(trial(1, arm(2, 0.5), 0.9), trial(2, arm(8, 0.25), 1.1), forecasts=every)
    found = rounded(land)
    assert len(found) == 16 * 15
    assert found[1, 5] == (Source.MEASURED, 0.9)
    # A trial between two values is at the lower one.
    assert found[7, 0] == (Source.MEASURED, 1.1)
    assert found[14, 0] == (Source.REPLAYED, 1.15)
    assert land.best == (15, 0)
    assert found[15, 0] == (Source.BEST, 1.16)
    # What is longer than all that was replayed has no column.
    assert len(land_of(forecasts=(forecast(5, 0.0, 1.5), forecast(6, 0.0, 1.2))).columns) == 6
    # What was raced was measured.
    found = rounded(landscape(tuple(searched(digest(DECIDED))), max_columns=16, max_rows=20))
    assert (found[4, 1], found[7, 0]) == ((Source.BEST, 1.37), (Source.REPLAYED, 1.2))
    # What was not measured is empty.
    land = land_of(failed(1, "no"))
    assert (land.cells, land.best, land.low, land.high) == ({}, None, 1.0, 1.0)
    assert (len(land.columns), len(land.rows)) == (16, 15)
    # Cells are merged until they fit.
    records = [trial(i, arm(i, round(i * 0.05, 2)), i / 10) for i in range(1, 17)]
    for room in ((1, 1), (3, 4), (8, 10), (10, 7), (0, 0)):
        land = land_of(*records, room=room)
        assert 1 <= len(land.columns) <= max(1, room[0])
        assert 1 <= len(land.rows) <= max(1, room[1])
        assert all(0 <= x < len(land.columns) and 0 <= y < len(land.rows) for x, y in land.cells)


async def test_the_map_has_numbers_marks_and_a_legend() -> None:
    ngrams = Arm(draft=None, speculation=Speculation(NgramSimple()))
    without_draft = (trial(0), trial(1, arm(3), 1.2), trial(2, ngrams, 1.5))
    async with staged(Host(SEARCHING), (80, 24)) as (app, stage):
        await stage.press("2")
        # Without room for numbers it has shades.
        await stage.at((8, 30))
        heat = app.tune.query_one(Heatmap)
        text = "\n".join(heat.render_line(y).text for y in range(heat.size.height))
        assert "•" in text
        for size in SIZES:
            shown = await stage.at(size)
            for expected in (
                *("draft_p_min", "draft_max", "•1.40", "◆0.80"),
                "0.80× to 1.40× of off",
                "◆ measured",
            ):
                assert expected in shown
        shown = await show(stage, replace(SEARCHING, records=without_draft))
        assert "the best, ngram-simple, has no place here" in shown
        assert "not replayed yet" in await show(stage, replace(SEARCHING, records=RECORDS[:1]))


# Everywhere


async def test_views_are_tabs_where_room_is_short_and_side_by_side_elsewhere() -> None:
    app = Host()
    # A state may come before the screen is shown.
    app.tune.show(SEARCHING)

    def visible() -> list[str]:
        return [str(view.id) for view in app.tune.query(".view") if view.region]

    async with staged(app) as (_, stage):
        assert "6 trials" in app.text()
        # That the chat has the engine is shown at once.
        for is_busy in (True, False):
            app.tune.chat_is_busy = is_busy
            assert ("held back by the chat" in await stage.idle()) is is_busy
        assert visible() == ["settings", "map"]
        await stage.at((80, 24))
        assert visible() == ["settings"]
        for key, view in (("2", "map"), ("1", "settings")):
            await stage.press(key)
            assert visible() == [view]
        for size in ((200, 60), (30, 8), (200, 20), (120, 40)):
            await stage.at(size)
            assert "settings" in visible()
        assert visible() == ["settings", "map"]
