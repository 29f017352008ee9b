"""The live panels: what they show at which size, in both sets of characters."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.documents import Known
from spectui.engine.events import PromptEvaluated, Role
from spectui.live.machine import TokenReads
from spectui.live.setup import RamMeasured
from spectui.live.tally import LiveState, LiveTally
from spectui.llama.buffers import DeviceMemory
from spectui.monitor.readings import GpuReading, GpuSource, Reading, Throttle
from spectui.tui import draw
from spectui.tui.chat.view import Panels
from spectui.tui.look import plain
from spectui.tui.panel import (
    Block,
    Line,
    Panel,
    Pen,
    cells,
    crop,
    fit,
)
from tests.support.cockpit import alone, handled, resize, screen_lines
from tests.support.constructed import snapshots
from tests.support.live import NO_GPU, cpu_machine, draft_on_gpu, gpu_machine, make_round

MACHINE = list(snapshots())[-1]
SIZES = {"narrow": (31, 22), "usual": (48, 38), "wide": (92, 58), "tiny": (12, 7)}
SIZES["tall"] = (48, 60)


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
            throttled_by=Known(throttled_by if index == n - 1 else ()),
        )
        for index in range(n)
    ]
    if n > 2:
        lost = GpuSource.NVML
        gpus[0] = GpuReading(index=0, name="a", source=lost).unread(
            "GPU 0 was lost; restart the driver"
        )
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
samples = st.lists(st.none() | st.floats(0, 1e12), max_size=40)


Show = Callable[[LiveState, str], Awaitable[list[str]]]


@asynccontextmanager
async def shown_panels() -> AsyncIterator[Show]:
    """Shows a state at a size, and returns the lines of each panel and of the screen."""
    panels = Panels()
    async with alone(panels, SIZES["usual"]) as pilot:
        panels.styles.width = panels.styles.height = "1fr"

        async def show(state: LiveState, size: str) -> list[str]:
            await resize(pilot, *SIZES[size])
            panels.show(state)
            await handled(pilot)
            lines = [
                panel.render_line(y).text
                for panel in panels.query(Panel)
                for y in range(panel.size.height)
            ]
            return [*lines, *screen_lines(pilot.app)]

        yield show


# Charts


@given(
    fraction=st.floats(-1, 2),
    values=samples,
    parts=st.lists(st.floats(0, 1e12), max_size=6),
    extra=st.floats(0, 1e12),
    width=st.integers(0, 60),
    height=st.integers(1, 5),
)
def test_bars_and_sparklines_fill_their_room_and_no_more(
    *,
    fraction: float,
    values: list[float | None],
    parts: list[float],
    extra: float,
    width: int,
    height: int,
) -> None:
    assert len(draw.bar(fraction, width)) == width
    assert [len(line) for line in draw.spark(values, width, height=height)] == [width] * height
    bars = draw.stacked(parts, sum(parts) + extra, width)
    assert len(bars) == len(parts)
    assert sum(map(len, bars)) <= width


def test_charts_and_numbers() -> None:
    for drawn, expected in (
        (draw.bar(0.5, 8), "████····"),
        (draw.bar(0.25, 2), "▌·"),
        # A sparkline ends with the last sample, and keeps gaps.
        (draw.spark([9, 0, None, 4, 8], 4), ["▁ ▄█"]),
        (draw.spark([8], 3, maximum=16), ["  ▄"]),
        (draw.spark([4, 8], 2, height=2), [" █", "██"]),
        # An interval is drawn beside the value that it is compared with.
        ([draw.on_scale(1.2, 1.3, 1.4, 1.0, 9)], ["│   ├─●─┤"]),
        ([draw.on_scale(0.6, 0.7, 0.8, 1.0, 9)], ["├─●─┤   │"]),
        ([draw.on_scale(0.8, 1.1, 1.2, 1.0, 9)], ["├───┼─●─┤"]),
        ([draw.on_scale(0.8, 1.0, 1.2, 1.0, 9)], ["├───◆───┤"]),
        # Parts differ without colour.
        (draw.stacked([2, 1, 1], 8, 8), ["██", "▓", "▒"]),
        (draw.tokens_per_s(118.4), "118.4 tokens/s"),
        (draw.tokens_per_s(None), "– tokens/s"),
        (draw.rate(41.2e9), "41.2 GB/s"),
        (draw.used_of(None, 25.8e9), "– / 25.8 GB"),
    ):
        assert drawn == expected
    # A chart has its scale at the right.
    pen = Pen(20)
    lines = pen.chart([5.0, 10.0, 20.0], 2, draw.per_s)
    assert ["".join(text for text, _look in line) for line in lines] == [
        "            █ 20.0/s",
        "          ▄██      0",
    ]
    (one,) = pen.chart([5.0, 10.0], 1, draw.per_s, maximum=20.0)
    assert "".join(text for text, _look in one).endswith("▂▄ 20.0/s")
    assert cells(one) == 20


# Levels of detail

ONE: Line = (("one", ""),)
TWO: Line = (("two", ""),)


def test_what_is_important_comes_first_and_charts_share_what_is_left() -> None:
    blocks = [Block(1, (ONE,)), Block(0, (TWO,))]
    for height, lines in ((1, [TWO]), (2, [ONE, TWO])):
        assert fit(blocks, height) == lines
    # Of several lines as many as fit; a chart has one before others have their turn.
    blocks = [Block(0, (ONE, ONE)), Block(1, chart=lambda height: (TWO,) * height)]
    for height, n_one, n_two in ((1, 1, 0), (2, 2, 0), (3, 2, 1), (6, 2, 4)):
        assert fit(blocks, height) == [ONE] * n_one + [TWO] * n_two
    charts = [Block(rank, chart=lambda height: (ONE,) * height) for rank in range(2)]
    assert len(fit(charts, 7)) == 7


def test_lines_are_cropped_with_an_ellipsis_and_the_right_side_gives_way() -> None:
    assert crop((("abc", ""), ("def", "")), 4) == (("abc", ""), ("", ""), ("…", ""))
    assert cells(crop(ONE, 2)) == 2
    assert crop(ONE, 3) == ONE
    assert cells(Pen(9).spread(ONE, TWO)) == 9
    assert Pen(6).spread(ONE, TWO) == ONE
    # As many positions as fit.
    for n, n_shown in ((4, 4), (5, 4)):
        _bars, ((numbers, _look),) = Pen(20).positions([0.5] * n)
        assert numbers == "0.50 " * n_shown


# Panels


async def test_every_state_fits_every_size_and_has_characters_for_every_terminal() -> None:
    async with shown_panels() as show:
        for size, state in product(SIZES, STATES):
            lines = await show(STATES[state](), size)
            assert lines
            assert all(len(line) <= SIZES[size][0] for line in lines), (size, state)
            assert not any("?" in plain(line) for line in lines if "?" not in line), (size, state)


EVERYWHERE = (
    *("tokens/s now", "16.5 tokens/s", "rate 0.", "tokens/round", "limited by DRAM"),
    *("VRAM", "RAM", "GB/s", "measured", "predicted", "verify"),
)
WIDE = ("rollback", "token reads", "V(n)/V(1)", "V(6)/V(1) 1.43", "prompt 412", "V(n)=V(1)")
TOLD = [
    *(("gpu", size, EVERYWHERE) for size in ("narrow", "usual", "wide")),
    ("gpu", "wide", WIDE),
    ("two", "usual", ("VRAM 0", "VRAM 1", "PCIe 0 ↓")),
    ("two", "wide", ("GPU 0 50 % busy", "GPU 1 100 % busy")),
    ("remote", "usual", ("RPC0 ", "RPC1 ", "5.0 / 8 GB", "PCIe ↓")),
    ("remote", "wide", ("measured after the load", "GPU 32 % busy")),
    ("eight", "narrow", ("VRAM 0",)),
    ("eight", "usual", ("VRAM 0", "GPU 7 is slowed by heat")),
    ("eight", "wide", ("VRAM 7", "PCIe 7", "PCIe 0: GPU 0 was lost")),
    ("off", "usual", ("this turn runs without the draft",)),
]


async def test_bytes_of_a_token_stand_beside_the_speed_that_ram_allows() -> None:
    token = TokenReads(
        ram_bytes=1.1e9,
        gpu_bytes=1.6e9,
        at_most_tokens_per_s=48.5,
        alone_tokens_per_s=27.5,
        shifted=((29, 50.1, 0.4e9), (31, 47.0, -0.4e9)),
    )
    state = gpu_machine().state()
    state = replace(state, traffic=replace(state.traffic, token=token))
    async with shown_panels() as show:
        usual = "\n".join(await show(state, "usual"))
        wide = "\n".join(await show(state, "wide"))
    assert "token reads 1.1 GB RAM + 1.6 GB VRAM" in usual
    assert "token reads 1.1 GB RAM + 1.6 GB VRAM" in wide
    assert re.search(r"alone at most 48\.5/s +measured 27\.5/s", wide)
    assert re.search(r"-ncmoe 29 at most 50\.1/s +\+400 MB VRAM", wide)
    assert re.search(r"-ncmoe 31 at most 47\.0/s +−400 MB VRAM", wide)


async def test_the_cost_of_a_batch_stands_beside_that_of_experts_routed_at_random() -> None:
    state = gpu_machine().state()
    (six,) = [cost for cost in state.rounds.verify_costs if cost.n_tokens == 6]
    # Experts are all that RAM gives, 8 of 128 for each token.
    assert six.at_random == pytest.approx((1 - (1 - 1 / 16) ** 6) * 16)
    async with shown_panels() as show:
        assert re.search(r"at random +1\.00 +\d\.\d\d +5\.14", "\n".join(await show(state, "wide")))
        dense = cpu_machine().state()
        assert "at random" not in "\n".join(await show(dense, "wide"))


async def test_turns_with_and_without_the_draft_are_two_lines_of_one_history() -> None:
    tally = gpu_machine()
    tally.generation_started(None)
    tally.prompt_evaluated(PromptEvaluated(n_tokens=412, seconds=1.84, n_reused=0))
    for _ in range(20):
        tally.round_finished(make_round(0, 0))
    async with shown_panels() as show:
        shown = "\n".join(await show(tally.state(), "usual"))
    drafted, alone = (re.search(rf"(.*) {kind} [\d.]+/s", shown) for kind in ("draft", "alone"))
    assert drafted is not None
    assert alone is not None
    assert not any(a.strip() and b.strip() for a, b in zip(drafted[1], alone[1], strict=False))
    assert alone[1].strip()


async def test_what_is_resident_of_mapped_weights_is_told_as_a_limit() -> None:
    tally = gpu_machine()
    host = replace(MACHINE.host, mapped_bytes=Reading(20_000_000_000))
    tally.snapshot(replace(MACHINE, host=host))
    state = tally.state()
    assert state.memory.resident == pytest.approx(20 / 37)
    async with shown_panels() as show:
        assert "weights at most 54 % in RAM" in "\n".join(await show(state, "wide"))


async def test_what_is_told_where_there_is_room() -> None:
    state = gpu_machine().state()
    warned = replace(state.memory.pools[0], warning="VRAM is 95% full: the driver may spill")
    memory = replace(state.memory, pools=(warned, *state.memory.pools[1:]))
    hot = with_gpus(1, throttled_by=(Throttle.HEAT,))
    async with shown_panels() as show:

        async def text_of(state: LiveState, size: str = "wide") -> str:
            return "\n".join(await show(state, size))

        for name, size, words in TOLD:
            text = await text_of(STATES[name](), size)
            assert [word for word in words if word not in text] == [], (name, size)
        # Warnings are seen at every size, with a sign.
        for size in ("narrow", "usual", "wide"):
            assert "▲ VRAM is 95% full" in await text_of(replace(state, memory=memory), size)
            assert "▲ the GPU is slowed by heat" in await text_of(hot, size)
        text = await text_of(with_gpus(1, throttled_by=(Throttle.POWER,)))
        for word in ("GPU 100 % busy", "100 W, 50 °C"):
            assert word in text
        assert "is slowed by" not in text
        # The limit of RAM is the measured one, or what was seen beyond it.
        assert "best 143" in await text_of(state)
        for measured, word in ((2e11, "of 200 GB/s"), (9e9, "best 143")):
            tally = gpu_machine()
            tally.ram_measured(RamMeasured(bytes_per_s=measured))
            assert word in await text_of(tally.state())
        # Without a GPU two panels say why.
        text = await text_of(cpu_machine().state())
        assert text.count(" ".join(NO_GPU.split()[:2])) >= 2
        # An old baseline is told.
        empty = LiveTally().state()
        for age_min, end in (
            (0, "tokens/s"),
            (1, "1 min ago"),
            (125, "125 min ago"),
        ):
            measured_then = replace(
                empty.throughput, baseline_tokens_per_s=12.0, baseline_age_min=age_min
            )
            lines = await show(replace(empty, throughput=measured_then), "usual")
            (line,) = {one for one in lines if "12.0 tokens/s" in one and "│" not in one}
            assert line.rstrip().endswith(end)
