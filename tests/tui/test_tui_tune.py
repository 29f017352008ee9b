"""The tune screen: driven by states and keys, seen as text, heard by a controller."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from spectui.engine.events import GenerationResult
from spectui.known import Known
from spectui.live.setup import Pair as Files
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import Divergence, LosslessCheck
from spectui.measure.measurer import Pair
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import Verdict, judge
from spectui.monitor.readings import Reading
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.setup import GREEDY, SamplingConfig, Schedule
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.speculative.counters import Counters
from spectui.tui.colours import ColouredApp
from spectui.tui.export import export_choices
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.text.display import aligned
from spectui.tui.tune import table as lines
from spectui.tui.tune import words
from spectui.tui.tune.controller import PromptSource, TuneController
from spectui.tui.tune.form import SourceChoice, TuneSetup, Wanted
from spectui.tui.tune.ledger import Ledger, Row, best_choice, digest
from spectui.tui.tune.map import Cell, Heatmap, Source, landscape
from spectui.tui.tune.plots import HistoryPlot, _peaks, history
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.tune.status import VerdictBox
from spectui.tui.tune.table import COLUMNS, SPEEDUP, TRIAL, Slot, Sort, TrialsTable, layout, ordered
from spectui.tune.conditions import conditions
from spectui.tune.events import RaceDecided
from spectui.tune.forecast import Forecast
from spectui.tune.outcome import Gain
from spectui.tune.pace import Spent
from spectui.tune.progress import Phase, TuningState, advance
from spectui.tune.result import TuneResult
from spectui.tune.temperatures import Predicted
from spectui.tune.trials import (
    PromptScore,
    TrialRecord,
    TrialState,
    best_trial,
    off_level,
    speedup_estimate,
)
from tests.support.cockpit import Recorder, handled, launch, press_keys, resize
from tests.support.machine import DISTURBED
from tests.support.search import items, result
from tests.tune.test_outcome import OUTCOME_OFF

ANCHOR = 10.0
SIZES = [(80, 24), (120, 40), (200, 60)]


def arm(longest: int = 4, p_min: float = 0.0, *, shortest: int = 0, draft: str = "good") -> Arm:
    speculation = Speculation(DraftSimple(draft_max=longest, draft_min=shortest, draft_p_min=p_min))
    return Arm(draft=draft, speculation=speculation)


def trial(
    number: int, tried: Arm = OFF, speedup: float = 1.0, *, rate: float = 0.5, noisy: bool = False
) -> TrialRecord:
    """A measured trial; off is given a speedup of 1."""
    drafted = 0 if tried == OFF else 100
    score = PromptScore(
        prompt_id="p",
        category="c",
        n_tokens=100,
        decode_s=100 / (ANCHOR * speedup),
        n_drafted=drafted,
        n_accepted=round(drafted * rate),
        n_rounds=40,
    )
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=tried,
        prompts=(score,),
        anchor_tokens_per_s=ANCHOR,
        noisy=noisy,
    )


def failed(number: int, error: str, tried: Arm | None = None) -> TrialRecord:
    return TrialRecord(number=number, state=TrialState.FAIL, arm=tried or arm(), error=error)


RECORDS = (
    trial(0),
    trial(1, arm(3), 1.2, rate=0.9),
    trial(2, arm(16, 0.75), 0.8, rate=0.3),
    trial(3, arm(6, 0.4, shortest=1), 1.4, rate=0.7),
    failed(4, "the draft does not fit"),
    trial(5, arm(6, 0.4), 1.3, rate=0.6, noisy=True),
)
BEST = "good: max 6, min 1, p_min 0.40"
IMPORTANCE = (("draft_max", 0.6), ("draft_p_min", 0.4))
SEARCHING = TuningState(
    phase=Phase.SEARCHING, study="study-1", n_trials=20, records=RECORDS, seconds_left=90.0
)


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
        verdict=judge(speedup, min_gain=0.02, what=best.arm.label if best else ""),
        lossless=lossless,
        interrupted=interrupted,
        error=None,
        spent=Spent(
            budget_s=None,
            took_s=60.0,
            n_trials=50,
            n_tried=len(records),
            ended_trials=False,
        ),
    )


def speedup(estimate: float, low: float | None, high: float | None) -> Speedup:
    reason = None if low else "an interval needs 6 prompts"
    return Speedup(
        estimate=estimate, low=low, high=high, n_pairs=8, n_prompts=8, interval_reason=reason
    )


USE_IT = replace(
    SEARCHING,
    phase=Phase.FINISHED,
    result=tuned(speedup=speedup(1.34, 1.28, 1.4), lossless=LosslessCheck(divergence=None)),
)
TURN_OFF = replace(USE_IT, result=tuned(speedup=speedup(0.83, 0.79, 0.88)))


class Host(ColouredApp[None]):
    """An app over a controller that only hears."""

    ENABLE_COMMAND_PALETTE = False
    # Scroll bars are the app's, which draws them without its own characters in ASCII.
    CSS = "* { scrollbar-size: 0 0; }"

    def __init__(self, state: TuningState | None = None, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.settings = Settings()
        self.controller = Recorder()
        self.tune = TuneScreen(cast("TuneController", self.controller), state)

    def on_mount(self) -> None:
        self.push_screen(self.tune)

    @property
    def heard(self) -> list[tuple[object, ...]]:
        """What the screen has asked for."""
        return self.controller.heard

    @property
    def table(self) -> TrialsTable:
        return self.tune.query_one(TrialsTable)

    @property
    def notices(self) -> list[str]:
        return [notice.message for notice in self._notifications]

    def text(self) -> str:
        """What stands on the screen."""
        lines = self.tune._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in lines)

    def footer(self) -> list[str]:
        return [active.binding.description for active in self.tune.active_bindings.values()]


def drive(
    scenario: Callable[[Host, Pilot[None]], Awaitable[None]],
    state: TuningState | None = None,
    *,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
) -> Host:
    """Run ``scenario`` on the screen in ``state``."""

    async def run() -> Host:
        app = Host(state, glyphs)
        async with app.run_test(size=size) as pilot:
            await handled(pilot)
            await scenario(app, pilot)
        return app

    return asyncio.run(run())


def after(
    *keys: str,
    state: TuningState | None = None,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
) -> Host:
    """Press keys; ``text_after`` of the app is what the screen shows then."""

    async def press(_app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, *keys)

    return drive(press, state, size=size, glyphs=glyphs)


def seen(
    *keys: str,
    state: TuningState | None = None,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
) -> str:
    """What the screen shows after some keys."""
    shown = ""

    async def press(app: Host, pilot: Pilot[None]) -> None:
        nonlocal shown
        await press_keys(pilot, *keys)
        shown = app.text()

    drive(press, state, size=size, glyphs=glyphs)
    return shown


# The empty state and the form


def test_before_a_start_the_screen_says_what_tuning_does_and_how_to_start() -> None:
    shown = " ".join(seen(size=(80, 24)).split())
    assert "not started" in shown
    assert "The chat has priority" in shown
    assert shown.index("minutes") < shown.index("The chat has priority")
    assert "Press Enter to start" in shown


def test_without_a_pair_the_screen_says_how_to_get_one() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        app.tune.missing = "Choose a target and a draft first (F7)"
        await handled(pilot)
        shown = app.text()
        assert "Choose a target and a draft first (F7)." in shown
        assert "to start" not in shown
        app.tune.missing = None
        await handled(pilot)
        assert "Press Enter to start" in app.text()

    drive(look)


@pytest.mark.parametrize("field", ["SourceChoice", "#minutes", "#n-trials", "#depths", None])
def test_the_key_that_is_shown_starts_whatever_has_the_focus(field: str | None) -> None:
    async def start(app: Host, pilot: Pilot[None]) -> None:
        app.tune.set_focus(None if field is None else app.tune.query_one(field))
        await handled(pilot)
        assert "enter Start" in app.text()
        # A letter would be typed into a field: no key of the footer is one.
        assert ("p Prompts" in app.text()) is not isinstance(app.tune.focused, Input)
        await press_keys(pilot, "enter")

    assert drive(start).heard == [("start", Wanted())]


def test_the_start_key_on_screen_is_the_users() -> None:
    shown = ""

    async def rebind(app: Host, pilot: Pilot[None]) -> None:
        nonlocal shown
        app.settings = Settings(keys={"tune.begin": "f5"})
        app.set_keymap(app.settings.keys)
        app.tune.show(TuningState())
        await handled(pilot)
        shown = app.text()
        await press_keys(pilot, "f5")
        assert len(app.heard) == 1

    drive(rebind)
    assert "Press F5 to start;" in shown


def test_start_asks_for_the_built_in_prompts() -> None:
    assert after("s").heard == [("start", Wanted())]


def test_the_number_of_trials_is_what_was_typed() -> None:
    (message,) = after("n", "end", "backspace", "backspace", "4", "2", "enter").heard
    assert message == ("start", Wanted(n_trials=42))


@pytest.mark.parametrize("typed", ["", "0", "99999"])
def test_a_number_of_trials_that_cannot_be_is_refused(typed: str) -> None:
    async def submit(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "n", "end", "backspace", "backspace", *typed, "enter")
        assert app.heard == []
        assert "must be 1 to 10000" in app.text()

    drive(submit)


def test_the_source_key_goes_through_the_sources() -> None:
    async def cycle(app: Host, pilot: Pilot[None]) -> None:
        choice = app.tune.query_one(SourceChoice)
        found = [choice.source]
        # In the box of the path, letters are the path's.
        for key in ("p", "right", "p"):
            await press_keys(pilot, key)
            found.append(choice.source)
        assert found == [*PromptSource, PromptSource.BUILTIN]

    drive(cycle)


def test_a_path_can_be_typed_as_soon_as_files_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prompts = Path("p.txt")
    prompts.write_text("Say something.")

    async def fill(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "p", *str(prompts), "enter")
        assert not app.text().count("Which files?")

    assert drive(fill).heard == [("start", Wanted(source=PromptSource.FILES, path=prompts))]


def test_arrows_leave_an_empty_path_and_move_in_one_that_is_not() -> None:
    async def choose(app: Host, pilot: Pilot[None]) -> None:
        choice = app.tune.query_one(SourceChoice)
        await press_keys(pilot, "p", "x", "left", "y")
        assert app.tune.query_one("#path", Input).value == "yx"
        await press_keys(pilot, "right", "delete", "backspace", "backspace", "left")
        assert choice.source is PromptSource.BUILTIN
        assert choice.has_focus

    drive(choose)


def test_what_is_refused_is_said_in_the_form_until_it_is_corrected() -> None:
    async def refuse(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "s", "right")
        app.tune.ask("mine.txt:1: the prompt is empty.")
        await handled(pilot)
        assert "mine.txt:1: the prompt is empty." in app.text()
        await press_keys(pilot, "x")
        assert "the prompt is empty" not in app.text()
        assert app.tune.query_one("#path", Input).value == "x"
        assert app.notices == []

    drive(refuse, USE_IT)


def test_a_source_is_chosen_with_arrows_and_with_the_mouse() -> None:
    async def choose(app: Host, pilot: Pilot[None]) -> None:
        choice = app.tune.query_one(SourceChoice)
        await press_keys(pilot, "right")
        chosen = [choice.source]
        await press_keys(pilot, "left")
        assert [*chosen, choice.source] == [PromptSource.FILES, PromptSource.BUILTIN]
        for source in PromptSource:
            x = str(choice.render()).index(source)
            await pilot.click(SourceChoice, offset=(x, 0))
            await handled(pilot)
            assert choice.source is source

    drive(choose)


def test_files_need_a_path(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Say something.")

    async def fill(app: Host, pilot: Pilot[None]) -> None:
        path = app.tune.query_one("#path", Input)
        assert not path.region
        await press_keys(pilot, "p", "enter")
        assert "Which files?" in app.text()
        path.value = str(tmp_path / "nothing")
        await press_keys(pilot, "enter")
        assert "nothing at this path" in app.text()
        path.value = "~nobody-has-this-name/\0" + "x" * 5000
        await press_keys(pilot, "enter")
        assert app.heard == []
        path.value = str(prompts)
        path.focus()
        await press_keys(pilot, "enter")

    assert drive(fill).heard == [("start", Wanted(source=PromptSource.FILES, path=prompts))]


def test_depths_may_be_asked_for() -> None:
    async def fill(app: Host, pilot: Pilot[None]) -> None:
        app.tune.query_one("#depths", Input).value = "0, 4096 16384,0"
        await press_keys(pilot, "s")

    depths = (0, 4096, 16384)
    assert drive(fill).heard == [("start", Wanted(depths=depths))]


def test_the_minutes_limit_the_search() -> None:
    async def fill(app: Host, pilot: Pilot[None]) -> None:
        app.tune.query_one("#minutes", Input).value = "7.5"
        await press_keys(pilot, "s")

    assert drive(fill).heard == [("start", Wanted(time_budget_s=450.0))]


@pytest.mark.parametrize("wrong", ["0", "-3", "nan", "inf", "1e9", "soon"])
def test_minutes_that_cannot_be_are_refused(wrong: str) -> None:
    async def fill(app: Host, pilot: Pilot[None]) -> None:
        app.tune.query_one("#minutes", Input).value = wrong
        await press_keys(pilot, "s")
        assert "Minutes must be" in app.text()

    assert drive(fill).heard == []


@pytest.mark.parametrize("wrong", ["deep", "-1", "1.5", "\N{SUPERSCRIPT TWO}", "9" * 12])
def test_depths_that_are_none_are_refused(wrong: str) -> None:
    async def fill(app: Host, pilot: Pilot[None]) -> None:
        app.tune.query_one("#depths", Input).value = wrong
        await press_keys(pilot, "s")
        assert "Depths are numbers of tokens" in app.text()

    assert drive(fill).heard == []


def test_the_form_says_how_long_a_trial_may_take() -> None:
    async def learn(app: Host, pilot: Pilot[None]) -> None:
        assert "in all; earlier ones count" in app.text()
        app.tune.trial_s = 125.0
        await handled(pilot)
        assert "in all; some 2 min 05 s each here, 1 h 02 min together" in app.text()
        # A digit is meant for the minutes, wherever the form begins.
        await press_keys(pilot, "5")
        assert app.tune.query_one(TuneSetup).filled.minutes == "5"
        assert "too few for a verdict: a trial takes some 2 min 05 s here" in app.text()
        await press_keys(pilot, "0")
        assert "too few" not in app.text()

    drive(learn)


def test_a_chat_without_turns_cannot_be_tuned_on() -> None:
    async def choose(app: Host, pilot: Pilot[None]) -> None:
        app.tune.n_chat_turns = 0
        await press_keys(pilot, "left", "s")
        assert "no turns yet" in app.text()
        assert app.heard == []
        app.tune.n_chat_turns = 1
        await press_keys(pilot, "s")

    assert drive(choose).heard == [("start", Wanted(source=PromptSource.CHAT))]


def test_after_a_search_start_first_shows_what_would_be_started() -> None:
    async def start(app: Host, pilot: Pilot[None]) -> None:
        assert not app.tune.query_one(TuneSetup).display
        await press_keys(pilot, "s")
        assert app.tune.query_one(TuneSetup).display
        assert app.heard == []
        await press_keys(pilot, "s")
        assert not app.tune.query_one(TuneSetup).display

    assert len(drive(start, USE_IT).heard) == 1


def test_back_leaves_a_field_then_the_screen() -> None:
    async def leave(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "n", "escape")
        assert not isinstance(app.tune.focused, Input)
        assert app.screen is app.tune
        await press_keys(pilot, "escape")
        assert app.screen is not app.tune

    drive(leave)


# Steering


@pytest.mark.parametrize(
    ("state", "key", "wish"),
    [
        (SEARCHING, "space", "toggle_pause"),
        (replace(SEARCHING, paused=True), "space", "toggle_pause"),
        (replace(SEARCHING, phase=Phase.CONFIRMING), "space", "toggle_pause"),
        (SEARCHING, "x", "stop"),
        (SEARCHING, "e", "export"),
        (USE_IT, "e", "export"),
    ],
)
def test_a_key_reaches_the_controller(state: TuningState, key: str, wish: str) -> None:
    assert after(key, state=state).heard == [(wish,)]


@pytest.mark.parametrize(
    ("state", "possible"),
    [
        (TuningState(), {"Start", "Prompts", "Trials"}),
        (TuningState(phase=Phase.STARTING), {"Pause", "Stop", "Apply"}),
        (SEARCHING, {"Pause", "Stop", "Apply", "Export", "Sort"}),
        (replace(SEARCHING, paused=True), {"Resume", "Stop", "Apply", "Export", "Sort"}),
        (replace(SEARCHING, phase=Phase.STOPPING), {"Apply", "Export", "Sort"}),
        (USE_IT, {"Start", "Apply", "Export", "Prompts", "Trials", "Sort"}),
        (
            TuningState(phase=Phase.FAILED, error="no room"),
            {"Start", "Prompts", "Trials"},
        ),
    ],
)
def test_the_footer_has_what_makes_sense(state: TuningState, possible: set[str]) -> None:
    steering = {
        *("Start", "Pause", "Resume", "Stop", "Apply", "Apply row"),
        *("Export", "Prompts", "Trials", "Sort"),
    }

    async def read(app: Host, _pilot: Pilot[None]) -> None:
        assert steering.intersection(app.footer()) == possible

    drive(read, state)


@pytest.mark.parametrize(("height", "n_told"), [(40, 1), (24, 0)])
def test_reasons_are_told_where_there_is_room(height: int, n_told: int) -> None:
    assert USE_IT.result is not None
    state = replace(USE_IT, result=replace(USE_IT.result, expected_improvement=0.013))

    async def read(app: Host, _pilot: Pilot[None]) -> None:
        assert app.text().count("trials were enough: the best setting") == n_told
        assert app.text().count("Not explained: nothing was drafted") == n_told
        assert app.text().count("Use it") == 1

    drive(read, state, size=(120, height))


def test_a_race_that_was_decided_early_says_so() -> None:
    decided = advance(SEARCHING, RaceDecided(n_prompts=16, n_planned=40))
    state = replace(decided, phase=Phase.FINISHED, result=USE_IT.result)

    async def read(app: Host, _pilot: Pilot[None]) -> None:
        assert "decided after 16 of 40 prompts" in app.text()

    drive(read, state, size=(120, 40))


def test_what_disturbed_the_machine_stands_below_the_verdict() -> None:
    assert USE_IT.result is not None
    met = conditions((), Reading(None, "no sensor"), Reading(None, "no sensor"), DISTURBED)
    state = replace(USE_IT, result=replace(USE_IT.result, conditions=met))

    async def read(app: Host, _pilot: Pilot[None]) -> None:
        text = " ".join(app.text().split())
        assert "another process (cc1plus) took 40 % of a core for 31 s" in text
        assert "the machine slept for 12 min 00 s" in text

    drive(read, state, size=(160, 24))


def test_gains_at_other_temperatures_stand_below_the_verdict() -> None:
    assert USE_IT.result is not None
    greedy = Predicted(sampling=GREEDY, n_prompts=6, counters=Counters(), speedup=1.52)
    found = Known[tuple[Predicted, ...]](
        (greedy, replace(greedy, sampling=SamplingConfig(temp=1.0), speedup=0.9))
    )
    state = replace(USE_IT, result=replace(USE_IT.result, temperatures=found))

    async def read(app: Host, _pilot: Pilot[None]) -> None:
        text = " ".join(app.text().split())
        assert "would give about +52 % with greedy output, −10 % at temperature 1" in text

    drive(read, state, size=(160, 40))


def test_apply_is_dimmed_until_there_is_a_best() -> None:
    async def read(app: Host, pilot: Pilot[None]) -> None:
        assert app.tune.check_action("apply", ()) is None
        await press_keys(pilot, "a")
        assert app.heard == []
        app.tune.show(SEARCHING)
        await handled(pilot)
        assert app.tune.check_action("apply", ()) is True

    drive(read, replace(SEARCHING, records=RECORDS[:1]))


def test_a_best_that_is_only_predicted_is_not_applied_and_the_key_says_why() -> None:
    predicted = Forecast(arm=arm(4), speedup=1.4, n_drafted=100, n_accepted=70)
    state = replace(SEARCHING, records=(), forecasts=(predicted,))
    app = after("a", state=state)
    assert app.heard == []
    assert app.notices == [
        "There is nothing to apply yet: the best is only predicted, until it and off are measured."
    ]


def test_every_key_has_an_id_of_its_own_and_a_word() -> None:
    found = [binding for _, binding in TuneScreen(cast("TuneController", Recorder()))._bindings]
    own = [binding for binding in found if binding.id and binding.id.startswith("tune.")]
    assert len({binding.id for binding in own}) == len(own)
    assert {"start", "pause", "stop", "apply", "apply_selected", "source", "trials", "export"} <= {
        str(binding.id).removeprefix("tune.") for binding in own
    }
    assert all(binding.description for binding in own)
    assert all(binding.tooltip for binding in own if binding.show)


# Applying


def applied(*keys: str, state: TuningState) -> tuple[Arm, str]:
    app = after(*keys, state=state)
    ((wish, found),) = app.heard
    assert wish == "apply"
    assert isinstance(found, Arm)
    (notice,) = app.notices
    return found, notice


def test_the_confirmed_best_is_applied() -> None:
    found, notice = applied("a", state=USE_IT)
    assert found == RECORDS[3].arm
    assert "confirmed best" in notice


def test_a_verdict_against_speculation_applies_off_and_says_so() -> None:
    found, notice = applied("a", state=TURN_OFF)
    assert found == OFF
    assert notice.startswith("Speculation is turned off. Turn it off:")


def test_a_search_without_confirmation_applies_the_best_so_far_and_says_so() -> None:
    state = replace(USE_IT, result=tuned(interrupted=True))
    found, notice = applied("a", state=state)
    best = best_trial(RECORDS)
    assert best is not None
    assert found == best.arm
    assert "not confirmed yet" in notice


@pytest.mark.parametrize("pays", [True, False])
def test_an_earlier_verdict_outweighs_the_trials(*, pays: bool) -> None:
    best = best_trial(RECORDS)
    assert best is not None
    verdict = Verdict(
        use_speculation=pays, reason="Use it: it pays." if pays else "Turn it off: no."
    )
    earlier = replace(
        OUTCOME_OFF,
        verdict=verdict,
        speculation=best.arm.speculation if pays else None,
        gain=Gain(speedup=1.2 if pays else 0.8, low=None, high=None, n_prompts=8),
    )
    state = replace(USE_IT, result=replace(tuned(interrupted=True), earlier=earlier))
    told = words.verdict(state, digest(RECORDS, Ledger()), UNICODE)
    assert told.advice == ("Use it" if pays else "Turn it off")
    assert "This search decided nothing new." in told.because
    assert (told.speedup, told.pays) == (1.2 if pays else 0.8, pays)
    choice = best_choice(state, digest(RECORDS, Ledger()))
    assert choice is not None
    assert choice[0] == (best.arm if pays else OFF)
    live = launch().make_setup(Files(target=Path("/t.gguf"), draft=Path("/d.gguf")))
    exported = export_choices(live, state, has_gpu=False)[0]
    assert (exported.label, exported.note) == ("found by tuning", verdict.reason)
    assert exported.setup.speculation == earlier.speculation


def test_a_search_that_measured_nothing_has_nothing_to_apply() -> None:
    state = replace(USE_IT, records=(), result=tuned((), interrupted=True))
    assert best_choice(state, digest((), Ledger())) is None


def test_during_a_search_the_best_so_far_is_applied() -> None:
    found, notice = applied("a", state=SEARCHING)
    assert found == RECORDS[3].arm
    assert "not confirmed yet" in notice


def test_during_a_search_off_is_applied_while_nothing_is_faster() -> None:
    found, notice = applied("a", state=replace(SEARCHING, records=(RECORDS[0], RECORDS[2])))
    assert found == OFF
    assert "no setting is faster" in notice


def test_nothing_is_chosen_before_a_setting_was_measured() -> None:
    for records in ((), RECORDS[:1], (failed(0, "no"),)):
        assert best_choice(TuningState(), digest(records, Ledger())) is None


def test_the_selected_row_is_applied_against_the_verdict() -> None:
    found, notice = applied("end", "up", "enter", state=TURN_OFF)
    assert found == RECORDS[1].arm
    assert "trial 1" in notice


def test_the_row_of_off_turns_speculation_off() -> None:
    found, notice = applied("end", "enter", state=SEARCHING)
    assert found == OFF
    assert "turned off" in notice


def test_a_failed_trial_cannot_be_applied() -> None:
    async def select(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "home", "down")
        selected = app.table.selected
        assert selected is not None
        assert selected.record.state is TrialState.FAIL
        assert "Apply row" not in app.footer()
        await press_keys(pilot, "enter")
        assert app.heard == []
        await press_keys(pilot, "down")
        assert "Apply row" in app.footer()

    drive(select, SEARCHING)


# What the head says


FORECAST = Forecast(
    arm=Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=7))),
    speedup=1.5,
    n_drafted=10,
    n_accepted=7,
)


@pytest.mark.parametrize(
    ("state", "chat_is_busy", "expected"),
    [
        (TuningState(), False, "not started"),
        (TuningState(), True, "not started"),
        (TuningState(phase=Phase.STARTING), False, "starting"),
        (TuningState(phase=Phase.RECORDING), False, "recording"),
        (TuningState(phase=Phase.RECORDING), True, "held back by the chat"),
        (TuningState(phase=Phase.RECORDING, paused=True), False, "paused while recording"),
        (SEARCHING, False, "searching"),
        (SEARCHING, True, "held back by the chat"),
        (replace(SEARCHING, paused=True), True, "paused while searching"),
        (replace(SEARCHING, phase=Phase.CONFIRMING), False, "confirming"),
        (replace(SEARCHING, phase=Phase.CONFIRMING), True, "held back by the chat"),
        (replace(SEARCHING, phase=Phase.STOPPING), True, "stopping"),
        (USE_IT, True, "finished"),
        (replace(USE_IT, result=tuned(interrupted=True)), False, "stopped early"),
        (TuningState(phase=Phase.FAILED, error="no"), False, "failed"),
    ],
)
def test_the_phase_in_words(
    state: TuningState,
    chat_is_busy: bool,  # noqa: FBT001 - a table
    expected: str,
) -> None:
    assert words.phase(state, chat_is_busy=chat_is_busy) == expected


def test_the_chat_having_the_engine_is_shown_at_once() -> None:
    async def chat(app: Host, pilot: Pilot[None]) -> None:
        assert "searching" in app.text()
        app.tune.chat_is_busy = True
        await handled(pilot)
        assert "held back by the chat" in app.text()
        app.tune.chat_is_busy = False
        await handled(pilot)
        assert "held back" not in app.text()

    drive(chat, SEARCHING)


def test_progress_counts_trials_and_then_the_prompts_of_the_confirmation() -> None:
    ledger = digest(RECORDS, Ledger())
    assert words.progress(SEARCHING, ledger) == ("6 of 20 trials", 0.3)
    confirming = replace(SEARCHING, phase=Phase.CONFIRMING, n_confirmed=4, n_to_confirm=16)
    assert words.progress(confirming, ledger) == ("prompt 4 of at most 16", 0.25)
    assert words.progress(TuningState(), Ledger()) == ("0 of 0 trials", 0.0)
    recording = TuningState(phase=Phase.RECORDING, n_trials=20, n_recorded=7, n_to_record=28)
    assert words.progress(recording, Ledger()) == (
        "step 7 of 28, to replay every setting",
        0.25,
    )


def test_the_schedule_is_named_and_fast_is_called_a_possibility() -> None:
    fast = replace(SEARCHING, schedule=Schedule.FAST)
    for state, schedule in ((SEARCHING, "server"), (fast, "fast")):
        assert f"{schedule} schedule" in words.headline(state, Ledger(), UNICODE)
    assert words.possibility(SEARCHING) is None
    assert "which llama-server does not have" in (words.possibility(fast) or "")


def test_the_confirmed_setting_is_the_best_although_a_trial_was_faster() -> None:
    assert USE_IT.result is not None
    slower = next(r.arm for r in RECORDS if r.arm.speculation and r.arm.label != BEST)
    state = replace(USE_IT, result=replace(USE_IT.result, best=slower))
    best = digest(state.records, Ledger(), state.confirmed).best
    assert best is not None
    assert best.record.arm == slower
    told = words.verdict(state, Ledger(), UNICODE)
    assert (told.speedup, told.pays) == (1.34, True)
    number, end = history(digest(state.records, Ledger(), state.confirmed), max_points=9).best[-1]
    assert number == 5
    assert end == pytest.approx(best.relative)


def test_interrupted_trials_do_not_count_as_done() -> None:
    stopped = replace(RECORDS[1], state=TrialState.INTERRUPTED)
    assert digest((RECORDS[0], stopped), Ledger()).n_tried == 1


def test_time_left_is_shown_only_while_it_runs() -> None:
    ledger = digest(RECORDS, Ledger())
    assert "up to 1 min 30 s left" in words.headline(SEARCHING, ledger, UNICODE)
    assert "left" not in words.headline(USE_IT, ledger, UNICODE)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SEARCHING, ("Best so far, not confirmed", BEST, 1.4, None)),
        (
            USE_IT,
            (
                "Use it",
                f"{BEST} is worth +34 % ± 6 (95 % interval +28 % to +40 %, 8 prompts).",
                1.34,
                True,
            ),
        ),
        (
            replace(SEARCHING, records=RECORDS[3:4]),
            ("No speedup yet", f"off was not measured; {BEST}", None, None),
        ),
        (
            replace(SEARCHING, records=RECORDS[:1]),
            ("No setting besides off was measured yet", "", None, None),
        ),
        (
            replace(SEARCHING, records=RECORDS[:1], forecasts=(FORECAST,)),
            ("Predicted, not measured yet", FORECAST.arm.label, 1.5, None),
        ),
        (
            replace(USE_IT, result=tuned(interrupted=True)),
            (
                "Nothing was decided",
                (
                    f"no setting was confirmed; best so far, not confirmed: {BEST}; "
                    "Start goes on from here"
                ),
                1.4,
                None,
            ),
        ),
    ],
)
def test_the_verdict_or_how_far_it_is_known(
    state: TuningState, expected: tuple[str, str, float | None, bool | None]
) -> None:
    told = words.verdict(state, digest(state.records, Ledger()), UNICODE)
    assert (told.advice, told.because, told.pays) == (expected[0], expected[1], expected[3])
    assert told.speedup == (None if expected[2] is None else pytest.approx(expected[2]))


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (None, "not checked"),
        (LosslessCheck(divergence=None), "equal to the target's on every prompt"),
        (
            LosslessCheck(
                divergence=Divergence(prompt_id="p", position=3, margin=0.01, noise=0.01)
            ),
            "equal but for rounding (two tokens as likely at token 3 of prompt p)",
        ),
        (
            LosslessCheck(divergence=Divergence(prompt_id="p", position=3, margin=1.0, noise=0.01)),
            "▲ differs from the target's at token 3 of prompt p; rounding does not explain it",
        ),
    ],
)
def test_whether_the_output_was_lossless(check: LosslessCheck | None, expected: str) -> None:
    found = tuned(speedup=speedup(1.3, 1.2, 1.4), lossless=check)
    assert words.lossless(found, UNICODE) == expected


def test_losslessness_is_no_matter_without_a_confirmation() -> None:
    assert words.lossless(tuned(interrupted=True), UNICODE) is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("state", "verdict"), [(USE_IT, "Use it"), (TURN_OFF, "Turn it off")])
def test_the_verdict_is_on_the_screen(
    state: TuningState, verdict: str, size: tuple[int, int]
) -> None:
    shown = seen(state=state, size=size)
    assert "finished" in shown
    assert verdict in shown


@pytest.mark.parametrize("size", [(60, 15), *SIZES])
def test_the_whole_verdict_is_in_view(size: tuple[int, int]) -> None:
    open_case = judge(speedup(1.1, 0.9, 1.2), min_gain=0.02, what=BEST, temp=0.8, prompt_s=30.0)
    met = conditions((), Reading(None, "no sensor"), Reading(None, "no sensor"), DISTURBED)
    done = replace(tuned(speedup=speedup(1.1, 0.9, 1.2)), verdict=open_case, conditions=met)

    async def look(app: Host, _pilot: Pilot[None]) -> None:
        box = app.tune.query_one(VerdictBox)
        assert box.max_scroll_y == 0
        assert app.tune.region.contains_region(box.region)
        assert "tokens/s" in app.text()

    drive(look, replace(USE_IT, result=done), size=size)


def test_facts_that_do_not_fit_are_reached_with_keys() -> None:
    met = conditions((), Reading(None, "no sensor"), Reading(None, "no sensor"), DISTURBED)
    done = replace(tuned(speedup=speedup(1.34, 1.28, 1.4)), conditions=met)

    async def scroll(app: Host, pilot: Pilot[None]) -> None:
        assert "slept" not in app.text()
        await press_keys(pilot, "shift+tab", "shift+tab", "end")
        assert "slept" in app.text()

    drive(scroll, replace(USE_IT, result=done), size=(60, 15))


@pytest.mark.parametrize("size", SIZES)
def test_a_failure_gives_its_reason_and_the_trials_stay(size: tuple[int, int]) -> None:
    shown = seen(state=replace(SEARCHING, phase=Phase.FAILED, error="the GPU is gone"), size=size)
    assert "failed" in shown
    assert "the GPU is gone" in shown
    assert "1.40×" in shown


@pytest.mark.parametrize("size", SIZES)
def test_a_verdict_that_is_not_kept_says_so_beside_it(size: tuple[int, int]) -> None:
    lost = replace(tuned(), not_kept="the disk is full")
    ended = replace(SEARCHING, phase=Phase.FINISHED, result=lost)
    shown = seen(state=ended, size=size)
    assert "finished" in shown
    assert "not kept the disk is full" in " ".join(shown.split())


@pytest.mark.parametrize("size", [(40, 12), *SIZES])
def test_long_and_hostile_names_break_nothing(size: tuple[int, int]) -> None:
    name = "[/b]\x1b[31m漢字\u202e" + "very-long-" * 30
    record = trial(1, arm(draft=name), 1.5)
    state = replace(
        SEARCHING,
        study=name,
        records=(trial(0), record, failed(2, f"{name}\n{name * 20}", arm(draft=name))),
        phase=Phase.FAILED,
        error=name * 50,
        importance=((name, 1.0),),
    )
    shown = seen("down", "down", state=state, size=size)
    assert "failed" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


# The trials


def test_the_ledger_agrees_with_the_records() -> None:
    records = (*RECORDS, *(replace(record, number=record.number + 10) for record in many(50)))
    ledger = digest(records, Ledger())
    assert ledger.off_level == off_level(records)
    assert ledger.best is not None
    assert ledger.best.record is best_trial(records)
    for row in ledger.rows:
        assert ledger.speedup(row) == speedup_estimate(row.record, records)


def test_a_ledger_works_out_only_what_is_new() -> None:
    before = digest(RECORDS[:4], Ledger())
    changed = replace(RECORDS[1], noisy=True)
    after_it = digest((RECORDS[0], changed, *RECORDS[2:]), before)
    same = [new is old for new, old in zip(after_it.rows, before.rows, strict=False)]
    assert same == [True, False, True, True]
    assert after_it.rows[1].record is changed


@pytest.mark.parametrize(
    ("title", "descending", "expected"),
    [
        ("trial", True, [5, 4, 3, 2, 1, 0]),
        ("trial", False, [0, 1, 2, 3, 4, 5]),
        ("draft_max", False, [1, 4, 3, 5, 2, 0]),
        ("draft_max", True, [2, 3, 5, 4, 1, 0]),
        ("draft_min", True, [3, 1, 2, 4, 5, 0]),
        ("draft_p_min", False, [1, 4, 3, 5, 2, 0]),
        ("draft", False, [1, 2, 3, 4, 5, 0]),
        ("tokens/s", True, [3, 5, 1, 0, 2, 4]),
        ("speedup", True, [3, 5, 1, 0, 2, 4]),
        ("speedup", False, [2, 0, 1, 5, 3, 4]),
        ("acceptance", True, [1, 3, 5, 2, 0, 4]),
        ("state", False, [0, 1, 2, 3, 5, 4]),
    ],
)
def test_orders(title: str, descending: bool, expected: list[int]) -> None:  # noqa: FBT001 - a table
    (column,) = (one for one in COLUMNS if one.title == title)
    rows = ordered(digest(RECORDS, Ledger()).rows, Sort(column=column, descending=descending))
    assert [row.number for row in rows] == expected


def test_keys_sort_by_the_next_column_and_reverse() -> None:
    async def sort(app: Host, pilot: Pilot[None]) -> None:
        for column in [*COLUMNS[1:], TRIAL]:
            await press_keys(pilot, "o")
            assert app.table.sort.column is column
        before = app.table.order
        await press_keys(pilot, "r")
        assert app.table.order == before[::-1]

    drive(sort, SEARCHING)


def test_a_click_on_a_title_sorts_and_another_one_reverses() -> None:
    async def sort(app: Host, pilot: Pilot[None]) -> None:
        for slot in app.table._slots:
            end = (slot.x + slot.width - 1, 0)
            await pilot.click(TrialsTable, offset=end)
            await handled(pilot)
            first = app.table.sort
            await pilot.click(TrialsTable, offset=end)
            await handled(pilot)
            assert app.table.sort.column is first.column is slot.column
            assert app.table.sort.descending is not first.descending

    drive(sort, SEARCHING)


def test_an_arrow_says_how_the_rows_are_sorted() -> None:
    assert "↓trial" in seen(state=SEARCHING)
    assert "↑trial" in seen("r", state=SEARCHING)
    assert "↑draft_max" in seen("o", state=SEARCHING)


def test_a_click_selects_a_row() -> None:
    async def click(app: Host, pilot: Pilot[None]) -> None:
        found = []
        for y in (3, 12):
            await pilot.click(TrialsTable, offset=(5, y))
            await handled(pilot)
            found.append(app.table.selected)
        assert [row.number for row in found if row] == [3, 3]

    drive(click, SEARCHING)


def test_keys_move_the_selection_and_stop_at_the_ends() -> None:
    async def move(app: Host, pilot: Pilot[None]) -> None:
        async def selected(key: str) -> int:
            await press_keys(pilot, key)
            assert app.table.selected is not None
            return app.table.selected.number

        assert [await selected(key) for key in ("down", "down", "up", "up")] == [199, 198, 199, 199]
        assert await selected("end") == 0
        assert await selected("down") == 0
        assert app.table.scroll_y == app.table.max_scroll_y
        page = await selected("pageup")
        assert 0 < page < app.table.size.height
        assert await selected("home") == 199
        assert app.table.scroll_y == 0

    drive(move, replace(SEARCHING, records=many(200)))


def test_the_selected_trial_is_told_in_full() -> None:
    assert "trial 5, good: max 6, min 0, p_min 0.40: 13.0 tokens/s, 1.30× of off" in seen(
        "down", state=SEARCHING
    )
    assert "trial 4, good: max 4, min 0, p_min 0.00: failed: the draft does not fit" in seen(
        "down", "down", state=SEARCHING
    )


def test_states_are_told_in_words() -> None:
    shown = seen(state=SEARCHING)
    rows = [line for line in shown.splitlines() if line[2:9].strip(" •").isdecimal()]
    told = {int(row[2:9].strip(" •")): row for row in rows[: len(RECORDS)]}
    assert told[5].rstrip(" │").endswith("noisy")
    assert told[4].rstrip(" │").endswith("failed")
    assert told[3].rstrip(" │").endswith("best")
    assert "•" in told[3]
    assert told[0].rstrip(" │").endswith("done")


def test_new_trials_keep_selection_order_and_scroll_position() -> None:
    async def add(app: Host, pilot: Pilot[None]) -> None:
        records = many(300)
        app.tune.show(replace(SEARCHING, records=records[:200]))
        app.table.sort_by(SPEEDUP, descending=True)
        await press_keys(pilot, "home", "pagedown", "pagedown", "up")
        selected, top = app.table.selected, app.table.order[round(app.table.scroll_y)]
        assert selected is not None
        assert app.table.scroll_y > 0
        for n in range(210, 301, 10):
            app.tune.show(replace(SEARCHING, records=records[:n]))
            await handled(pilot)
        assert app.table.selected is selected
        assert app.table.order[round(app.table.scroll_y)] == top
        assert app.table.sort == Sort(column=SPEEDUP, descending=True)
        assert len(app.table.order) == 300

    drive(add, SEARCHING)


def test_at_the_top_new_trials_come_into_view() -> None:
    async def add(app: Host, pilot: Pilot[None]) -> None:
        records = many(100)
        for n in (50, 100):
            app.tune.show(replace(SEARCHING, records=records[:n]))
            await handled(pilot)
            assert app.table.scroll_y == 0
            assert app.table.order[0] == n - 1

    drive(add, SEARCHING)


def test_sorting_keeps_the_selected_trial_in_view() -> None:
    async def sort(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down")
        for column in COLUMNS:
            app.table.sort_by(column, descending=True)
            assert app.table.selected is not None
            index = app.table.order.index(app.table.selected.number)
            assert 0 <= index - app.table.scroll_y < app.table.size.height - 1

    drive(sort, replace(SEARCHING, records=many(200)))


def test_of_ten_thousand_trials_only_those_in_view_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    draw = lines.line

    def spy(row: Row, slots: Sequence[Slot], ledger: Ledger, glyphs: Glyphs) -> str:
        drawn.append(row.number)
        return draw(row, slots, ledger, glyphs)

    monkeypatch.setattr("spectui.tui.tune.table.line", spy)

    async def scroll(app: Host, pilot: Pilot[None]) -> None:
        assert len(app.table.order) == 10_000
        drawn.clear()
        await press_keys(pilot, "end")
        assert drawn
        assert len(set(drawn)) < 2 * app.table.size.height
        assert app.table.selected is not None
        assert app.table.selected.number == 0

    drive(scroll, replace(SEARCHING, records=many(10_000)))


def test_a_state_that_brings_no_trial_repaints_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Ledger] = []
    monkeypatch.setattr(TrialsTable, "show", lambda _table, ledger: shown.append(ledger))

    async def go_on(app: Host, pilot: Pilot[None]) -> None:
        shown.clear()
        app.tune.show(replace(SEARCHING, seconds_left=5.0))
        await handled(pilot)
        assert shown == []
        assert "up to 5 s left" in app.text()

    drive(go_on, SEARCHING)


@pytest.mark.parametrize("width", [10, 40, 76, 100, 120, 200])
def test_columns_never_overlap(width: int) -> None:
    slots = layout(digest(RECORDS, Ledger()).rows, width, UNICODE)
    assert [slot.column for slot in slots] == list(COLUMNS)
    for left, right in pairwise(slots):
        assert left.x + left.width < right.x
    assert all(slot.width >= len(slot.title) for slot in slots)


def test_a_text_that_is_cut_says_so() -> None:
    assert aligned("abcdef", 4, right=False, ellipsis="…") == "abc…"
    assert aligned("漢字漢字", 4, right=True, ellipsis="...") == " ..."
    assert aligned("ab", 4, right=True) == "  ab"
    assert aligned("ab", 4, right=False) == "ab  "


# Map


def ledger_of(*records: TrialRecord) -> Ledger:
    return digest((trial(0), *records), Ledger())


def rounded(cell: Cell) -> tuple[Source, float]:
    return cell.source, round(cell.speedup, 6)


def test_the_best_setting_of_a_cell_stands_for_it() -> None:
    land = landscape(
        ledger_of(trial(1, arm(4, 0.5), 1.2), trial(2, arm(4, 0.5, draft="other"), 1.4)),
        max_columns=16,
        max_rows=20,
    )
    assert list(land.cells) == [(3, 10)]
    assert rounded(land.cells[3, 10]) == (Source.BEST, 1.4)
    assert land.best == (3, 10)
    assert (land.columns[3], land.rows[10]) == ("4", "0.50")
    assert (land.per_column, land.per_row) == (1, 1)


def forecast(longest: int, p_min: float, speedup: float) -> Forecast:
    return Forecast(arm=arm(longest, p_min), speedup=speedup, n_drafted=9, n_accepted=6)


def test_every_replayed_setting_is_on_the_map_and_what_was_measured_hides_it() -> None:
    every = [forecast(n, round(s * 0.05, 2), 1 + n / 100) for n in range(1, 17) for s in range(20)]
    every.sort(key=lambda one: -one.speedup)
    ledger = ledger_of(trial(1, arm(2, 0.5), 0.9), trial(2, arm(8, 0.25), 1.1))
    land = landscape(ledger, every, max_columns=16, max_rows=20)
    assert len(land.cells) == 16 * 20
    assert rounded(land.cells[1, 10]) == (Source.MEASURED, 0.9)
    assert rounded(land.cells[7, 5]) == (Source.BEST, 1.1)
    assert land.best == (7, 5)
    assert rounded(land.cells[15, 0]) == (Source.REPLAYED, 1.16)


def test_before_a_trial_the_best_forecast_is_the_best() -> None:
    every = [forecast(5, 0.0, 1.5), forecast(6, 0.0, 1.2)]
    assert landscape(Ledger(), every, max_columns=16, max_rows=20).best == (4, 0)


def test_the_maps_best_is_the_tables_although_another_is_faster() -> None:
    records = (trial(0), trial(1, arm(3), 1.5), trial(2, arm(8), 1.3))
    land = landscape(digest(records, Ledger(), arm(8)), max_columns=16, max_rows=20)
    assert land.best == (7, 0)
    assert rounded(land.cells[7, 0]) == (Source.BEST, 1.3)


def test_a_best_without_a_draft_model_has_no_place_on_the_map() -> None:
    ngrams = Arm(draft=None, speculation=Speculation(NgramSimple()))
    state = replace(SEARCHING, records=(trial(0), trial(1, arm(3), 1.2), trial(2, ngrams, 1.5)))
    assert "the best, ngram-simple, has no place here" in seen("2", state=state, size=(200, 60))


def test_what_was_not_measured_is_empty() -> None:
    land = landscape(ledger_of(failed(1, "no")), max_columns=16, max_rows=20)
    assert land.cells == {}
    assert land.best is None
    assert (land.low, land.high) == (1.0, 1.0)
    assert (len(land.columns), len(land.rows)) == (16, 20)


@pytest.mark.parametrize("room", [(1, 1), (3, 4), (8, 10), (10, 7), (0, 0)])
def test_cells_are_merged_until_they_fit(room: tuple[int, int]) -> None:
    records = [trial(i, arm(i, round(i * 0.05, 2)), i / 10) for i in range(1, 17)]
    land = landscape(ledger_of(*records), max_columns=room[0], max_rows=room[1])
    assert 1 <= len(land.columns) <= max(1, room[0])
    assert 1 <= len(land.rows) <= max(1, room[1])
    assert all(0 <= x < len(land.columns) and 0 <= y < len(land.rows) for x, y in land.cells)


@pytest.mark.parametrize(("size", "key"), [((80, 24), "2"), ((120, 40), "1"), ((200, 60), "1")])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_map_has_numbers_marks_and_a_legend(
    glyphs: Glyphs, size: tuple[int, int], key: str
) -> None:
    shown = seen(key, state=SEARCHING, size=size, glyphs=glyphs)
    assert "draft_p_min" in shown
    assert "draft_max" in shown
    assert f"{glyphs.bullet}1.40" in shown
    assert f"{glyphs.measured}0.80" in shown
    assert f"0.80{glyphs.times} to 1.40{glyphs.times} of off" in shown
    assert f"{glyphs.measured} measured" in shown


def test_a_map_without_room_for_numbers_has_shades() -> None:
    async def shrink(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "2")
        await resize(pilot, 8, 30)
        shown = app.tune.query_one(Heatmap)
        text = "\n".join(shown.render_line(y).text for y in range(shown.size.height))
        assert "•" in text

    drive(shrink, SEARCHING, size=(80, 24))


def test_a_map_of_nothing_says_so() -> None:
    assert "not replayed yet" in seen("2", state=replace(SEARCHING, records=RECORDS[:1]))


# Plots


def test_the_history_is_the_speedups_and_the_best_so_far() -> None:
    found = history(digest(RECORDS, Ledger()), max_points=100)
    assert [number for number, _ in found.trials] == [1, 2, 3, 5]
    assert [value for _, value in found.trials] == pytest.approx([1.2, 0.8, 1.4, 1.3])
    assert [number for number, _ in found.best] == [1, 3, 5]
    assert [value for _, value in found.best] == pytest.approx([1.2, 1.4, 1.4])


def test_a_long_history_keeps_its_extremes() -> None:
    records = many(5000)
    ledger = digest(records, Ledger())
    found = history(ledger, max_points=100)
    whole = history(ledger, max_points=10_000)
    assert len(found.trials) <= 100
    assert max(v for _, v in found.trials) == max(v for _, v in whole.trials)
    assert min(v for _, v in found.trials) == min(v for _, v in whole.trials)
    assert found.best == whole.best


def test_there_is_no_history_before_off_was_measured() -> None:
    assert history(digest(RECORDS[1:], Ledger()), max_points=10).trials == ()
    assert "No speedup yet" in seen("3", state=replace(SEARCHING, records=RECORDS[1:2]))


def test_the_history_is_a_plot() -> None:
    shown = seen(state=SEARCHING)
    assert "speedup of a trial" in shown
    assert "fastest so far, 1.40×" in shown
    assert "level: off, 1.00×" in shown
    assert any("⠀" < character <= "⣿" for character in shown)


def test_a_single_trial_can_be_plotted() -> None:
    assert "fastest so far, 1.20×" in seen("3", state=replace(SEARCHING, records=RECORDS[:2]))


def test_the_history_follows_the_theme() -> None:
    async def change(app: Host, pilot: Pilot[None]) -> None:
        plot = app.tune.query_one(HistoryPlot)
        app.theme = "spectui-dark"
        await handled(pilot)
        dark = plot._color("best")
        app.theme = "spectui-light"
        await handled(pilot)
        assert plot._color("best") != dark
        assert "fastest so far" in app.text()

    drive(change, SEARCHING)


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "spectui-high-contrast", "nord"])
def test_every_theme_can_draw_it(theme: str) -> None:
    async def change(app: Host, pilot: Pilot[None]) -> None:
        app.theme = theme
        await press_keys(pilot, "down")
        assert "•1.40" in app.text()

    drive(change, USE_IT)


def test_importance_has_a_bar_and_a_share_per_parameter() -> None:
    shown = seen(state=replace(SEARCHING, importance=IMPORTANCE))
    assert "60%" in shown
    assert "40%" in shown
    assert "eight measured trials" in seen(state=SEARCHING)


def test_in_ascii_the_history_is_made_of_sparks() -> None:
    shown = seen(state=SEARCHING, glyphs=ASCII)
    assert "speedup of a trial" in shown
    assert "fastest so far, 1.40x" in shown
    assert "from 0.80x to 1.40x; off is 1.00x" in shown


def test_peaks_stay_in_a_history_that_is_too_long_for_a_line() -> None:
    assert _peaks([0, 9, 1, 2, 3], 2) == [9, 3]
    assert _peaks([0, 9], 5) == [0, 9]
    assert _peaks([1, 2], 0) == [2]


# Everywhere


ALL_STATES = {
    "empty": TuningState(),
    "starting": TuningState(phase=Phase.STARTING, n_trials=20),
    "searching": replace(SEARCHING, current=arm(), importance=IMPORTANCE),
    "paused": replace(SEARCHING, paused=True),
    "confirming": replace(SEARCHING, phase=Phase.CONFIRMING, n_confirmed=1, n_to_confirm=9),
    "use it": USE_IT,
    "turn off": TURN_OFF,
    "lossy": replace(
        USE_IT,
        result=tuned(
            speedup=speedup(1.3, 1.2, 1.5),
            lossless=LosslessCheck(
                divergence=Divergence(prompt_id="p", position=3, margin=1, noise=0.01)
            ),
        ),
    ),
    "failed": replace(SEARCHING, phase=Phase.FAILED, error="4 × 2 – 1 ± … −"),
    "many": replace(SEARCHING, records=many(3000)),
}


@pytest.mark.parametrize("size", SIZES)
def test_in_ascii_every_character_is(size: tuple[int, int]) -> None:
    async def read(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "n")
        for name, state in ALL_STATES.items():
            app.tune.show(state)
            for view in ("trials", "map", "plots"):
                app.tune.action_view(view)
                await handled(pilot)
                others = {character for character in app.text() if not character.isascii()}
                assert (name, view, others) == (name, view, set())

    drive(read, size=size, glyphs=ASCII)


def test_a_search_goes_through_its_states_on_one_screen() -> None:
    async def go(app: Host, pilot: Pilot[None]) -> None:
        path = [
            (TuningState(phase=Phase.STARTING, n_trials=20), "starting"),
            (replace(SEARCHING, records=(), current=OFF), "0 of 20 trials"),
            (SEARCHING, "6 of 20 trials"),
            (replace(SEARCHING, paused=True), "paused while searching"),
            (replace(SEARCHING, phase=Phase.CONFIRMING, n_to_confirm=16), "prompt 0 of at most 16"),
            (USE_IT, "Use it"),
            (replace(SEARCHING, phase=Phase.FAILED, error="broken"), "broken"),
            (TuningState(), "Press Enter to start"),
        ]
        for state, expected in path:
            app.tune.show(state)
            await handled(pilot)
            assert expected in app.text()

    drive(go)


def test_the_state_may_come_before_the_screen_is_shown() -> None:
    async def run() -> str:
        app = Host()
        app.tune.show(SEARCHING)
        async with app.run_test(size=(120, 40)) as pilot:
            await handled(pilot)
            return app.text()

    assert "6 of 20 trials" in asyncio.run(run())


def test_views_are_tabs_where_room_is_short_and_side_by_side_elsewhere() -> None:
    async def change_size(app: Host, pilot: Pilot[None]) -> None:
        def visible() -> list[str]:
            views = app.tune.query(".view")
            return [str(view.id) for view in views if view.region]

        assert visible() == ["trials", "map", "plots"]
        await resize(pilot, 80, 24)
        assert visible() == ["trials"]
        for key, view in (("2", "map"), ("3", "plots"), ("1", "trials")):
            await press_keys(pilot, key)
            assert visible() == [view]
        for size in ((200, 60), (30, 8), (200, 20), (120, 40)):
            await resize(pilot, *size)
            assert "trials" in visible()
        assert visible() == ["trials", "map", "plots"]

    drive(change_size, SEARCHING)


@pytest.mark.parametrize("size", SIZES)
def test_at_every_size_the_head_the_trials_and_the_keys_are_in_view(size: tuple[int, int]) -> None:
    shown = seen(state=replace(SEARCHING, current=arm()), size=size)
    for expected in ("searching", "6 of 20 trials", "30%", "1.40×", "tokens/s", "Pause", "Apply"):
        assert expected in shown
