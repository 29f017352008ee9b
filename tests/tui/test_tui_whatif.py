"""The what-if screen: driven by states and keys, seen as text, heard by a controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from spectui.live.setup import Activity, ChatRecorded, Pair
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
from spectui.options.setup import SamplingConfig
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
    DRAFT,
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
    known=KNOWN,
    measured=MEASURED,
    applied=drafting(4),
)
WITHOUT_COSTS = replace(FOUND, known=known_costs((), None, None), measured=())
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


class Stage:
    """The screen, with what a user does to it."""

    def __init__(self, app: Host, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        await press_keys(self.pilot, *keys)
        return await self.idle()

    async def show(self, state: WhatIfState) -> str:
        self.app.whatif.show(state)
        return await self.idle()

    async def at(self, size: tuple[int, int]) -> str:
        await resize(self.pilot, *size)
        return await self.idle()

    async def set(self, setting: Model) -> None:
        """Begin anew, with the keys at the first parameter."""
        steppers = self.app.whatif.query_one(Steppers)
        steppers.setting = setting
        steppers.query_one("#draft_max", Stepper).focus()
        await handled(self.pilot)

    async def idle(self) -> str:
        """Wait until nothing is replayed; return what is shown."""
        await handled(self.pilot)
        await settled(self.pilot, lambda: self.app.is_idle)
        return self.app.text()


@asynccontextmanager
async def opened(
    state: WhatIfState = FOUND,
    *,
    size: tuple[int, int] = (120, 40),
    glyphs: Glyphs = UNICODE,
    notifications: bool = False,
) -> AsyncIterator[tuple[Host, Stage]]:
    """The screen in ``state``, with toasts if asked for."""
    app = Host(state, glyphs)
    async with app.run_test(size=size, notifications=notifications) as pilot:
        stage = Stage(app, pilot)
        await stage.idle()
        yield app, stage


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


async def test_it_begins_with_what_is_applied_and_says_what_is_predicted_and_measured() -> None:
    slow = replace(COSTS, verify_s=tuple(3 * seconds for seconds in COSTS.verify_s))
    assert REPLAYED.best is not None
    best = REPLAYED.best.model
    async with opened() as (app, stage):
        assert app.whatif.setting == drafting(4)
        assert app.numbers == expected(drafting(4))
        shown = app.text()
        for said in (
            "What if SmolLM2-135M drafts: 148 tokens of 2 answers, replayed exactly.",
            "Speed: predicted, costs fitted to 210 rounds",
            "accepted • in use",
            f"Best predicted: max {best.draft_max}, ",
        ):
            assert said in shown
        assert "off is predicted" not in shown
        for size in ((40, 12), *SIZES):
            shown = await stage.at(size)
            assert "measured in this chat: 31.0 tokens/s (answers that ran so)" in shown, size
        shown = await stage.press("right")
        assert "31.0" not in shown
        assert "in use" not in shown
        assert "in a trial of tuning: 27.5 tokens/s" in await stage.press("8", "enter")
        await stage.press("b")
        assert app.whatif.setting == best
        assert app.numbers == expected(best)
        # The same text is not replayed again.
        app.whatif.show(replace(FOUND, measured=(replace(MEASURED[0], tokens_per_s=33.0),)))
        assert app.is_idle
        await stage.press("4", "enter")
        assert "measured in this chat: 33.0 tokens/s" in app.text()
        # The axis has its unit where there is room.
        for height, is_there in ((40, True), (24, False)):
            await stage.at((80, height))
            assert app.whatif.query_one("#unit").display is is_there
        await stage.press("escape")
        assert app.screen is not app.whatif
    async with opened(replace(FOUND, known=KnownCosts(costs=slow, source="x"))) as (app, _):
        assert "off is predicted to be faster" in app.text()


SIMPLE = NgramSimple(size_m=48)


async def test_it_says_whom_of_those_who_draft_it_does_not_answer_for() -> None:
    def of(applied: Speculation | None) -> WhatIfState:
        return whatif_state(CHAT, applied=applied)

    async with opened(of(Speculation(SIMPLE))) as (app, stage):
        said = "In the chat ngram-simple drafts, which is not replayed here."
        assert said in app.text()
        # What others drafted is not counted as drafted by who is replayed.
        assert "this session has drafted nothing often enough with it alone" in app.text()
        assert "What if the draft drafts: 148" in await stage.at((40, 12))
        await stage.at((120, 40))
        said = "In the chat ngram-simple is asked first, which is not replayed here."
        assert said in await stage.show(of(Speculation(drafting(4), (SIMPLE,))))
        for applied in (Speculation(drafting(4)), None):
            assert "not replayed here" not in await stage.show(of(applied))


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
    # The least length is never above the largest.
    (["down", "end", "up", "left", "left"], drafting(2, 2)),
]


async def test_keys_and_the_mouse_change_the_setting_and_its_numbers() -> None:
    async with opened() as (app, stage):
        for keys, setting in KEYS:
            await stage.set(drafting(4))
            await press_keys(stage.pilot, *keys)
            assert app.whatif.setting == setting, keys
            # At once: nothing is replayed for it.
            assert app.is_idle
            assert app.numbers == expected(setting)
        line = str(app.whatif.query_one("#draft_max", Stepper).render())
        for x in (len(line) - len(" 1 to 16") - 1, len(line) - 1):
            await stage.pilot.click("#draft_max", offset=(x, 0))
            await handled(stage.pilot)
            assert app.whatif.setting.draft_max == 16
        # A value between the steps is replayed aside.
        await stage.set(drafting(4))
        await stage.press("down", "down", *"0.333", "enter")
        assert app.whatif.setting == drafting(4, 0, 0.333)
        assert app.numbers == expected(drafting(4, 0, 0.333))
        await stage.press("left")
        assert app.whatif.setting == drafting(4, 0, 0.3)
        await stage.press(*"0.333", "right")
        assert app.whatif.setting == drafting(4, 0, 0.35)


async def test_the_draft_min_that_was_chosen_returns_with_draft_max() -> None:
    steps = [
        (("down", "3", "enter", "up", "left", "left", "left"), drafting(1, 1)),
        (("right",), drafting(2, 2)),
        (("right", "right", "right"), drafting(5, 3)),
        # A step that is not possible changes nothing; one that is, and a typed value, do.
        (("2", "enter", "down", "right", "up", "end"), drafting(16, 3)),
        (("2", "enter", "down", "left", "up", "end"), drafting(16, 1)),
        (("down", "4", "up", "2", "enter", "down", "2", "up", "end"), drafting(16, 2)),
    ]
    async with opened() as (app, stage):
        for keys, setting in steps:
            await stage.press(*keys)
            assert app.whatif.setting == setting, keys
            assert app.numbers == expected(setting)
        # The best setting is a choice as well.
        assert REPLAYED.best is not None
        await stage.press("1", "b", "end")
        assert app.whatif.setting.draft_min == REPLAYED.best.model.draft_min


async def test_what_is_shown_is_applied_and_saved_and_what_is_typed_counts() -> None:
    assert REPLAYED.best is not None
    applied: list[tuple[tuple[str, ...], Model]] = [
        (("right", "right", "a"), drafting(6)),
        (("down", "down", *"0.55", "a"), drafting(4, 0, 0.55)),
        (("down", "down", *"0.55", "up", "up", "1", "a"), drafting(1, 0, 0.55)),
        (("down", "end", "up", "2", "a"), drafting(2, 2)),
    ]
    async with opened() as (app, stage):
        for keys, setting in applied:
            await stage.set(drafting(4))
            await stage.press(*keys)
            assert app.heard[-1] == ("apply", setting)
        assert len(app.heard) == len(applied)
        assert app.notices[0] == "From the next answer on: max 6, min 0, p_min 0.00."
        app.heard.clear()
        app.clear_notifications()
        # A trace is saved without text unless the user says so.
        await stage.press("7", "s", "t", "s")
        assert app.whatif.setting.draft_max == 7
        assert app.heard == [("save", False), ("save", True)]
        assert app.notices == ["A saved trace will be with the text."]
        await stage.press("7", "b")
        assert app.whatif.setting == REPLAYED.best.model
        assert app.whatif.query_one("#draft_max", Stepper).typed == ""


async def test_without_costs_it_shows_counts_and_why_there_is_no_speed() -> None:
    async with opened(WITHOUT_COSTS) as (app, stage):
        assert app.numbers == ["-", "-", *expected(drafting(4))[2:]]
        shown = app.text()
        assert "Tokens/s is not known: that takes rounds of 3 different lengths" in shown
        assert "tokens/round by draft_max" in shown
        assert "Best predicted" not in shown
        await stage.press("b")
        assert app.whatif.setting == drafting(4)
        (told,) = app.notices
        assert told.startswith("No best can be predicted. Tokens/s is not known: that takes rounds")


async def test_it_follows_what_is_recorded_and_says_why_there_is_nothing_to_replay() -> None:
    def unread(index: int) -> ChatText:
        recording = replace(RECORDINGS[index], chains={})
        return ChatText(recording=recording, sampling=SamplingConfig(temp=0.0))

    def of(*texts: ChatText) -> WhatIfState:
        return replace(FOUND, recording=replace(CHAT, texts=texts))

    broken = replace(CHAT, texts=(), failure="the context is too small")
    nothing = [
        (WhatIfState(reason="No draft is loaded."), "No draft is loaded."),
        (WhatIfState(recording=broken), "could not be recorded: the context is too small."),
        (of(unread(0)), "The draft is going along what was answered"),
    ]
    first = CHAT.texts[0]
    empty = WhatIfState(recording=replace(CHAT, texts=()), applied=drafting(4))
    async with opened(empty) as (app, stage):
        assert "Nothing has been said yet" in app.text()
        assert "59 tokens of 1 answer, replayed exactly." in await stage.show(of(first))
        await stage.press("right")
        more = "59 tokens of 1 answer, replayed exactly. 1 answer more to be recorded."
        assert more in await stage.show(of(first, unread(1)))
        assert "148 tokens of 2 answers, replayed exactly." in await stage.show(FOUND)
        # What the user looks at stays.
        assert app.whatif.setting == drafting(5)
        assert app.numbers == expected(drafting(5))
        for state, words in nothing:
            # What was being replayed is void when another pair comes.
            app.whatif.show(of(first))
            assert words in await stage.show(state)
            assert not app.whatif.query_one("#found").display
            # Nothing to apply or to save.
            await stage.press("a", "b", "s")
            assert app.heard == []


def is_in_view(widget: Widget) -> bool:
    """Whether the whole widget is on the screen, and in no part that is scrolled away."""
    region = widget.region
    shown = widget.screen.find_widget(widget).visible_region
    return bool(region) and region == shown and widget.screen.region.contains_region(region)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_at_every_size_what_matters_is_in_view(glyphs: Glyphs) -> None:
    speed, factor, rate, length = numbers = expected(drafting(4))
    plain = (
        *(f"{speed} tokens/s", f"{factor} of off", f"{rate} acceptance"),
        f"{length} tokens/round",
    )
    sizes = [*SMALL, *SIZES]
    async with opened(size=sizes[0], glyphs=glyphs) as (app, stage):
        # Each is left for one that is larger, and one that is smaller, and come back to.
        for size in (*sizes, *reversed(sizes[:-1])):
            shown = await stage.at(size)
            widgets = (*app.whatif.query(Stepper), *app.whatif.query(Numbers))
            for widget in (*widgets, app.whatif.query_one("#counts"), app.whatif.query_one(KeyBar)):
                assert is_in_view(widget), size
            assert "148 tokens of 2 answers" in shown, size
            assert "esc Back" in shown, size
            if size in SMALL:
                # Numbers are plain where room is short.
                assert [words for words in plain if words not in shown] == [], size
        if glyphs is UNICODE:
            return
        for state in (FOUND, WITHOUT_COSTS, WhatIfState(reason="No draft: none.")):
            await stage.show(state)
            for size in ((40, 12), *SIZES):
                await stage.at(size)
                assert app.lines().isascii(), size
            if state is FOUND:
                assert app.numbers == []
                assert [number for number in numbers if number not in app.text()] == []
                assert len(app.whatif.query(BigNumber)) == 4


async def test_what_has_no_room_can_be_scrolled_to() -> None:
    async with opened(size=(40, 12), notifications=True) as (app, stage):
        shown, before = app.text(), app.lines()
        assert "shown" not in shown.split()
        assert "costs fitted to" not in shown
        for _ in range(3):
            shown += await stage.press("pagedown")
        assert "Best predicted: max" in shown
        assert "tokens/s:" in shown
        assert app.text().count("costs fitted to 210 rounds") == 1
        # How to leave stays; the parameter that has the keys still has them.
        assert "esc Back" in app.text()
        await stage.press("right")
        assert app.whatif.setting == drafting(5)
        await stage.press("left", "pageup", "pageup", "pageup")
        assert app.lines() == before
        steppers = app.whatif.query_one(Steppers)
        await stage.pilot._post_mouse_events([MouseScrollDown], steppers, button=0)
        await stage.idle()
        assert app.lines() != before
        # Going to a parameter shows it.
        await stage.press("pagedown", "pagedown", "down")
        await settled(stage.pilot, lambda: is_in_view(app.whatif.query_one("#draft_min")))
        # The whole plot can be seen.
        plot = app.whatif.query_one(WhatIfPlot)
        plot.scroll_visible(animate=False)
        await stage.idle()
        assert is_in_view(plot)
        assert app.lines().count("◆") == 2
        # Notices leave setting and throughput in view.
        await stage.press("pageup", "pageup", "pageup")
        for told in ("a" * 300, "Saved"):
            app.notify(told, timeout=60)
            await stage.idle()
            (toast,) = [toast for toast in app.whatif.query(Toast) if toast.region]
            for widget in (*app.whatif.query(Stepper), app.whatif.query_one(BigNumber)):
                assert not toast.region.overlaps(widget.region)
            assert told[:30] in app.text()
        assert "From the next answer on: max 4" in await stage.press("t", "a")


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
async def test_a_measured_point_stands_in_the_row_of_its_label(glyphs: Glyphs) -> None:
    sign = "■" if glyphs is UNICODE else "o"
    async with opened(size=(80, 22), glyphs=glyphs) as (app, stage):

        def rows() -> list[str]:
            chart = app.whatif.query_one("PlotWidget" if glyphs is UNICODE else "#chart").region
            shown = app.lines().split("\n")[chart.y : chart.bottom - 1]
            return [line[:79] for line in shown if line.split()]

        async def measure(draft_max: int, tokens_per_s: float) -> None:
            one = replace(MEASURED[0], setting=drafting(draft_max), tokens_per_s=tokens_per_s)
            await stage.show(replace(FOUND, measured=(one,)))

        for height in (22, 26, 40):
            await stage.at((80, height))
            await stage.show(FOUND)
            labels = [line.split()[0] for line in rows() if line.split()[0].isdigit()]
            assert len(labels) > 1
            for label in labels:
                await measure(15, float(label))
                (row,) = [line for line in rows() if sign in line]
                assert row.split()[0] == label, height
        if glyphs is UNICODE:
            # Marks at the ends are drawn: in the plot, and in the legend.
            for draft_max in (1, DEPTH):
                await measure(draft_max, 40.0)
                assert app.lines().count("■") == 2 + len(app.whatif.query(Stepper))


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


async def test_the_app_says_why_there_is_nothing_to_replay() -> None:
    settings = Settings(keep_sessions=False, record_chats=False)
    for started, words in (
        (launch(pair=Pair(target=TARGET, draft=None)), "No draft is loaded"),
        (launch(settings=settings), "config.toml says record_chats = false"),
    ):
        cockpit = Cockpit(started)
        async with cockpit.shown() as pilot:
            await ready(cockpit, pilot)
            await press_keys(pilot, "f10")
            assert words in await looked(cockpit, pilot)
        assert cockpit.script.records_chats is started.settings.record_chats
    cockpit = Cockpit(launch(pair=None))
    async with cockpit.shown() as pilot:
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.NO_MODEL)
        await press_keys(pilot, "f10")
        assert "No pair is loaded yet" in await looked(cockpit, pilot)
        await press_keys(pilot, "escape")
        cockpit.script.load_events[0], events = [], cockpit.script.load_events[0]
        cockpit.app.picker.choose(Pair(target=TARGET, draft=DRAFT))
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOADING)
        await press_keys(pilot, "f10")
        assert "The models are being loaded" in await looked(cockpit, pilot)
        for event in events:
            cockpit.threads.post(event)
        await ready(cockpit, pilot)
        assert "Nothing has been said yet" in await looked(cockpit, pilot)
        await press_keys(pilot, "escape", "h", "enter", "f10")
        assert "An answer is being written; when it is there" in await looked(cockpit, pilot)
        cockpit.script.stop()
        await ready(cockpit, pilot)
        # It was stopped before its first token.
        assert "Nothing has been said yet" in await looked(cockpit, pilot)
        await press_keys(pilot, "escape")
        chat = cockpit.app.session.conversation.chat
        chat.restore((UserTurn(text="2+2?"), AnswerPart(text="4", drafted=())))
        await press_keys(pilot, "f10")
        shown = await looked(cockpit, pilot)
        assert "What was answered so far is not recorded, as answers of earlier sessions" in shown


async def test_a_trace_is_saved_where_the_app_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    cockpit = Cockpit()

    def chat_trace(recording: ChatRecording, costs: Costs | None) -> Trace:
        return make_trace(
            recording,
            target=loaded(Role.TARGET),
            drafter=loaded(Role.DRAFT),
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
        stage = Stage(app, pilot)
        await stage.idle()
        await stage.press("right", "right")

    assert snap_compare(app, terminal_size=size, run_before=run)
