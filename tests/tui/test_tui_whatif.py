"""The what-if screen: driven by states and keys, seen as text, heard by a controller."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from textual.events import MouseScrollDown
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Digits
from textual.widgets._toast import Toast

from spectui.engine.events import Role
from spectui.live.recording import ChatRecording, ChatText
from spectui.live.recording import chat_trace as make_trace
from spectui.live.setup import Activity, ChatRecorded, Launch, Pair
from spectui.live.whatif import (
    KnownCosts,
    Measured,
    Source,
    WhatIf,
    WhatIfState,
    known_costs,
    whatif_state,
)
from spectui.options.drafters import Model, NgramSimple
from spectui.options.setup import SamplingConfig, Schedule
from spectui.options.speculation import Speculation
from spectui.sessions import AnswerPart, UserTurn
from spectui.settings import Settings
from spectui.trace.costs import Costs
from spectui.trace.file import read_trace
from spectui.trace.record import Recording, Trace, record_chains
from spectui.tui.colours import THEMES, ColouredApp
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.whatif.controller import WhatIfController
from spectui.tui.whatif.plot import Mark, WhatIfPlot, ascii_chart, axis, curve, legend
from spectui.tui.whatif.screen import BigNumber, Numbers, WhatIfScreen
from spectui.tui.whatif.stepper import Stepper, Steppers
from spectui.tui.widgets import KeyBar
from spectui.tune.progress import TuningState
from tests.support.cockpit import (
    TARGET,
    Cockpit,
    Recorder,
    handled,
    launch,
    loaded,
    press_keys,
    ready,
    resize,
    settled,
    setup_of,
)
from tests.support.engine import drafting
from tests.support.replay import COSTS, SCENE, record
from tests.support.scripted import hashed_draft, hashed_target
from tests.tui.test_tui_snapshots import SnapCompare
from tests.tui.test_tui_tune import arm, trial

DEPTH = 16
SIZES = [(80, 24), (120, 40)]
SMALL = [(40, 12), (63, 40), (80, 21), (120, 12)]
KNOWN = KnownCosts(
    costs=COSTS, source="fitted to 210 rounds of up to 6 drafted, beyond along a line"
)
MEASURED = (
    Measured(source=Source.CHAT, setting=drafting(4), tokens_per_s=31.0),
    Measured(source=Source.TRIAL, setting=drafting(8), tokens_per_s=27.5),
    Measured(source=Source.TRIAL, setting=drafting(10, 0, 0.3), tokens_per_s=29.0),
)


def recorded(seed: int, n_predict: int) -> Recording:
    """An answer with chains as long as a session records."""
    choose = hashed_target(seed)
    scene = replace(
        SCENE,
        choose=choose,
        propose=hashed_draft(choose, seed, agreement=0.8),
        n_predict=n_predict,
        n_ctx=400,
    )
    recording, _ = record(scene)
    chains = record_chains(scene.draft(), scene.prompt, recording.output, depth=DEPTH)
    assert chains is not None
    return replace(recording, id=f"answer-{seed}", chains={"SmolLM2-135M": chains})


RECORDINGS = (recorded(1, 60), recorded(2, 90))
CHAT = ChatRecording(
    draft="SmolLM2-135M",
    depth=DEPTH,
    texts=tuple(ChatText(recording=one, sampling=SamplingConfig(temp=0.0)) for one in RECORDINGS),
)
FOUND = WhatIfState(
    recording=CHAT,
    schedule=Schedule.FAST,
    known=KNOWN,
    measured=MEASURED,
    applied=drafting(4),
)
WITHOUT_COSTS = replace(FOUND, known=known_costs((), None, Schedule.FAST, None), measured=())
REPLAYED = WhatIf(RECORDINGS, CHAT.draft, longest=DEPTH, costs=COSTS)
REPLAYED.replay_space()


class Host(ColouredApp[None]):
    """An app over a controller that only hears."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "* { scrollbar-size: 0 0; }"

    def __init__(self, state: WhatIfState = FOUND, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.controller = Recorder()
        self.whatif = WhatIfScreen(cast("WhatIfController", self.controller), state)

    def on_mount(self) -> None:
        self.theme = THEMES[0].name
        self.push_screen(self.whatif)

    @property
    def heard(self) -> list[tuple[object, ...]]:
        """What the screen has asked for."""
        return self.controller.heard

    @property
    def notices(self) -> list[str]:
        return [notice.message for notice in self._notifications]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being replayed."""
        return not self.whatif.workers

    @property
    def numbers(self) -> list[str]:
        return [digits.value for digits in self.whatif.query(Digits)]

    def text(self) -> str:
        """What stands on the screen, as one paragraph."""
        return " ".join(self.lines().split())

    def lines(self) -> str:
        """What stands on the screen."""
        strips = self.whatif._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in strips)


async def idle(app: Host, pilot: Pilot[None]) -> None:
    await handled(pilot)
    await settled(pilot, lambda: app.is_idle)


def drive(
    scenario: Callable[[Host, Pilot[None]], Awaitable[None]],
    state: WhatIfState = FOUND,
    *,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
    notifications: bool = False,
) -> Host:
    """Run ``scenario`` on the screen in ``state``, with toasts if asked for."""

    async def run() -> Host:
        app = Host(state, glyphs)
        async with app.run_test(size=size, notifications=notifications) as pilot:
            await idle(app, pilot)
            await scenario(app, pilot)
        return app

    return asyncio.run(run())


def seen(
    *keys: str,
    state: WhatIfState = FOUND,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
) -> str:
    """What the screen shows after some keys."""
    shown = ""

    async def press(app: Host, pilot: Pilot[None]) -> None:
        nonlocal shown
        await press_keys(pilot, *keys)
        await idle(app, pilot)
        shown = app.text()

    drive(press, state, size=size, glyphs=glyphs)
    return shown


def expected(setting: Model) -> list[str]:
    """The numbers that belong to a setting."""
    total = REPLAYED.at(setting)
    assert total.acceptance_rate is not None
    return [
        f"{total.tokens_per_s:.1f}",
        f"{total.speedup:.2f}x",
        f"{100 * total.acceptance_rate:.0f}%",
        f"{total.tokens_per_round:.2f}",
    ]


def test_it_begins_with_the_setting_that_is_applied() -> None:
    async def look(app: Host, _pilot: Pilot[None]) -> None:
        assert app.whatif.setting == drafting(4)
        assert app.numbers == expected(drafting(4))

    drive(look)


def test_it_says_on_how_much_text_it_rests_and_what_is_predicted() -> None:
    shown = seen()
    assert "What if SmolLM2-135M drafts: 148 tokens of 2 answers, replayed exactly." in shown
    assert "Speed: predicted (fast schedule), costs fitted to 210 rounds" in shown


SIMPLE = NgramSimple(size_m=48)


@pytest.mark.parametrize(
    ("applied", "said"),
    [
        (Speculation(SIMPLE), "In the chat ngram-simple drafts, which is not replayed here."),
        (
            Speculation(drafting(4), (SIMPLE,)),
            "In the chat ngram-simple is asked first, which is not replayed here.",
        ),
        (Speculation(drafting(4)), ""),
        (None, ""),
    ],
    ids=["ngram", "ahead", "draft", "off"],
)
def test_it_says_whom_of_those_who_draft_it_does_not_answer_for(
    applied: Speculation | None, said: str
) -> None:
    shown = seen(state=whatif_state(CHAT, schedule=Schedule.FAST, applied=applied))
    assert said in shown
    assert ("not replayed here" in shown) is bool(said)


def test_a_small_screen_says_that_the_draft_is_meant_where_others_draft() -> None:
    state = whatif_state(CHAT, schedule=Schedule.FAST, applied=Speculation(SIMPLE))
    assert "What if the draft drafts: 148" in seen(state=state, size=(40, 12))


def test_what_others_drafted_is_not_counted_as_drafted_by_who_is_replayed() -> None:
    state = whatif_state(CHAT, schedule=Schedule.FAST, applied=Speculation(SIMPLE))
    assert "this session has drafted nothing often enough with it alone" in seen(state=state)


KEYS: list[tuple[list[str], Model]] = [
    (["right"], drafting(5)),
    (["left", "left"], drafting(2)),
    (["end"], drafting(16)),
    (["end", "right"], drafting(16)),
    (["home"], drafting(1)),
    (["down", "right", "right"], drafting(4, 2)),
    (["down", "down", "right", "right", "right"], drafting(4, 0, 0.15)),
    (["up", "right"], drafting(4, 0, 0.05)),
    (["1", "2", "enter"], drafting(12)),
    (["1", "2", "backspace", "down"], drafting(1)),
    (["9", "9", "enter"], drafting(16)),
    (["7", "escape", "right"], drafting(5)),
    (["7", "right"], drafting(8)),
    (["down", "down", "0", ".", "7", "5", "enter"], drafting(4, 0, 0.75)),
]


def test_keys_change_the_setting_and_its_numbers() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        steppers = app.whatif.query_one(Steppers)
        for keys, setting in KEYS:
            steppers.setting = drafting(4)
            steppers.query_one("#draft_max", Stepper).focus()
            await handled(pilot)
            await press_keys(pilot, *keys)
            assert app.whatif.setting == setting, keys
            # At once: nothing is replayed for it.
            assert app.is_idle
            assert app.numbers == expected(setting)

    drive(press)


def test_a_value_between_the_steps_is_replayed_aside() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down", "down", *"0.333", "enter")
        setting = drafting(4, 0, 0.333)
        assert app.whatif.setting == setting
        await idle(app, pilot)
        assert app.numbers == expected(setting)
        await press_keys(pilot, "left")
        assert app.whatif.setting == drafting(4, 0, 0.3)
        await press_keys(pilot, *"0.333", "right")
        assert app.whatif.setting == drafting(4, 0, 0.35)

    drive(press)


def test_draft_min_is_never_above_draft_max() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down", "end", "up", "left", "left")
        assert app.whatif.setting == drafting(2, 2)
        assert app.numbers == expected(drafting(2, 2))

    drive(press)


def test_the_draft_min_that_was_chosen_returns_with_draft_max() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down", "3", "enter", "up", "left", "left", "left")
        assert app.whatif.setting == drafting(1, 1)
        await press_keys(pilot, "right")
        assert app.whatif.setting == drafting(2, 2)
        await press_keys(pilot, "right", "right", "right")
        assert app.whatif.setting == drafting(5, 3)
        assert app.numbers == expected(drafting(5, 3))
        # A step that is not possible changes nothing; one that is, and a typed value, do.
        await press_keys(pilot, "2", "enter", "down", "right", "up", "end")
        assert app.whatif.setting == drafting(16, 3)
        await press_keys(pilot, "2", "enter", "down", "left", "up", "end")
        assert app.whatif.setting == drafting(16, 1)
        await press_keys(pilot, "down", "4", "up", "2", "enter", "down", "2", "up", "end")
        assert app.whatif.setting == drafting(16, 2)
        # The best setting is a choice as well.
        assert REPLAYED.best is not None
        await press_keys(pilot, "1", "b", "end")
        assert app.whatif.setting.draft_min == REPLAYED.best.model.draft_min

    drive(press)


def test_the_mouse_sets_a_value() -> None:
    async def click(app: Host, pilot: Pilot[None]) -> None:
        line = str(app.whatif.query_one("#draft_max", Stepper).render())
        last = len(line) - len(" 1 to 16") - 1
        await pilot.click("#draft_max", offset=(last, 0))
        await handled(pilot)
        assert app.whatif.setting.draft_max == 16
        await pilot.click("#draft_max", offset=(len(line) - 1, 0))
        await handled(pilot)
        assert app.whatif.setting.draft_max == 16

    drive(click)


def test_a_key_goes_to_the_best_predicted_setting() -> None:
    assert REPLAYED.best is not None
    best = REPLAYED.best

    async def press(app: Host, pilot: Pilot[None]) -> None:
        assert f"Best predicted: max {best.model.draft_max}, " in app.text()
        await press_keys(pilot, "b")
        assert app.whatif.setting == best.model
        assert app.numbers == expected(best.model)

    drive(press)


def test_a_best_that_is_slower_than_off_says_so() -> None:
    slow = replace(COSTS, verify_s=tuple(3 * seconds for seconds in COSTS.verify_s))
    state = replace(FOUND, known=KnownCosts(costs=slow, source="x"))
    assert "off is predicted to be faster" in seen(state=state)
    assert "off is predicted" not in seen()


def test_the_shown_setting_can_be_applied() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "right", "right", "a")
        assert app.heard == [("apply", drafting(6))]
        assert app.notices == ["From the next answer on: max 6, min 0, p_min 0.00."]

    drive(press)


def test_what_is_being_typed_counts_as_soon_as_the_setting_is_used() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down", "down", *"0.55", "a")
        assert app.heard == [("apply", drafting(4, 0, 0.55))]
        await press_keys(pilot, *"0.35", "s")
        assert app.whatif.setting == drafting(4, 0, 0.35)
        await press_keys(pilot, "up", "up", "1", "a")
        assert app.heard[-1] == ("apply", drafting(1, 0, 0.35))
        await press_keys(pilot, "7", "b")
        assert REPLAYED.best is not None
        assert app.whatif.setting == REPLAYED.best.model
        assert app.whatif.query_one("#draft_max", Stepper).typed == ""

    drive(press)


def test_a_least_length_is_bounded_by_the_largest_that_is_typed() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "down", "end", "up", "2", "a")
        assert app.heard == [("apply", drafting(2, 2))]

    drive(press)


def test_without_a_prediction_the_key_for_the_best_says_why() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "b")
        (told,) = app.notices
        assert told.startswith("No best can be predicted. Tokens/s is not known: that takes rounds")

    drive(press, WITHOUT_COSTS)


def test_a_trace_is_saved_without_text_unless_the_user_says_so() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "s", "t", "s")
        assert app.heard == [("save", False), ("save", True)]
        assert app.notices == ["A saved trace will be with the text."]

    drive(press)


def test_what_was_measured_with_this_setting_is_told_beside_it() -> None:
    assert "measured in this chat: 31.0 tokens/s" in seen()
    assert "in a trial of tuning: 27.5 tokens/s" in seen("8", "enter")
    assert "31.0" not in seen("right")


@pytest.mark.parametrize("size", [(40, 12), *SIZES])
def test_what_the_chat_measured_is_whole_and_says_of_which_answers(size: tuple[int, int]) -> None:
    assert "measured in this chat: 31.0 tokens/s (answers that ran so)" in seen(size=size)


def test_without_costs_it_shows_counts_and_why_there_is_no_speed() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        assert app.numbers == ["-", "-", *expected(drafting(4))[2:]]
        shown = app.text()
        assert "Tokens/s is not known: that takes rounds of 3 different lengths" in shown
        assert "tokens/round by draft_max" in shown
        assert "Best predicted" not in shown
        await press_keys(pilot, "b")
        assert app.whatif.setting == drafting(4)

    drive(look, WITHOUT_COSTS)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (WhatIfState(reason="No draft is loaded."), "No draft is loaded."),
        (WhatIfState(recording=replace(CHAT, texts=())), "Nothing has been said yet"),
        (
            WhatIfState(recording=replace(CHAT, texts=(), failure="the context is too small")),
            "could not be recorded: the context is too small.",
        ),
        (
            WhatIfState(
                recording=replace(
                    CHAT,
                    texts=(
                        ChatText(
                            recording=replace(RECORDINGS[0], chains={}),
                            sampling=SamplingConfig(temp=0.0),
                        ),
                    ),
                )
            ),
            "The draft is going along what was answered",
        ),
    ],
)
def test_where_there_is_nothing_to_replay_it_says_why(state: WhatIfState, words: str) -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        assert words in app.text()
        assert not app.whatif.query_one("#found").display
        # Nothing to apply or to save.
        await press_keys(pilot, "a", "b", "s")
        assert app.heard == []

    drive(look, state)


def test_it_follows_what_is_recorded() -> None:
    async def follow(app: Host, pilot: Pilot[None]) -> None:
        assert "Nothing has been said yet" in app.text()
        more = replace(CHAT, texts=CHAT.texts[:1])
        app.whatif.show(replace(FOUND, recording=more))
        await idle(app, pilot)
        assert "59 tokens of 1 answer, replayed exactly." in app.text()
        await press_keys(pilot, "right")
        waiting = ChatText(
            recording=replace(RECORDINGS[1], chains={}), sampling=SamplingConfig(temp=0.0)
        )
        more = replace(CHAT, texts=(*CHAT.texts[:1], waiting))
        app.whatif.show(replace(FOUND, recording=more))
        await idle(app, pilot)
        assert (
            "59 tokens of 1 answer, replayed exactly. 1 answer more to be recorded." in app.text()
        )
        app.whatif.show(FOUND)
        await idle(app, pilot)
        assert "148 tokens of 2 answers, replayed exactly." in app.text()
        # What the user looks at stays.
        assert app.whatif.setting == drafting(5)
        assert app.numbers == expected(drafting(5))

    empty = WhatIfState(recording=replace(CHAT, texts=()), applied=drafting(4))
    drive(follow, empty)


def test_what_was_being_replayed_is_void_when_another_pair_comes() -> None:
    async def change(app: Host, pilot: Pilot[None]) -> None:
        app.whatif.show(replace(FOUND, recording=replace(CHAT, texts=CHAT.texts[:1])))
        app.whatif.show(WhatIfState(reason="No draft is loaded."))
        await idle(app, pilot)
        assert "No draft is loaded." in app.text()
        assert not app.whatif.query_one("#found").display

    drive(change)


def test_the_setting_in_use_is_told() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        assert "accepted • in use" in app.text()
        await press_keys(pilot, "right")
        assert "in use" not in app.text()

    drive(look)


def test_the_same_text_is_not_replayed_again() -> None:
    async def again(app: Host, pilot: Pilot[None]) -> None:
        measured = (replace(MEASURED[0], tokens_per_s=33.0),)
        app.whatif.show(replace(FOUND, measured=measured))
        assert app.is_idle
        await handled(pilot)
        assert "measured in this chat: 33.0 tokens/s" in app.text()

    drive(again)


def test_escape_closes_it() -> None:
    async def leave(app: Host, pilot: Pilot[None]) -> None:
        await press_keys(pilot, "escape")
        assert app.screen is not app.whatif

    drive(leave)


def is_in_view(widget: Widget) -> bool:
    """Whether the whole widget is on the screen, and in no part that is scrolled away."""
    region = widget.region
    shown = widget.screen.find_widget(widget).visible_region
    return bool(region) and region == shown and widget.screen.region.contains_region(region)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_at_every_size_what_matters_is_in_view_and_numbers_are_plain_where_room_is_short(
    glyphs: Glyphs,
) -> None:
    speed, factor, rate, length = expected(drafting(4))
    plain = (
        f"{speed} tokens/s",
        f"{factor} of off",
        f"{rate} acceptance",
        f"{length} tokens/round",
    )
    sizes = [*SMALL, *SIZES]

    async def look(app: Host, pilot: Pilot[None]) -> None:
        # Each is left for one that is larger, and one that is smaller, and come back to.
        for size in (*sizes, *reversed(sizes[:-1])):
            await resize(pilot, *size)
            await idle(app, pilot)
            for widget in (*app.whatif.query(Stepper), *app.whatif.query(Numbers)):
                assert is_in_view(widget), size
            assert is_in_view(app.whatif.query_one("#counts")), size
            assert is_in_view(app.whatif.query_one(KeyBar)), size
            shown = app.text()
            assert "148 tokens of 2 answers" in shown, size
            assert "esc Back" in shown, size
            if size in SMALL:
                assert [words for words in plain if words not in shown] == [], size

    drive(look, size=sizes[0], glyphs=glyphs)


def test_what_has_no_room_can_be_scrolled_to() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        shown, before = app.text(), app.lines()
        assert "shown" not in shown.split()
        assert "costs fitted to" not in shown
        seen_on_the_way = shown
        for _ in range(3):
            await press_keys(pilot, "pagedown")
            seen_on_the_way += app.text()
        assert "Best predicted: max" in seen_on_the_way
        assert "tokens/s:" in seen_on_the_way
        assert app.text().count("costs fitted to 210 rounds") == 1
        # How to leave stays; the parameter that has the keys still has them.
        assert "esc Back" in app.text()
        await press_keys(pilot, "right")
        assert app.whatif.setting == drafting(5)
        await press_keys(pilot, "left", "pageup", "pageup", "pageup")
        assert app.lines() == before
        await pilot._post_mouse_events([MouseScrollDown], app.whatif.query_one(Steppers), button=0)
        await handled(pilot)
        await pilot.wait_for_animation()
        assert app.lines() != before
        # Going to a parameter shows it.
        await press_keys(pilot, "pagedown", "pagedown", "down")
        await settled(pilot, lambda: is_in_view(app.whatif.query_one("#draft_min")))

    drive(look, size=(40, 12))


def test_the_whole_plot_can_be_seen_on_a_small_screen() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        app.whatif.query_one(WhatIfPlot).scroll_visible(animate=False)
        await handled(pilot)
        assert is_in_view(app.whatif.query_one(WhatIfPlot))
        assert app.lines().count("◆") == 2

    drive(look, size=(40, 12))


def test_notices_leave_setting_and_throughput_in_view() -> None:
    async def press(app: Host, pilot: Pilot[None]) -> None:
        for told in ("a" * 300, "Saved"):
            app.notify(told, timeout=60)
            await handled(pilot)
            (toast,) = [toast for toast in app.whatif.query(Toast) if toast.region]
            for widget in (*app.whatif.query(Stepper), app.whatif.query_one(BigNumber)):
                assert not toast.region.overlaps(widget.region)
            assert told[:30] in app.text()
        await press_keys(pilot, "t", "a")
        assert "From the next answer on: max 4" in app.text()

    drive(press, size=(40, 12), notifications=True)


@pytest.mark.parametrize("state", [FOUND, WITHOUT_COSTS, WhatIfState(reason="No draft: none.")])
def test_in_ascii_there_is_nothing_else(state: WhatIfState) -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        for size in ((40, 12), *SIZES):
            await resize(pilot, *size)
            assert app.lines().isascii(), size
            await press_keys(pilot, "right", "down", "right")
            assert app.lines().isascii(), size

    drive(look, state, size=(40, 12), glyphs=ASCII)


def test_in_ascii_the_numbers_are_plain() -> None:
    async def look(app: Host, _pilot: Pilot[None]) -> None:
        assert app.numbers == []
        for number in expected(drafting(4)):
            assert number in app.text()
        assert len(app.whatif.query(BigNumber)) == 4

    drive(look, glyphs=ASCII)


def test_marks_tell_by_shape_what_was_measured_where() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED)
    assert [(kind, x) for kind, x, _y in drawn.points] == [
        (Mark.OTHER, 10),
        (Mark.TRIAL, 8),
        (Mark.CHAT, 4),
    ]
    alone = COSTS.at(REPLAYED.at(drafting(4)).mean_past)
    assert drawn.off == pytest.approx(1 / alone.off_s)
    words = "tokens/s by draft_max:  ◆ shown  ■ measured  × trial  · other line  ─ off"
    assert legend(drawn, UNICODE, 80) == f"{words} {drawn.off:.1f}"
    on_the_other = curve(REPLAYED.line(drafting(4, 0, 0.3)), drafting(4, 0, 0.3), MEASURED)
    assert [kind for kind, _x, _y in on_the_other.points] == [Mark.OTHER, Mark.OTHER, Mark.TRIAL]


def test_the_legend_says_of_which_answers_curve_and_points_are_where_there_is_room() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED[:1])
    off = f"─ off {drawn.off:.1f}"
    plain = f"tokens/s by draft_max:  ◆ shown  ■ measured  {off}"
    short = f"tokens/s by draft_max:  ◆ shown  ■ measured: answers that ran so  {off}"
    full = f"tokens/s by draft_max, all answers:  ◆ shown  ■ measured: answers that ran so  {off}"
    least = f"tokens/s:  ◆ shown  ■ measured  {off}"
    for words, shorter in ((full, short), (short, plain), (plain, least)):
        assert legend(drawn, UNICODE, len(words)) == words
        assert legend(drawn, UNICODE, len(words) - 1) == shorter
    assert legend(drawn, UNICODE, 0) == least
    # Trials are of the prompts of tuning.
    tuned = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED[1:2])
    assert "answers" not in legend(tuned, UNICODE, 200)


RANGES = [(4.9, 8.1), (14.0, 31.0), (0.05, 0.09), (90.0, 1200.0), (7.0, 7.0), (0.0, 3.5)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_every_tick_of_the_axis_is_in_the_middle_of_a_row_of_its_own(
    low: float, high: float
) -> None:
    for n_rows in range(2, 50):
        scale = axis(low, high, n_rows)
        assert scale.low <= low <= high <= scale.high
        rows = [scale.row(value) for value, _label in scale.ticks]
        assert 2 <= len(rows) <= 8
        # None is left out: they are as far apart as their values.
        assert rows == sorted(set(rows))
        assert len({after - before for before, after in pairwise(rows)}) <= 1
        per_row = (scale.high - scale.low) / n_rows
        for (value, label), row in zip(scale.ticks, rows, strict=True):
            assert float(label) == value
            assert scale.low + (row + 0.5) * per_row == pytest.approx(value, abs=per_row / 1e3)
        assert scale.row(low) < scale.row(high) or high == low


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_measured_point_stands_in_the_row_of_its_label(glyphs: Glyphs) -> None:
    sign = "■" if glyphs is UNICODE else "o"

    async def check(app: Host, pilot: Pilot[None]) -> None:
        def rows() -> list[str]:
            chart = app.whatif.query_one("PlotWidget" if glyphs is UNICODE else "#chart").region
            shown = app.lines().split("\n")[chart.y : chart.bottom - 1]
            return [line[:79] for line in shown if line.split()]

        labels = [line.split()[0] for line in rows() if line.split()[0].isdigit()]
        assert len(labels) > 1
        for label in labels:
            one = replace(MEASURED[0], setting=drafting(15), tokens_per_s=float(label))
            app.whatif.show(replace(FOUND, measured=(one,)))
            await idle(app, pilot)
            (row,) = [line for line in rows() if sign in line]
            assert row.split()[0] == label, pilot.app.size

    async def look(app: Host, pilot: Pilot[None]) -> None:
        for height in (22, 23, 24, 26, 31, 40):
            await resize(pilot, 80, height)
            app.whatif.show(FOUND)
            await idle(app, pilot)
            await check(app, pilot)

    drive(look, size=(80, 22), glyphs=glyphs)


def test_the_best_lies_within_the_axes_although_it_is_on_another_line() -> None:
    worse = drafting(4, 0, 0.9)
    best = REPLAYED.best
    assert best is not None
    assert best.tokens_per_s is not None
    drawn = curve(REPLAYED.line(worse), worse, (), best)
    assert drawn.points == ((Mark.BEST, best.model.draft_max, best.tokens_per_s),)
    assert max(drawn.values) < best.tokens_per_s
    scale = drawn.axis(10)
    assert scale.low <= best.tokens_per_s <= scale.high
    assert "@ best" in legend(drawn, ASCII, 80)


def test_the_axis_has_its_unit_where_there_is_room() -> None:
    async def look(app: Host, pilot: Pilot[None]) -> None:
        for height, is_there in ((40, True), (24, False)):
            await resize(pilot, 80, height)
            await idle(app, pilot)
            assert app.whatif.query_one("#unit").display is is_there

    drive(look, size=(80, 40))


@pytest.mark.parametrize("draft_max", [1, DEPTH])
def test_marks_at_the_ends_are_drawn(draft_max: int) -> None:
    one = replace(MEASURED[0], setting=drafting(draft_max), tokens_per_s=40.0)

    async def look(app: Host, _pilot: Pilot[None]) -> None:
        # In the plot, and in the legend.
        assert app.lines().count("■") == 2 + len(app.whatif.query(Stepper))

    drive(look, replace(FOUND, measured=(one,)))


def test_what_is_beyond_the_line_is_not_drawn() -> None:
    far = Measured(source=Source.TRIAL, setting=drafting(17), tokens_per_s=9.0)
    assert curve(REPLAYED.line(drafting(4)), drafting(4), (far,)).points == ()


def test_the_ascii_chart_has_the_curve_the_level_and_the_marks() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED)
    lines = ascii_chart(drawn, 71, 12)
    assert len(lines) == 12
    assert max(map(len, lines)) <= 71
    chart = "\n".join(line[7:] for line in lines[:-1])
    # One is hidden by none: marks stand above the curve.
    assert chart.count("#") == 1
    assert chart.count("o") == 1
    assert chart.count("x") == 1
    assert chart.count(".") == 1
    assert 10 <= chart.count("*") <= DEPTH
    assert "----" in chart
    assert lines[-1].split() == [str(x) for x in range(1, DEPTH + 1)]
    # The larger value stands above the smaller one.
    column = 7 + 4 * (10 - 1) + 2
    labels = [float(line[:5]) for line in lines[:-1] if line[:5].strip()]
    assert len(labels) > 1
    assert labels == sorted(labels, reverse=True)
    assert [line[column : column + 1] for line in lines[:-1]].count(".") == 1


def test_lengths_that_have_no_room_under_the_ascii_chart_are_left_out() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), ())
    lines = ascii_chart(drawn, 7 + DEPTH, 8)
    assert lines[-1] == "       1   5   9   13"
    assert lines[-1].index("9") - 7 == 9 - 1


def test_one_value_alone_can_be_drawn() -> None:
    drawn = curve(REPLAYED.line(drafting(4))[:1], drafting(1), ())
    assert any("#" in line for line in ascii_chart(drawn, 20, 3))


def post(cockpit: Cockpit, recording: ChatRecording | None) -> None:
    cockpit.threads.post(ChatRecorded(recording=recording))


def screen_of(cockpit: Cockpit) -> WhatIfScreen:
    assert isinstance(cockpit.app.screen, WhatIfScreen)
    return cockpit.app.screen


async def looked(cockpit: Cockpit, pilot: Pilot[None]) -> str:
    """Wait until nothing is replayed any more; return what the screen says."""
    await handled(pilot)
    await settled(pilot, lambda: not cockpit.app.workers)
    strips = screen_of(cockpit)._compositor.render_strips()
    text = " ".join("".join(segment.text for segment in line) for line in strips)
    return " ".join(text.split())


async def test_a_key_opens_it_on_what_the_session_recorded() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        post(cockpit, CHAT)
        cockpit.tuning(TuningState(records=(trial(0), trial(1, arm(4), 1.2))))
        await settled(pilot)
        await press_keys(pilot, "f10")
        shown = await looked(cockpit, pilot)
        assert "drafts: 148 tokens of 2 answers, replayed exactly." in shown
        # Four are drafted in the chat.
        assert screen_of(cockpit).setting == drafting(4)
        assert "in use in a trial of tuning: 12.0 tokens/s" in shown
        post(cockpit, replace(CHAT, texts=CHAT.texts[:1]))
        await settled(pilot)
        assert "drafts: 59 tokens of 1 answer, replayed" in await looked(cockpit, pilot)
        cockpit.tuning(TuningState(records=(trial(0), trial(1, arm(4), 1.5))))
        await settled(pilot)
        assert "in a trial of tuning: 15.0 tokens/s" in await looked(cockpit, pilot)
        await press_keys(pilot, "f10")
        assert len(cockpit.app.screen_stack) == 3
        await press_keys(pilot, "escape")
        assert cockpit.app.screen is cockpit.app.live


async def test_an_applied_setting_is_the_next_answers() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        post(cockpit, CHAT)
        await press_keys(pilot, "f10")
        await looked(cockpit, pilot)
        await press_keys(pilot, "right", "right", "a")
        assert setup_of(cockpit).speculation == Speculation(drafting(6))
        assert "in use" in await looked(cockpit, pilot)


@pytest.mark.parametrize(
    ("started", "words"),
    [
        (launch(pair=Pair(target=TARGET, draft=None)), "No draft is loaded"),
        (
            launch(settings=Settings(keep_sessions=False, record_chats=False)),
            "config.toml says record_chats = false",
        ),
        (launch(), "Nothing has been said yet"),
    ],
)
async def test_the_app_says_why_there_is_nothing_to_replay(started: Launch, words: str) -> None:
    cockpit = Cockpit(started)
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "f10")
        assert words in await looked(cockpit, pilot)
    assert cockpit.script.records_chats is started.settings.record_chats


async def test_while_the_first_answer_is_written_it_says_so() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        await press_keys(pilot, "h", "enter", "f10")
        assert "An answer is being written; when it is there" in await looked(cockpit, pilot)
        cockpit.script.stop()
        await ready(cockpit, pilot)
        # It was stopped before its first token.
        assert "Nothing has been said yet" in await looked(cockpit, pilot)


async def test_of_a_chat_that_was_taken_up_it_says_that_its_answers_are_not_recorded() -> None:
    cockpit = Cockpit()
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        cockpit.app.session.conversation.chat.restore(
            (UserTurn(text="2+2?"), AnswerPart(text="4", drafted=()))
        )
        await press_keys(pilot, "f10")
        shown = await looked(cockpit, pilot)
        assert "What was answered so far is not recorded, as answers of earlier sessions" in shown


async def test_before_a_pair_is_chosen_there_is_nothing_to_replay() -> None:
    cockpit = Cockpit(launch(pair=None))
    async with cockpit.shown() as pilot:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.NO_MODEL)
        await press_keys(pilot, "f10")
        assert "No pair is loaded yet" in await looked(cockpit, pilot)


async def test_a_trace_is_saved_where_the_app_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    cockpit = Cockpit()

    def chat_trace(recording: ChatRecording, schedule: Schedule, costs: Costs | None) -> Trace:
        return make_trace(
            recording,
            target=loaded(Role.TARGET),
            drafter=loaded(Role.DRAFT),
            schedule=schedule,
            costs=costs,
        )

    monkeypatch.setattr(cockpit.script, "chat_trace", chat_trace, raising=False)
    async with cockpit.shown() as pilot:
        await ready(cockpit, pilot)
        other = ChatText(recording=RECORDINGS[0], sampling=SamplingConfig(temp=0.7))
        post(cockpit, replace(CHAT, texts=(other, CHAT.texts[1])))
        await press_keys(pilot, "f10")
        await looked(cockpit, pilot)
        await press_keys(pilot, "s")
        await looked(cockpit, pilot)
        (path,) = (tmp_path / "data" / "traces").iterdir()
        (told,) = [notice.message for notice in cockpit.app._notifications]
        assert told == (
            f"Saved 1 answer, without text, to {path} (1 answer sampled otherwise left out)"
        )
        assert not read_trace(path).has_text
        (tmp_path / "data" / "traces").rename(tmp_path / "moved")
        (tmp_path / "data" / "traces").write_text("in the way")
        await press_keys(pilot, "s")
        await looked(cockpit, pilot)
        assert "cannot create the folder" in [n.message for n in cockpit.app._notifications][-1]


@pytest.mark.parametrize(
    ("size", "glyphs"),
    [((120, 40), UNICODE), ((80, 24), ASCII), ((40, 12), UNICODE)],
    ids=["wide", "ascii", "small"],
)
def test_pictures(
    snap_compare: SnapCompare,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    glyphs: Glyphs,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TEXTUAL_THEME", raising=False)
    app = Host(FOUND, glyphs)

    async def run(pilot: Pilot[None]) -> None:
        await idle(app, pilot)
        await press_keys(pilot, "right", "right")

    assert snap_compare(app, terminal_size=size, run_before=run)
