"""The screen over a running llama-server: pictures, and what its keys do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static

from spectui.documents import Known
from spectui.errors import BadInputError
from spectui.live.setup import Activity
from spectui.monitor.readings import Reading
from spectui.server.watch.locator import Address, parse_address
from spectui.server.watch.poller import Poller
from spectui.server.watch.sample import Failure, Trouble
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.attach import AttachScreen, LoadPanel, ServerPanel, SlotsPanel
from spectui.tui.chat.screen import LiveScreen
from spectui.tui.dialogs import HelpScreen
from spectui.tui.launch import Launch
from spectui.tui.panel import Panel
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.widgets import StatusBar
from tests.support.attached import (
    COUNTERS,
    ELSEWHERE,
    FACTS,
    IDLE_SLOTS,
    LOST,
    PROCESS,
    busy,
    sample,
    slot,
)
from tests.support.cockpit import (
    ScriptedThreads,
    handled,
    has_mail,
    launch,
    notices,
    press_keys,
    resize,
    settled,
)
from tests.support.constructed import snapshots
from tests.tui.test_tui_snapshots import SnapCompare

URL = "http://localhost:8080"


class ScriptedPoller(Poller):
    """Asks nobody."""

    n_started = 0

    def start(self) -> None:
        self.n_started += 1


class WatchingThreads(ScriptedThreads):
    """Ask nobody, neither a server nor the machine."""

    poller: ScriptedPoller

    def watch_server(
        self, server: Address, interval_s: float, process: Callable[[], int | None]
    ) -> Poller:
        self.process = process
        self.poller = ScriptedPoller(server, self.post, interval_s=interval_s)
        return self.poller

    def stop_watching(self) -> None:
        self.poller.n_started = 0


class Watched:
    """An app with its script."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - of a launch
        attachment = parse_address(URL)
        self.app = SpectuiApp(launch(watched=attachment, pair=None, **options), WatchingThreads)
        self.threads = cast("WatchingThreads", self.app.threads)

    @property
    def poller(self) -> ScriptedPoller:
        return self.threads.poller

    async def told(self, pilot: Pilot[None], *events: object) -> None:
        """Let events come, and wait until they are shown."""
        for event in events:
            self.threads.post(event)
        await shown(pilot)

    @asynccontextmanager
    async def running(self, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[None]]:
        """The app, which is drawn."""
        async with self.app.run_test(size=size) as pilot:
            await handled(pilot)
            yield pilot


async def shown(pilot: Pilot[None]) -> None:
    """Wait until every event is collected, at the pace of the screen."""
    async with asyncio.timeout(60):
        while has_mail(pilot.app):
            await pilot.pause(0.02)
    await handled(pilot)


SIZES = {"40": (40, 12), "80": (80, 24), "120": (120, 40), "200": (200, 60)}


OTHERS = "the process that listens at port 8080 belongs to another user"
LITTLE = sample(
    0.0,
    counters="/metrics is off; start the server with --metrics",
    where=(True, Known(None, OTHERS)),
    slots=IDLE_SLOTS[:1],
)
MACHINE = [replace(one, host=replace(one.host, process_cores=Reading(7.6))) for one in snapshots()]
"""Readings of the machine, beside the server's process."""
PICTURES: dict[str, tuple[Sequence[object], dict[str, Any]]] = {
    **{f"busy {width}": ([*MACHINE, *busy()], {}) for width in SIZES},
    "idle 80": ([sample(step / 2) for step in range(20)], {}),
    "lost": ([*busy(60), LOST, LOST], {}),
    "remote 80": ([replace(each, is_here=False, process=ELSEWHERE[1]) for each in busy()], {}),
    "tells little 80": ([replace(LITTLE, time_s=step / 2) for step in range(9)], {}),
    "ascii": ([*busy(60), LOST], {"ascii": True}),
    "light": ([*MACHINE, *busy()], {"theme": "spectui-light"}),
}
"""Pictures by a name that ends with their width, where that is not 120."""


@pytest.mark.parametrize("name", PICTURES)
def test_a_server(snap_compare: SnapCompare, name: str) -> None:
    events, look = PICTURES[name]
    watched = Watched(settings=Settings(keep_sessions=False, **look))

    async def run(pilot: Pilot[None]) -> None:
        watched.app.animation_level = "none"
        await watched.told(pilot, *events)
        await shown(pilot)

    size = SIZES.get(name.rpartition(" ")[2], (120, 40))
    assert snap_compare(watched.app, terminal_size=size, run_before=run)


def text_of(panel: Panel[Any]) -> str:
    return "\n".join("".join(text for text, _look in line) for line in panel.lines())


async def test_the_machine_of_a_server_that_runs_here_is_shown() -> None:
    watched = Watched()
    async with watched.running() as pilot:
        await watched.told(pilot, *MACHINE, sample(0.0))
        load = pilot.app.screen.query_one(LoadPanel)
        assert watched.threads.process() == PROCESS.pid
        assert "server 7.6, others" in text_of(load)
        assert "disk reads" in text_of(load)
        # What the monitor reads in place of an unknown process is not the server's.
        await watched.told(pilot, sample(1.0, where=(True, Known(None, OTHERS))))
        assert watched.threads.process() is None
        assert "server 7.6" not in text_of(load)
        assert OTHERS.partition(" at ")[0] in text_of(load)
        assert load.display
        await watched.told(pilot, sample(2.0, where=ELSEWHERE))
        assert not load.display


def status_of(pilot: Pilot[None]) -> tuple[str, str]:
    bar = pilot.app.screen.query_one(StatusBar)
    return str(bar.left.content), str(bar.right.content)


def is_shown(widget: Widget) -> bool:
    return bool(widget.display)


TROUBLES = {
    Trouble.UNREACHABLE: "no connection",
    Trouble.LOADING: "loading its model",
    Trouble.LOCKED: "locked",
    Trouble.ROUTER: "a router",
    Trouble.STRANGE: "no llama-server",
}


async def test_it_asks_when_it_is_drawn_and_says_how_the_connection_is() -> None:
    watched = Watched()
    async with watched.running() as pilot:
        assert watched.poller.n_started == 1
        assert status_of(pilot) == ("localhost:8080", "connecting")
        await watched.told(pilot, sample(0.0))
        assert status_of(pilot) == ("localhost:8080  Qwen3-8B", "connected")
        banner = pilot.app.screen.query_one("#trouble", Static)
        for n, (trouble, words) in enumerate(TROUBLES.items()):
            assert not is_shown(banner)
            failure = Failure(trouble=trouble, reason="it says [bold]so[/bold]")
            await watched.told(pilot, failure)
            assert status_of(pilot)[1] == words
            assert is_shown(banner)
            assert "it says [bold]so[/bold]" in str(banner.render())
            assert "it is asked again every second. The numbers are older." in str(banner.render())
            await watched.told(pilot, sample(2.0 * n + 2))
            assert status_of(pilot)[1] == "connected"
        late = replace(sample(30.0, slots="/slots was not answered"), is_late=True)
        await watched.told(pilot, late)
        assert status_of(pilot)[1] == "connected, answers late"
        assert "/slots was not answered" in text_of(pilot.app.screen.query_one(SlotsPanel))
        await press_keys(pilot, "f1")
        assert isinstance(pilot.app.screen, HelpScreen)
        for key, ends in (("escape", False), ("ctrl+q", True)):
            await press_keys(pilot, key)
            assert watched.app._exit is ends


async def test_one_key_takes_over_what_it_runs_to_tune_it() -> None:
    asked = list[str]()

    def with_command(text: str) -> Launch:
        asked.append(text)
        if len(asked) == 1:
            raise BadInputError("process 7 belongs to another user")
        return launch()

    watched = Watched(with_command=with_command)
    async with watched.running() as pilot:

        def footer() -> list[str]:
            return [one.binding.description for one in pilot.app.screen.active_bindings.values()]

        # Of a server that runs elsewhere nothing can be taken over.
        await watched.told(pilot, sample(0.0, where=ELSEWHERE))
        assert "Tune" not in footer()
        await watched.told(pilot, sample(1.0))
        assert "Tune" in footer()
        assert "F5 tells whether a draft pays" in text_of(pilot.app.screen.query_one(ServerPanel))
        assert not {"Models", "Export", "What if"}.intersection(footer())
        await press_keys(pilot, "f5")
        assert notices(watched.app) == ["process 7 belongs to another user"]
        assert watched.poller.n_started == 1
        await press_keys(pilot, "f5")
        assert asked == [f"pid:{PROCESS.pid}"] * 2
        assert [type(one) for one in pilot.app.screen_stack[1:]] == [LiveScreen, TuneScreen]
        assert watched.poller.n_started == 0
        await settled(pilot, lambda: watched.app.live.activity is Activity.READY)
        await press_keys(pilot, "escape")
        assert [type(one) for one in pilot.app.screen_stack[1:]] == [LiveScreen]
        # There is a way back, and one to the search again, without another load.
        assert "Back" in footer()
        await press_keys(pilot, "escape")
        assert type(pilot.app.screen_stack[-1]) is AttachScreen
        assert watched.poller.n_started == 1
        await watched.told(pilot, sample(2.0))
        await press_keys(pilot, "f5")
        assert TuneScreen in map(type, pilot.app.screen_stack)
        assert len(asked) == 2


async def test_slots_and_odd_facts_are_drawn_whatever_the_room() -> None:
    unknown = ("alias", "model_path", "n_ctx", "n_slots", "n_params", "size_bytes")
    absent: dict[str, Any] = dict.fromkeys((*unknown, "quantization", "build"))
    absent["alias"] = "[/bold]" + "雨の模型" * 40
    facts = structs.replace(FACTS, **absent, is_sleeping=True)
    empty = structs.replace(COUNTERS, n_predicted=0, predicted_s=0.0, n_prompt=0, prompt_s=0.0)
    # A server counts the first token of each request with a millionth of a second.
    assert structs.replace(empty, n_predicted=3, predicted_s=3e-6).tokens_per_s is None
    slots = tuple(
        slot(number, decoded=5, task=1, used=10 * number, is_processing=number == 61)
        for number in range(64)
    )
    watched = Watched()
    async with watched.running((100, 10)) as pilot:
        await watched.told(pilot, sample(0.0, slots=slots), sample(1.0, slots=slots))
        for height in (10, 14, 24):
            # Those at work come first where not all fit.
            await resize(pilot, 100, height)
            shown = text_of(pilot.app.screen.query_one(SlotsPanel))
            assert "1 of 64 slots at work" in shown
            assert "61 generating" in shown
        await resize(pilot, 120, 40)
        odd = sample(2.0, facts=facts, counters=empty, slots=())
        await watched.told(pilot, odd, replace(odd, time_s=3.0))
        panel = pilot.app.screen.query_one(ServerPanel)
        assert "[/bold]" in text_of(panel)
        assert "asleep" in text_of(panel)
        assert "0 of 0 slots" in text_of(pilot.app.screen.query_one(SlotsPanel))


async def test_a_defect_of_the_poller_ends_the_screen() -> None:
    watched = Watched()

    async def run() -> None:
        async with watched.running() as pilot:
            watched.threads.post(ZeroDivisionError("asked nothing"))
            await pilot.pause()

    with pytest.raises(ZeroDivisionError, match="asked nothing"):
        await run()
    assert isinstance(watched.app.crash, ZeroDivisionError)
