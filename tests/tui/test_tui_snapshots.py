"""Pictures of the screens. ``pytest --snapshot-update`` renews them: look at what changed."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from textual.app import App
from textual.pilot import Pilot

from spectui.engine.events import EngineFailed
from spectui.errors import BadInputError, EngineDiedError
from spectui.known import Known
from spectui.live.setup import Activity, Launch, RamMeasured
from spectui.models.files import FoundModel
from spectui.models.ranking import ModelInspected
from spectui.monitor.readings import HostReading, Reading, Snapshot, Throttle
from spectui.sessions import Header, SessionLog, UserTurn
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.picker.targets import TargetList
from spectui.tui.threads import ScanFinished
from spectui.tune.forecast import Forecast
from spectui.tune.progress import Phase
from tests.support.cockpit import (
    Cockpit,
    answer_events,
    facts,
    found,
    launch,
    press_keys,
    settled,
)
from tests.support.constructed import snapshots
from tests.tui.test_tui_tune import DECIDED, PREDICTED, SEARCHING, TURN_OFF, arm

SIZES = [(80, 24), (120, 40), (200, 60)]
GIB = 1 << 30

HOST = HostReading(
    cpu_per_core=(0.9, 0.85, 0.8, 0.95, 0.9, 0.88, 0.91, 0.2),
    memory_total_bytes=64 * GIB,
    memory_available_bytes=40 * GIB,
    swap_used_bytes=0,
    process_rss_bytes=19 * GIB,
    process_anonymous_bytes=Reading(3.0 * GIB),
    disk_read_bytes_per_s=Reading(0.0),
    major_faults_per_s=Reading(0.0),
)
NO_GPU = "no NVIDIA driver is loaded (libnvidia-ml.so.1 was not found)"

SHORT = ("The", " sea", " is", " [bold]wide[/bold]", ",", " says", " \x1b[31mthe", " keeper", ".\n")
STORY = (
    "Every", " evening", " he", " climbs", " the", " stairs", ",", " lights", " the", " lamp", ",",
    " and", " writes", " the", " weather", " into", " his", " book", ":", " 雨", " 🌧️", ".\n",
)  # fmt: skip


class SnapCompare(Protocol):
    """The fixture of pytest-textual-snapshot."""

    def __call__(
        self,
        app: App[None],
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[None]], Awaitable[None]],
    ) -> bool:
        """Whether the picture is the stored one."""
        ...


def without_gpu(n: int) -> list[Snapshot]:
    return [Snapshot(time_s=index / 4, gpus=(), gpu_reason=NO_GPU, host=HOST) for index in range(n)]


def with_gpu() -> list[Snapshot]:
    """The end of the constructed readings: a model is loaded and decodes."""
    return list(snapshots())[-40:]


async def ready(cockpit: Cockpit, pilot: Pilot[None]) -> None:
    await settled(pilot, lambda: cockpit.app.live.activity is Activity.READY)


def check(
    snap_compare: SnapCompare,
    size: tuple[int, int],
    *keys: str,
    started: Launch | None = None,
    machine: Sequence[Snapshot] = (),
    answers: Sequence[list[object]] | None = None,
    then: Callable[[Cockpit, Pilot[None]], Awaitable[None]] | None = None,
) -> None:
    """Start, ask a question for each answer, press keys, do what is left: then it is drawn."""
    cockpit = Cockpit(started)
    cockpit.script.answers += [answer_events(SHORT + STORY)] if answers is None else answers

    async def run(pilot: Pilot[None]) -> None:
        # A blinking cursor would be in one picture and not in the next.
        cockpit.app.animation_level = "none"
        for snapshot in machine:
            cockpit.threads.post(snapshot)
        if started is None or started.pair is not None:
            await ready(cockpit, pilot)
            while cockpit.script.answers:
                cockpit.app.session.ask("What does the keeper say about the sea?")
                await ready(cockpit, pilot)
        if then is not None:
            await then(cockpit, pilot)
        await press_keys(pilot, *keys)
        await settled(pilot)

    assert snap_compare(cockpit.app, terminal_size=size, run_before=run)


@pytest.mark.parametrize("size", SIZES)
def test_a_machine_without_a_gpu(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    check(snap_compare, size, machine=without_gpu(30))


def test_a_gpu(snap_compare: SnapCompare) -> None:
    check(snap_compare, (120, 40), machine=with_gpu())


def with_gpus(n: int) -> Iterator[Snapshot]:
    """As many cards, each busier, fuller and hotter than the one before; the last is throttled."""
    for snapshot in with_gpu():
        (gpu,) = snapshot.gpus
        yield replace(
            snapshot,
            gpus=tuple(
                replace(
                    gpu,
                    index=index,
                    memory_used_bytes=Reading((index + 2) / (n + 2) * 24 * GIB),
                    utilisation=Reading((index + 1) / n * 0.9),
                    power_w=Reading(100.0 + 30 * index),
                    temperature_c=Reading(50.0 + 5 * index),
                    memory_clock_hz=Reading(10.5e9),
                    throttled_by=Known((Throttle.HEAT,) if index == n - 1 else ()),
                )
                for index in range(n)
            ),
        )


@pytest.mark.parametrize(("n", "size"), [(2, (120, 40)), (8, (80, 24))])
def test_as_many_gpus(snap_compare: SnapCompare, n: int, size: tuple[int, int]) -> None:
    async def measure(cockpit: Cockpit, _pilot: Pilot[None]) -> None:
        cockpit.threads.post(RamMeasured(bytes_per_s=58.1e9))

    check(snap_compare, size, machine=tuple(with_gpus(n)), then=measure)


def test_nothing_said_yet(snap_compare: SnapCompare) -> None:
    check(snap_compare, (80, 24), answers=())


def test_an_engine_error(snap_compare: SnapCompare) -> None:
    reason = "the prompt has 20000 tokens, which leaves no room; raise -c or shorten the prompt"
    failure = EngineFailed(error=BadInputError(reason), trace=None)
    check(snap_compare, (80, 24), answers=[[failure]])


def test_models_lost(snap_compare: SnapCompare) -> None:
    died = EngineDiedError(
        "llama.cpp ended its process with SIGABRT while generating (its last words: "
        "ggml/src/ggml-cpu/ops.cpp:4681: GGML_ASSERT(i01 >= 0 && i01 < ne01) failed); tell "
        "llama.cpp's developers"
    )

    async def lose(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        failure = EngineFailed(error=died, trace=None)
        cockpit.script.answers = [[*answer_events(STORY)[:12], failure]]
        cockpit.script.is_lost = True
        cockpit.app.session.ask("And what of the lamp?")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)

    check(snap_compare, (120, 40), machine=without_gpu(30), then=lose)


def test_a_long_text(snap_compare: SnapCompare) -> None:
    answers = [answer_events(STORY * 12) for _ in range(3)]
    check(snap_compare, (80, 24), machine=without_gpu(30), answers=answers)


def test_rejected_drafts(snap_compare: SnapCompare) -> None:
    check(snap_compare, (120, 40), "f2")


def test_ascii(snap_compare: SnapCompare) -> None:
    answers = [answer_events(tuple(word for word in SHORT + STORY if word.isascii()))]
    started = replace(launch(), ascii=True)
    check(snap_compare, (120, 40), started=started, machine=with_gpu(), answers=answers)


@pytest.mark.parametrize("theme", ["spectui-light", "spectui-high-contrast", "ansi-dark"])
def test_other_looks(snap_compare: SnapCompare, theme: str) -> None:
    check(snap_compare, (120, 40), started=replace(launch(), theme=theme), machine=with_gpu())


@pytest.mark.parametrize(("key", "size"), [("f1", (80, 24)), ("f3", (120, 40))])
def test_help_and_settings(snap_compare: SnapCompare, key: str, size: tuple[int, int]) -> None:
    check(snap_compare, size, key)


def replayed() -> tuple[Forecast, ...]:
    """Every setting, the best where the drafts have five tokens."""
    found = [
        Forecast(
            arm=arm(longest, round(0.05 * step, 2)),
            speedup=1.45 - 0.006 * (longest - 5) ** 2 - 0.001 * (step - 6) ** 2,
            n_drafted=100 * longest,
            n_accepted=(95 - 5 * longest + step) * longest,
        )
        for longest in range(1, 17)
        for step in range(20)
    ]
    return tuple(sorted(found, key=lambda one: -one.speedup))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("empty", (80, 24)),
        ("searching", (120, 40)),
        ("turn it off", (120, 40)),
        ("confirming", (120, 40)),
        *(("use it", size) for size in SIZES),
    ],
)
def test_tuning(snap_compare: SnapCompare, name: str, size: tuple[int, int]) -> None:
    forecasts = replayed()
    confirming = replace(PREDICTED, phase=Phase.CONFIRMING, n_confirmed=5, n_to_confirm=36)
    states = {
        "searching": SEARCHING,
        "turn it off": TURN_OFF,
        "confirming": replace(confirming, forecasts=forecasts, current=forecasts[0].arm),
        "use it": replace(DECIDED, forecasts=forecasts),
    }

    async def search(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        if name in states:
            cockpit.tuning(states[name])
            await settled(pilot, lambda: cockpit.app.tune.state == states[name])

    check(snap_compare, size, "f5", answers=(), then=search)


@pytest.mark.parametrize(("key", "size"), [("f6", (120, 40)), ("f8", (80, 24))])
def test_export_and_log(snap_compare: SnapCompare, key: str, size: tuple[int, int]) -> None:
    async def log(cockpit: Cockpit, _pilot: Pilot[None]) -> None:
        cockpit.threads.log.add("llama_model_loader: loaded [meta] data")

    check(snap_compare, size, key, answers=(), then=log)


def compared(target: FoundModel, draft: FoundModel, reason: str | None = None) -> ModelInspected:
    known = facts(draft.path, draft.size_bytes)
    return ModelInspected(target=target.path, path=draft.path, facts=known, reason=reason)


@pytest.fixture
def steady() -> Iterator[None]:
    """No folders of this machine, and its time zone always the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spectui.tui.picker.controller.usual_folders", lambda: (Path("/models"),))
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("steady")
def test_picker_without_models(snap_compare: SnapCompare) -> None:
    async def scan(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        cockpit.threads.post(ScanFinished(reasons=()))

    check(snap_compare, (80, 24), started=launch(pair=None), then=scan)


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_picker_with_ranked_drafts(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    target = found("Qwen3-30B-A3B-Q4_K_M", 18 * GIB)
    good = found("Qwen3-0.6B-Q8_0", GIB * 3 // 4)
    fair = found("Qwen3-1.7B-Q8_0", GIB * 7 // 4)
    unfit = found("SmolLM2-135M-Q8_0", GIB // 7)
    reason = "the vocabularies differ in size: 151936 (target), 49152 (draft)"
    header = Header(
        started=datetime(2026, 5, 3, 14, 2, tzinfo=UTC),
        target=str(target.path),
        draft=str(good.path),
    )
    log = SessionLog(header)
    log.append(UserTurn(text="What does the keeper of the lighthouse see at night?\nTell me."))
    log.close()

    async def look(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        for event in (target, good, fair, unfit, ScanFinished(reasons=())):
            cockpit.threads.post(event)
        await settled(pilot)
        cockpit.app.screen.query_one(TargetList).highlight_model(target.path)
        for draft, why in ((good, None), (fair, None), (unfit, reason)):
            cockpit.threads.post(compared(target, draft, why))
        await settled(pilot)

    # The last row, whose reason stands below in full.
    check(snap_compare, size, "right", "end", started=launch(pair=None), then=look)
