"""The what-if screen: driven by states and keys, seen as text, heard by a controller."""

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
from spectui.tui.colours import THEMES
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.whatif.controller import WhatIfController
from spectui.tui.whatif.plot import Mark, WhatIfPlot, ascii_chart, axis, curve, legend
from spectui.tui.whatif.screen import BigNumber, Numbers, WhatIfScreen
from spectui.tui.whatif.stepper import Stepper, Steppers
from spectui.tui.widgets import KeyBar
from spectui.tune.progress import TuningState
from tests.support import cockpit as support
from tests.support.cockpit import (
    DRAFT,
    TARGET,
    Cockpit,
    Stage,
    handled,
    launch,
    loaded,
    press_keys,
    ready,
    screen_lines,
    settled,
    setup_of,
    staged,
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


class Host(support.Host):
    """The screen in a state."""

    def __init__(self, state: WhatIfState = FOUND, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(glyphs)
        self.theme = THEMES[0].name
        self.whatif = WhatIfScreen(cast("WhatIfController", self.controller), state)
        self.opened = self.whatif

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being replayed."""
        return not self.whatif.workers

    @property
    def numbers(self) -> list[str]:
        return [digits.value for digits in self.whatif.query(Digits)]


async def show(stage: Stage[Host], state: WhatIfState) -> str:
    stage.app.whatif.show(state)
    await stage.idle()
    return stage.app.words()


async def step(stage: Stage[Host], setting: Model, *keys: str) -> Model:
    """Begin anew, with the keys at the first parameter; return the setting after ``keys``."""
    steppers = stage.app.whatif.query_one(Steppers)
    steppers.setting = setting
    steppers.query_one("#draft_max", Stepper).focus()
    await handled(stage.pilot)
    await press_keys(stage.pilot, *keys)
    return stage.app.whatif.setting


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
    async with staged(Host()) as (app, stage):
        assert app.whatif.setting == drafting(4)
        assert app.numbers == expected(drafting(4))
        shown = app.words()
        for said in (
            "What if SmolLM2-135M drafts: 148 tokens of 2 answers, replayed exactly.",
            "Speed: predicted, costs fitted to 210 rounds",
            "accepted • in use",
            f"Best predicted: max {best.draft_max}, ",
        ):
            assert said in shown
        assert "off is predicted" not in shown
        for size in ((40, 12), *SIZES):
            await stage.at(size)
            assert "measured in this chat: 31.0 tokens/s (answers that ran so)" in app.words(), size
        await stage.press("right")
        assert "31.0" not in app.words()
        assert "in use" not in app.words()
        await stage.press("8", "enter")
        assert "in a trial of tuning: 27.5 tokens/s" in app.words()
        await stage.press("b")
        assert app.whatif.setting == best
        assert app.numbers == expected(best)
        # The same text is not replayed again.
        app.whatif.show(replace(FOUND, measured=(replace(MEASURED[0], tokens_per_s=33.0),)))
        assert app.is_idle
        await stage.press("4", "enter")
        assert "measured in this chat: 33.0 tokens/s" in app.words()
        shown = await show(stage, replace(FOUND, known=KnownCosts(costs=slow, source="x")))
        assert "off is predicted to be faster" in shown
        await stage.press("escape")
        assert app.screen is not app.whatif


SIMPLE = NgramSimple(size_m=48)


async def test_it_says_whom_of_those_who_draft_it_does_not_answer_for() -> None:
    def of(applied: Speculation | None) -> WhatIfState:
        return whatif_state(CHAT, applied=applied)

    async with staged(Host(of(Speculation(SIMPLE)))) as (app, stage):
        assert "In the chat ngram-simple drafts, which is not replayed here." in app.words()
        # What others drafted is not counted as drafted by who is replayed.
        assert "this session has drafted nothing often enough with it alone" in app.words()
        said = "In the chat ngram-simple is asked first, which is not replayed here."
        assert said in await show(stage, of(Speculation(drafting(4), (SIMPLE,))))
        for applied in (Speculation(drafting(4)), None):
            assert "not replayed here" not in await show(stage, of(applied))


KEYS: list[tuple[str, Model]] = [
    ("right", drafting(5)),
    ("left left", drafting(2)),
    ("end right", drafting(16)),
    ("home", drafting(1)),
    ("down right right", drafting(4, 2)),
    ("down down right right right", drafting(4, 0, 0.15)),
    ("up right", drafting(4, 0, 0.05)),
    ("1 2 enter", drafting(12)),
    ("1 2 backspace down", drafting(1)),
    ("9 9 enter", drafting(16)),
    ("7 escape right", drafting(5)),
    ("7 right", drafting(8)),
    ("down down 0 . 7 5 enter", drafting(4, 0, 0.75)),
    # The least length is never above the largest, and returns with it.
    ("down end up left left", drafting(2, 2)),
    ("down 3 enter up left left left", drafting(1, 1)),
    ("down 3 enter up left left left right right right right", drafting(5, 3)),
    # A step that is not possible changes nothing; one that is, and a typed value, do.
    ("down 3 enter up 2 enter down right up end", drafting(16, 3)),
    ("down 3 enter up 2 enter down left up end", drafting(16, 1)),
    ("down 4 up 2 enter down 2 up end", drafting(16, 2)),
]
BETWEEN: list[tuple[str, Model]] = [
    # A value between the steps is replayed aside; a step goes to the next one in its direction.
    ("down down 0 . 3 3 3 enter", drafting(4, 0, 0.333)),
    ("down down 0 . 3 3 3 enter left", drafting(4, 0, 0.3)),
    ("down down 0 . 3 3 3 right", drafting(4, 0, 0.35)),
]


async def test_keys_and_the_mouse_change_the_setting_and_its_numbers() -> None:
    async with staged(Host()) as (app, stage):
        for keys, setting in KEYS:
            assert await step(stage, drafting(4), *keys.split()) == setting, keys
            # At once: nothing is replayed for it.
            assert app.is_idle
            assert app.numbers == expected(setting)
        for keys, setting in BETWEEN:
            assert await step(stage, drafting(4), *keys.split()) == setting, keys
            await stage.idle()
            assert app.numbers == expected(setting)
        line = str(app.whatif.query_one("#draft_max", Stepper).render())
        for x in (len(line) - len(" 1 to 16") - 1, len(line) - 1):
            await stage.click("#draft_max", x)
            assert app.whatif.setting.draft_max == 16
        # The best setting is a choice as well, of the least length too.
        assert REPLAYED.best is not None
        await step(stage, drafting(4), *["down", "3", "enter", "up", "1", "b", "end"])
        assert app.whatif.setting.draft_min == REPLAYED.best.model.draft_min


async def test_what_is_shown_is_applied_and_saved_and_what_is_typed_counts() -> None:
    assert REPLAYED.best is not None
    applied: list[tuple[str, Model]] = [
        ("right right a", drafting(6)),
        ("down down 0 . 5 5 a", drafting(4, 0, 0.55)),
        ("down down 0 . 5 5 up up 1 a", drafting(1, 0, 0.55)),
        ("down end up 2 a", drafting(2, 2)),
    ]
    async with staged(Host()) as (app, stage):
        for keys, setting in applied:
            await step(stage, drafting(4), *keys.split())
            assert app.take() == [("apply", setting)]
        assert app.notices[0] == "From the next answer on: max 6, min 0, p_min 0.00."
        app.clear_notifications()
        # A trace is saved without text unless the user says so.
        await stage.press("7", "s", "t", "s")
        assert app.whatif.setting.draft_max == 7
        assert app.take() == [("save", False), ("save", True)]
        assert app.notices == ["A saved trace will be with the text."]
        await stage.press("7", "b")
        assert app.whatif.setting == REPLAYED.best.model
        assert app.whatif.query_one("#draft_max", Stepper).typed == ""
        # Without costs there are counts, and why there is no speed.
        app.clear_notifications()
        shown = await show(stage, WITHOUT_COSTS)
        await step(stage, drafting(4))
        assert app.numbers == ["-", "-", *expected(drafting(4))[2:]]
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
    async with staged(Host(empty)) as (app, stage):
        assert "Nothing has been said yet" in app.words()
        assert "59 tokens of 1 answer, replayed exactly." in await show(stage, of(first))
        await stage.press("right")
        more = "59 tokens of 1 answer, replayed exactly. 1 answer more to be recorded."
        assert more in await show(stage, of(first, unread(1)))
        assert "148 tokens of 2 answers, replayed exactly." in await show(stage, FOUND)
        # What the user looks at stays.
        assert app.whatif.setting == drafting(5)
        assert app.numbers == expected(drafting(5))
        for state, words in nothing:
            # What was being replayed is void when another pair comes.
            app.whatif.show(of(first))
            assert words in await show(stage, state)
            assert not app.whatif.query_one("#found").display
            # Nothing to apply or to save.
            await stage.press("a", "b", "s")
            assert app.take() == []


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
    # Each is left for one that is larger or smaller, and come back to.
    sizes = [*SMALL, *SIZES, SMALL[0]] if glyphs is UNICODE else [SMALL[0], *SIZES]
    async with staged(Host(FOUND, glyphs), sizes[-1]) as (app, stage):
        for size in sizes:
            await stage.at(size)
            widgets = (*app.whatif.query(Stepper), *app.whatif.query(Numbers))
            for widget in (*widgets, app.whatif.query_one("#counts"), app.whatif.query_one(KeyBar)):
                assert is_in_view(widget), size
            assert "148 tokens of 2 answers" in app.words(), size
            assert "esc Back" in app.words(), size
            if size in SMALL:
                # Numbers are plain where room is short.
                assert [words for words in plain if words not in app.words()] == [], size
        if glyphs is UNICODE:
            return
        for state in (FOUND, WITHOUT_COSTS, WhatIfState(reason="No draft: none.")):
            await show(stage, state)
            for size in ((40, 12), *SIZES):
                assert (await stage.at(size)).isascii(), size
            if state is FOUND:
                assert app.numbers == []
                assert [number for number in numbers if number not in app.text()] == []
                assert len(app.whatif.query(BigNumber)) == 4


async def test_what_has_no_room_can_be_scrolled_to() -> None:
    async with staged(Host(), (40, 12), notifications=True) as (app, stage):
        before, seen = app.text(), app.words()
        assert "shown" not in seen.split()
        assert "costs fitted to" not in seen
        for _ in range(3):
            await stage.press("pagedown")
            seen += app.words()
        assert "Best predicted: max" in seen
        assert "tokens/s:" in seen
        assert app.words().count("costs fitted to 210 rounds") == 1
        # How to leave stays; the parameter that has the keys still has them.
        assert "esc Back" in app.words()
        await stage.press("right")
        assert app.whatif.setting == drafting(5)
        assert await stage.press("left", "pageup", "pageup", "pageup") == before
        steppers = app.whatif.query_one(Steppers)
        await stage.pilot._post_mouse_events([MouseScrollDown], steppers, button=0)
        assert await stage.idle() != before
        # Going to a parameter shows it.
        await stage.press("pagedown", "pagedown", "down")
        await settled(stage.pilot, lambda: is_in_view(app.whatif.query_one("#draft_min")))
        # The whole plot can be seen.
        plot = app.whatif.query_one(WhatIfPlot)
        plot.scroll_visible(animate=False)
        assert (await stage.idle()).count("◆") == 2
        assert is_in_view(plot)
        # Notices leave setting and throughput in view.
        await stage.press("pageup", "pageup", "pageup")
        for told in ("a" * 300, "Saved"):
            app.notify(told, timeout=60)
            await stage.idle()
            (toast,) = [toast for toast in app.whatif.query(Toast) if toast.region]
            for widget in (*app.whatif.query(Stepper), app.whatif.query_one(BigNumber)):
                assert not toast.region.overlaps(widget.region)
            assert told[:30] in app.text()
        await stage.press("t", "a")
        assert "From the next answer on: max 4" in app.words()


def test_marks_tell_by_shape_what_was_measured_where() -> None:
    line, best = REPLAYED.line(drafting(4)), REPLAYED.best
    drawn = curve(line, drafting(4), MEASURED)
    found = [(kind, x) for kind, x, _y in drawn.points]
    assert found == [(Mark.OTHER, 10), (Mark.TRIAL, 8), (Mark.CHAT, 4)]
    assert drawn.off == pytest.approx(1 / COSTS.at(REPLAYED.at(drafting(4)).mean_past).off_s)
    words = "tokens/s by draft_max:  ◆ shown  ■ measured  × trial  · other line  ─ off"
    assert legend(drawn, UNICODE, 80) == f"{words} {drawn.off:.1f}"
    on_the_other = curve(REPLAYED.line(drafting(4, 0, 0.3)), drafting(4, 0, 0.3), MEASURED)
    assert [kind for kind, _x, _y in on_the_other.points] == [Mark.OTHER, Mark.OTHER, Mark.TRIAL]
    # What is beyond the line is not drawn; its end is.
    far = [replace(MEASURED[1], setting=drafting(n)) for n in (DEPTH, DEPTH + 1)]
    assert [x for _kind, x, _y in curve(line, drafting(4), far).points] == [DEPTH]
    # The best lies within the axes although it is on another line.
    worse = drafting(4, 0, 0.9)
    assert best is not None
    assert best.tokens_per_s is not None
    drawn = curve(REPLAYED.line(worse), worse, (), best)
    assert drawn.points == ((Mark.BEST, best.model.draft_max, best.tokens_per_s),)
    assert max(drawn.values) < best.tokens_per_s
    assert drawn.axis(10).low <= best.tokens_per_s <= drawn.axis(10).high
    assert "@ best" in legend(drawn, ASCII, 80)


def test_the_legend_says_of_which_answers_curve_and_points_are_where_there_is_room() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED[:1])
    forms = [
        *(
            f"tokens/s by draft_max{on}:  ◆ shown  ■ measured{of}  ─ off {drawn.off:.1f}"
            for on, of in (
                (", all answers", ": answers that ran so"),
                ("", ": answers that ran so"),
                ("", ""),
            )
        ),
        f"tokens/s:  ◆ shown  ■ measured  ─ off {drawn.off:.1f}",
    ]
    for words, shorter in pairwise([*forms, forms[-1]]):
        assert legend(drawn, UNICODE, len(words)) == words
        assert legend(drawn, UNICODE, len(words) - 1) == shorter
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
    async with staged(Host(FOUND, glyphs), (80, 22)) as (app, stage):

        def rows() -> list[str]:
            chart = app.whatif.query_one("PlotWidget" if glyphs is UNICODE else "#chart").region
            shown = screen_lines(app)[chart.y : chart.bottom - 1]
            return [line[:79] for line in shown if line.split()]

        async def measure(draft_max: int, tokens_per_s: float) -> None:
            one = replace(MEASURED[0], setting=drafting(draft_max), tokens_per_s=tokens_per_s)
            await show(stage, replace(FOUND, measured=(one,)))

        for height in (22, 26, 40):
            await stage.at((80, height))
            await show(stage, FOUND)
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
                assert app.text().count("■") == 2 + len(app.whatif.query(Stepper))


def test_the_ascii_chart_has_the_curve_the_level_and_the_marks() -> None:
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), MEASURED)
    lines = ascii_chart(drawn, 71, 12)
    assert len(lines) == 12
    assert max(map(len, lines)) <= 71
    chart = "\n".join(line[7:] for line in lines[:-1])
    # One is hidden by none: marks stand above the curve.
    assert [chart.count(sign) for sign in "#ox."] == [1, 1, 1, 1]
    assert 10 <= chart.count("*") <= DEPTH
    assert "----" in chart
    assert lines[-1].split() == [str(x) for x in range(1, DEPTH + 1)]
    # The larger value stands above the smaller one.
    column = 7 + 4 * (10 - 1) + 2
    labels = [float(line[:5]) for line in lines[:-1] if line[:5].strip()]
    assert len(labels) > 1
    assert labels == sorted(labels, reverse=True)
    assert [line[column : column + 1] for line in lines[:-1]].count(".") == 1
    # Lengths that have no room are left out, each of the others stands under its column.
    drawn = curve(REPLAYED.line(drafting(4)), drafting(4), ())
    assert ascii_chart(drawn, 7 + DEPTH, 8)[-1] == "       1   5   9   13"
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
    assert isinstance(cockpit.app.screen, WhatIfScreen)
    return " ".join(" ".join(cockpit.lines()).split())


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
        # What is applied is the next answer's.
        await press_keys(pilot, "right", "right", "a")
        assert setup_of(cockpit).speculation == Speculation(drafting(6))
        assert "in use" in await looked(cockpit, pilot)
        await press_keys(pilot, "escape")
        assert cockpit.app.screen is cockpit.app.live


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
        (told,) = cockpit.notices
        assert told == (
            f"Saved 1 answer, without text, to {path} (1 answer sampled otherwise left out)"
        )
        assert not read_trace(path).has_text
        (tmp_path / "data" / "traces").rename(tmp_path / "moved")
        (tmp_path / "data" / "traces").write_text("in the way")
        await press_keys(pilot, "s")
        await looked(cockpit, pilot)
        assert "cannot create the folder" in cockpit.notices[-1]


@pytest.mark.parametrize(
    ("size", "glyphs"),
    [((120, 40), UNICODE), ((80, 24), ASCII), ((40, 12), UNICODE)],
    ids=["wide", "ascii", "small"],
)
def test_pictures(snap_compare: SnapCompare, size: tuple[int, int], glyphs: Glyphs) -> None:
    app = Host(FOUND, glyphs)

    async def run(pilot: Pilot[None]) -> None:
        stage = Stage(app, pilot)
        await stage.idle()
        await stage.press("right", "right")

    assert snap_compare(app, terminal_size=size, run_before=run)
