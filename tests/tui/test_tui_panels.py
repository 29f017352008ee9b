"""The live panels: what they show at which size, in both sets of characters."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip

from spectui.engine.events import PromptEvaluated, Role
from spectui.known import Known
from spectui.live.setup import RamMeasured
from spectui.live.tally import LiveState, LiveTally
from spectui.llama.buffers import DeviceMemory
from spectui.monitor.readings import GpuSource, Reading, Throttle, unread_gpu
from spectui.options.drafters import DraftSimple
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.speculative.counters import RoundTimes
from spectui.tui.chat.screen import Panels
from spectui.tui.colours import ColouredApp
from spectui.tui.glyphs import ASCII, UNICODE, Glyphs
from spectui.tui.panels.base import (
    Line,
    Panel,
    block,
    cells,
    charted,
    crop,
    fit,
    growing,
    pen_of,
)
from tests.support.cockpit import handled, resize
from tests.support.constructed import snapshots
from tests.support.live import NO_GPU, cpu_machine, draft_on_gpu, gpu_machine, make_round

MACHINE = list(snapshots())[-1]
SIZES = {"narrow": (31, 22), "usual": (48, 38), "wide": (92, 58), "tiny": (12, 7)}


def without_draft() -> LiveState:
    tally = cpu_machine()
    tally.generation_started(None)
    tally.round_finished(make_round(0, 0))
    return tally.state()


def with_gpus(n: int, *, throttled_by: tuple[Throttle, ...] = ()) -> LiveState:
    """Decode with as many cards; the first cannot be read from three on, the last is throttled."""
    tally = gpu_machine()
    (gpu,) = MACHINE.gpus
    gpus = [
        replace(
            gpu,
            index=index,
            utilisation=Reading((index + 1) / n),
            power_w=Reading(100.0),
            temperature_c=Reading(50.0 + index),
            memory_clock_hz=Reading(10.5e9),
            throttled_by=Known(throttled_by if index == n - 1 else ()),
        )
        for index in range(n)
    ]
    if n > 2:
        lost = GpuSource.NVML
        gpus[0] = unread_gpu("GPU 0 was lost; restart the driver", index=0, name="a", source=lost)
    tally.snapshot(replace(MACHINE, gpus=tuple(gpus)))
    tally.ram_measured(RamMeasured(bytes_per_s=61e9))
    return tally.state()


def with_remote_devices() -> LiveState:
    """Decode on a card and on two other machines, which nobody but llama.cpp knows."""
    names = ("RPC0[192.168.1.2:50052]", "RPC0[192.168.1.3:50052]")
    devices = tuple(
        DeviceMemory(name=name, description="", free_bytes=3_000_000_000, total_bytes=8_000_000_000)
        for name in names
    )
    tally = gpu_machine()
    tally.loaded(Role.DRAFT, replace(draft_on_gpu(), devices=devices))
    return tally.state()


STATES: dict[str, Callable[[], LiveState]] = {
    "gpu": lambda: gpu_machine().state(),
    "cpu": lambda: cpu_machine().state(),
    "empty": lambda: LiveTally().state(),
    "off": without_draft,
    "two": lambda: with_gpus(2),
    "remote": with_remote_devices,
    "eight": lambda: with_gpus(8, throttled_by=(Throttle.HEAT, Throttle.POWER)),
}
GLYPHS = {"unicode": UNICODE, "ascii": ASCII}

glyph_sets = st.sampled_from([UNICODE, ASCII])
samples = st.lists(st.none() | st.floats(0, 1e12), max_size=40)


class PanelsApp(ColouredApp[None]):
    """Nothing but panels, that fill the screen."""

    CSS = "Panels { width: 1fr; height: 1fr; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield Panels()

    def screen_lines(self) -> list[str]:
        """Return what the terminal shows."""
        lines = self.screen._compositor.render_strips(self.size)
        return [strip.text for strip in lines]


def with_panels(
    size: tuple[int, int], glyphs: Glyphs, check: Callable[[PanelsApp, Panels], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        app = PanelsApp(glyphs)
        async with app.run_test(size=size) as pilot:
            await handled(pilot)
            await check(app, app.query_one(Panels))

    asyncio.run(scenario())


def shown(state: LiveState, size: tuple[int, int], glyphs: Glyphs = UNICODE) -> list[str]:
    lines: list[str] = []

    async def show(app: PanelsApp, panels: Panels) -> None:
        panels.show(state)
        for panel in panels.query(Panel):
            lines.extend(panel.render_line(y).text for y in range(panel.size.height))
        lines.extend(app.screen_lines())

    with_panels(size, glyphs, show)
    return lines


@pytest.mark.parametrize(
    ("age_min", "text"), [(0, None), (1, "1 min ago"), (59, "59 min ago"), (125, "2 h ago")]
)
def test_an_old_baseline_says_how_old_it_is(age_min: int, text: str | None) -> None:
    state = LiveTally().state()
    throughput = replace(state.throughput, baseline_tokens_per_s=12.0, baseline_age_min=age_min)
    lines = shown(replace(state, throughput=throughput), (48, 40))
    (line,) = {line for line in lines if "12.0 tokens/s" in line and "│" not in line}
    assert line.rstrip().endswith(text or "tokens/s")


def on_schedule(schedule: Schedule) -> LiveState:
    tally = LiveTally()
    tally.generation_started(Speculation(DraftSimple(draft_max=4)), schedule)
    tally.prompt_evaluated(PromptEvaluated(n_tokens=9, seconds=0.1, n_reused=0))
    tally.round_finished(make_round(4, 3, RoundTimes(draft_s=0.05, verify_s=0.1)))
    return tally.state()


def test_the_schedule_is_named_and_what_tune_measures_is_told_apart() -> None:
    text = " ".join(" ".join(shown(on_schedule(Schedule.SERVER), (48, 60))).split())
    assert "schedule server fast, not in llama-server: up to 34.5 tokens/s" in text
    text = " ".join(" ".join(shown(on_schedule(Schedule.FAST), (48, 60))).split())
    assert "schedule fast" in text
    assert "up to" not in text
    assert "Tune measures the server schedule, and finds another speedup" in text


# Charts


@given(fraction=st.floats(-1, 2), width=st.integers(0, 60), glyphs=glyph_sets)
def test_a_bar_is_as_wide_as_told(fraction: float, width: int, glyphs: Glyphs) -> None:
    assert len(glyphs.bar(fraction, width)) == width


def test_a_bar_fills_its_share() -> None:
    assert UNICODE.bar(0.5, 8) == "████····"
    assert UNICODE.bar(0.25, 2) == "▌·"
    assert ASCII.bar(1.0, 3) == "###"


@given(values=samples, width=st.integers(0, 60), height=st.integers(1, 5), glyphs=glyph_sets)
def test_a_sparkline_fills_its_box(
    values: list[float | None], width: int, height: int, glyphs: Glyphs
) -> None:
    lines = glyphs.spark(values, width, height=height)
    assert [len(line) for line in lines] == [width] * height


def test_a_chart_has_its_scale_at_the_right() -> None:
    pen = pen_of(UNICODE, 20)
    lines = pen.chart([5.0, 10.0, 20.0], 2, pen.per_s)
    assert ["".join(text for text, _look in line) for line in lines] == [
        "            █ 20.0/s",
        "          ▄██      0",
    ]
    (one,) = pen.chart([5.0, 10.0], 1, pen.per_s, maximum=20.0)
    assert "".join(text for text, _look in one).endswith("▂▄ 20.0/s")
    assert cells(one) == 20
    assert pen.chart([5.0], 0, pen.per_s) == ()


def test_a_sparkline_ends_with_the_last_sample_and_keeps_gaps() -> None:
    assert UNICODE.spark([9, 0, None, 4, 8], 4) == ["▁ ▄█"]
    assert UNICODE.spark([8], 3, maximum=16) == ["  ▄"]
    assert UNICODE.spark([4, 8], 2, height=2) == [" █", "██"]


@given(
    parts=st.lists(st.floats(0, 1e12), max_size=6),
    extra=st.floats(0, 1e12),
    width=st.integers(0, 60),
    glyphs=glyph_sets,
)
def test_a_stacked_bar_never_grows_beyond_its_width(
    parts: list[float], extra: float, width: int, glyphs: Glyphs
) -> None:
    bars = glyphs.stacked(parts, sum(parts) + extra, width)
    assert len(bars) == len(parts)
    assert sum(map(len, bars)) <= width


def test_parts_of_a_stacked_bar_differ_without_colour() -> None:
    assert ASCII.stacked([2, 1, 1], 8, 8) == ["##", "=", "+"]


# Units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNICODE.tokens_per_s(18.44), "18.4 tokens/s"),
        (UNICODE.tokens_per_s(118.4), "118 tokens/s"),
        (UNICODE.tokens_per_s(None), "– tokens/s"),
        (ASCII.speedup(1.625), "1.62x"),
        (UNICODE.duration(0.0612), "61.2 ms"),
        (UNICODE.duration(1.84), "1.84 s"),
        (UNICODE.duration(12.34), "12.3 s"),
        (UNICODE.rate(41.2e9), "41.2 GB/s"),
        (UNICODE.percent(0.003), "0.3 %"),
        (UNICODE.percent(0.424), "42 %"),
        (UNICODE.used_of(21.7e9, 25.8e9), "21.7 / 25.8 GB"),
        (ASCII.used_of(None, 25.8e9), "- / 25.8 GB"),
    ],
)
def test_numbers_carry_their_unit(text: str, expected: str) -> None:
    assert text == expected


# Levels of detail

ONE: Line = (("one", ""),)
TWO: Line = (("two", ""),)


def test_what_is_important_comes_first_and_the_order_stays() -> None:
    blocks = [block((1, (ONE,))), block((0, (TWO,)))]
    assert fit(blocks, 1) == [TWO]
    assert fit(blocks, 2) == [ONE, TWO]


def test_a_more_detailed_form_takes_the_place_of_the_short_one_if_there_is_room() -> None:
    blocks = [growing(0, ((ONE,), (ONE, ONE)), step=5), block((1, (TWO,)))]
    assert fit(blocks, 2) == [ONE, TWO]
    assert fit(blocks, 3) == [ONE, ONE, TWO]


def test_only_what_is_shown_is_drawn() -> None:
    drawn: list[int] = []

    def draw(height: int) -> tuple[Line, ...]:
        drawn.append(height)
        return (ONE,) * height

    assert len(fit([charted(0, 1, range(1, 4), draw)], 2)) == 2
    assert drawn == [2]


def test_lines_are_cropped_with_an_ellipsis() -> None:
    assert crop((("abc", ""), ("def", "")), 4, "...") == (("a", ""), ("", ""), ("...", ""))
    assert cells(crop(ONE, 2, "...")) == 2
    assert crop(ONE, 3, "...") == ONE


def test_the_right_side_gives_way() -> None:
    assert cells(pen_of(UNICODE, 9).spread(ONE, TWO)) == 9
    assert pen_of(UNICODE, 6).spread(ONE, TWO) == ONE


# Panels


@pytest.mark.parametrize("glyphs", GLYPHS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_every_state_fits_every_size_in_the_characters_of_the_terminal(
    state: str, size: str, glyphs: str
) -> None:
    lines = shown(STATES[state](), SIZES[size], GLYPHS[glyphs])
    assert lines
    assert all(len(line) <= SIZES[size][0] for line in lines)
    # Around panels that do not fit there are Textual's scrollbars.
    if glyphs == "ascii" and size != "tiny":
        assert all(line.isascii() for line in lines)


@cache
def text_of(state: str, size: str) -> str:
    return "\n".join(shown(STATES[state](), SIZES[size]))


@pytest.mark.parametrize("size", ["narrow", "usual", "wide"])
@pytest.mark.parametrize(
    "word",
    [
        "tokens/s now",
        "16.5 tokens/s",
        "rate 0.",
        "tokens/round",
        "α 0.",
        "limited by DRAM",
        "V(6)/V(1) 1.43",
        "VRAM",
        "RAM",
        "GB/s",
        "ideal",
        "measured",
        "verify cost",
    ],
)
def test_what_matters_is_there_at_every_size(size: str, word: str) -> None:
    assert word in text_of("gpu", size)


def test_a_wide_screen_tells_all() -> None:
    text = text_of("gpu", "wide")
    for word in ("rollback", "V(n)/V(1)", "free", "gen 4 x16", "drafted per round", "prompt 412"):
        assert word in text


@pytest.mark.parametrize(
    ("state", "size", "words"),
    [
        ("two", "narrow", ("VRAM ", "↓", "RAM ")),
        ("two", "usual", ("VRAM 0", "VRAM 1", "PCIe ↓")),
        ("two", "wide", ("GPU 0 50 % busy", "GPU 1 100 % busy")),
        ("remote", "usual", ("RPC0 ", "RPC1 ", "5.0 / 8 GB", "PCIe ↓")),
        ("remote", "wide", ("RPC0, RPC1: measured after the load", "GPU 32 % busy")),
        ("eight", "narrow", ("VRAM ", "↓", "RAM ")),
        ("eight", "usual", ("VRAM ", "700 W, 57 °C", "GPU 7 is slowed by heat")),
        ("eight", "wide", ("VRAM 7", "PCIe 7", "700 W, 57 °C", "PCIe 0: GPU 0 was lost")),
    ],
)
def test_several_gpus_have_a_line_each_where_there_is_room(
    state: str, size: str, words: tuple[str, ...]
) -> None:
    text = text_of(state, size)
    assert [word for word in words if word not in text] == []


def test_one_gpu_tells_its_clocks_and_its_name_where_there_is_room() -> None:
    text = "\n".join(shown(with_gpus(1, throttled_by=(Throttle.POWER,)), SIZES["wide"]))
    for word in ("GPU 100 % busy", "100 W, 50 °C", "clock 2.52 GHz  memory 10.5"):
        assert word in text
    assert "at its power limit" in text
    assert "Constructed GPU 24 GB" in text
    assert "is slowed by" not in text


@pytest.mark.parametrize("size", ["narrow", "usual", "wide"])
def test_a_gpu_that_is_held_back_is_a_warning_at_every_size(size: str) -> None:
    text = "\n".join(shown(with_gpus(1, throttled_by=(Throttle.HEAT,)), SIZES[size]))
    assert "▲ the GPU is slowed by heat" in text


@pytest.mark.parametrize(
    ("measured", "text"), [(None, "best 143"), (2e11, "of 200 GB/s measured"), (9e9, "best 143")]
)
def test_the_limit_of_ram_is_the_measured_one_or_what_was_seen_beyond_it(
    measured: float | None, text: str
) -> None:
    tally = gpu_machine()
    if measured is not None:
        tally.ram_measured(RamMeasured(bytes_per_s=measured))
    assert text in "\n".join(shown(tally.state(), SIZES["wide"]))


def test_without_a_gpu_two_panels_say_why() -> None:
    words = NO_GPU.split()
    text = text_of("cpu", "wide")
    assert text.count(words[0] + " " + words[1]) >= 2


def test_a_turn_without_the_draft_says_so() -> None:
    assert "this turn runs without the draft" in text_of("off", "usual")


@pytest.mark.parametrize("size", ["narrow", "usual", "wide"])
def test_a_warning_is_seen_at_every_size_with_a_sign(size: str) -> None:
    state = gpu_machine().state()
    warned = replace(state.memory.pools[0], warning="VRAM is 95% full: the driver may spill")
    memory = replace(state.memory, pools=(warned, *state.memory.pools[1:]))
    lines = shown(replace(state, memory=memory), SIZES[size], ASCII)
    assert any("! VRAM is 95% full" in line for line in lines)
    assert all(line.isascii() for line in lines)


def test_only_the_line_that_differs_is_repainted() -> None:
    state = gpu_machine().state()
    other = replace(state.throughput, now_tokens_per_s=1.0)
    painted: list[tuple[str, int]] = []

    async def watch(_app: PanelsApp, panels: Panels) -> None:
        panels.show(state)
        for panel in panels.query(Panel):
            paint = panel.render_line
            area = Region(0, 0, *panel.outer_size)
            panel.render_lines(area)

            def spy(
                y: int, panel: Panel[object] = panel, paint: Callable[[int], Strip] = paint
            ) -> Strip:
                painted.append((panel.heading, y))
                return paint(y)

            panel.render_line = spy  # type: ignore[method-assign]
        panels.show(replace(state, throughput=other))
        for panel in panels.query(Panel):
            panel.render_lines(Region(0, 0, *panel.outer_size))

    with_panels(SIZES["usual"], UNICODE, watch)
    assert painted
    assert set(painted) <= {("Throughput", row) for row in range(3)}


def test_a_resize_changes_the_detail() -> None:
    state = gpu_machine().state()
    heights: list[int] = []

    async def scenario() -> None:
        app = PanelsApp(UNICODE)
        async with app.run_test(size=SIZES["narrow"]) as pilot:
            panels = app.query_one(Panels)
            panels.show(state)
            for size in ("narrow", "wide", "usual", "narrow"):
                await resize(pilot, *SIZES[size])
                heights.append(sum(len(panel.lines()) for panel in panels.query(Panel)))

    asyncio.run(scenario())
    narrow, wide, usual, again = heights
    assert narrow < usual < wide
    assert narrow == again


@pytest.mark.parametrize(("n", "end"), [(4, "0.50 "), (5, " +2")], ids=["fits", "does not"])
def test_positions_that_do_not_fit_are_counted(n: int, end: str) -> None:
    _one, two, _rows = pen_of(UNICODE, 20).positions([0.5] * n, "accepted")
    _bars, ((numbers, _look),) = two.draw()
    assert numbers.endswith(end)
    assert len(numbers) <= 20
