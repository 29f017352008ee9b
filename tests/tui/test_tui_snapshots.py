"""Pictures of the screens. ``pytest --snapshot-update`` renews them: look at what changed."""

import time
from collections.abc import Awaitable, Callable, Iterator
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
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import ModelInspected
from spectui.monitor.readings import HostReading, Reading, Snapshot, Throttle
from spectui.sessions import Header, SessionLog, UserTurn
from spectui.tui.picker.screen import PickerScreen
from spectui.tui.picker.targets import TargetList
from spectui.tui.threads import ScanFinished
from spectui.tune.forecast import Forecast
from spectui.tune.progress import Phase
from tests.support.cockpit import Cockpit, answer_events, launch, press_keys, settled
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

Scenario = Callable[[Pilot[None]], Awaitable[None]]


class SnapCompare(Protocol):
    """The fixture of pytest-textual-snapshot."""

    def __call__(
        self,
        app: App[None],
        *,
        terminal_size: tuple[int, int],
        run_before: Scenario,
    ) -> bool:
        """Whether the picture is the stored one."""
        ...


def without_gpu(n: int) -> list[Snapshot]:
    return [Snapshot(time_s=index / 4, gpus=(), gpu_reason=NO_GPU, host=HOST) for index in range(n)]


def with_gpu() -> list[Snapshot]:
    """The end of the constructed readings: a model is loaded and decodes."""
    return list(snapshots())[-40:]


async def talk(cockpit: Cockpit, pilot: Pilot[None], n_answers: int = 1) -> None:
    await settled(pilot, lambda: cockpit.app.live.activity is Activity.READY)
    for _ in range(n_answers):
        cockpit.app.session.ask("What does the keeper say about the sea?")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.READY)


def readings(cockpit: Cockpit, snapshots: list[Snapshot] | tuple[Snapshot, ...]) -> None:
    for snapshot in snapshots:
        cockpit.threads.post(snapshot)


def check(
    snap_compare: SnapCompare,
    size: tuple[int, int],
    scenario: Callable[[Cockpit, Pilot[None]], Awaitable[None]],
    *,
    started: Launch | None = None,
    words: tuple[str, ...] = SHORT + STORY,
    n_answers: int = 1,
) -> None:
    cockpit = Cockpit(started)
    cockpit.script.answers += [answer_events(words) for _ in range(n_answers)]

    async def run(pilot: Pilot[None]) -> None:
        # A blinking cursor would be in one picture and not in the next.
        cockpit.app.animation_level = "none"
        await scenario(cockpit, pilot)
        await settled(pilot)

    assert snap_compare(cockpit.app, terminal_size=size, run_before=run)


@pytest.mark.parametrize("size", SIZES)
def test_a_machine_without_a_gpu(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, without_gpu(30))
        await talk(cockpit, pilot)

    check(snap_compare, size, scenario)


def test_a_gpu(snap_compare: SnapCompare) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, with_gpu())
        await talk(cockpit, pilot)

    check(snap_compare, (120, 40), scenario)


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
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, tuple(with_gpus(n)))
        cockpit.threads.post(RamMeasured(bytes_per_s=58.1e9))
        await talk(cockpit, pilot)

    check(snap_compare, size, scenario)


def test_nothing_said_yet(snap_compare: SnapCompare) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await talk(cockpit, pilot, 0)

    check(snap_compare, (80, 24), scenario)


def test_an_engine_error(snap_compare: SnapCompare) -> None:
    reason = "the prompt has 20000 tokens, which leaves no room; raise -c or shorten the prompt"

    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        failure = EngineFailed(error=BadInputError(reason), trace=None)
        cockpit.script.answers.insert(0, [failure])
        await talk(cockpit, pilot)

    check(snap_compare, (80, 24), scenario)


def test_models_lost(snap_compare: SnapCompare) -> None:
    died = EngineDiedError(
        "llama.cpp ended its process with SIGABRT while generating (its last words: "
        "ggml/src/ggml-cpu/ops.cpp:4681: GGML_ASSERT(i01 >= 0 && i01 < ne01) failed); tell "
        "llama.cpp's developers"
    )

    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, without_gpu(30))
        await talk(cockpit, pilot)
        cockpit.script.answers = [
            [*answer_events(STORY)[:12], EngineFailed(error=died, trace=None)]
        ]
        cockpit.script.is_lost = True
        cockpit.app.session.ask("And what of the lamp?")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.LOST)

    check(snap_compare, (120, 40), scenario)


def test_a_long_text(snap_compare: SnapCompare) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, without_gpu(30))
        await talk(cockpit, pilot, 3)

    check(snap_compare, (80, 24), scenario, words=STORY * 12, n_answers=3)


def test_rejected_drafts(snap_compare: SnapCompare) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await talk(cockpit, pilot)
        await press_keys(pilot, "f2")

    check(snap_compare, (120, 40), scenario)


def test_ascii(snap_compare: SnapCompare) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, with_gpu())
        await talk(cockpit, pilot)

    words = tuple(word for word in SHORT + STORY if word.isascii())
    check(snap_compare, (120, 40), scenario, started=replace(launch(), ascii=True), words=words)


@pytest.mark.parametrize("theme", ["spectui-light", "spectui-high-contrast", "ansi-dark"])
def test_other_looks(snap_compare: SnapCompare, theme: str) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        readings(cockpit, with_gpu())
        await talk(cockpit, pilot)

    check(snap_compare, (120, 40), scenario, started=replace(launch(), theme=theme))


@pytest.mark.parametrize(("key", "size"), [("f1", (80, 24)), ("f3", (120, 40))])
def test_help_and_settings(snap_compare: SnapCompare, key: str, size: tuple[int, int]) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await talk(cockpit, pilot)
        await press_keys(pilot, key)

    check(snap_compare, size, scenario)


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

    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await talk(cockpit, pilot, 0)
        if name in states:
            cockpit.tuning(states[name])
            await settled(pilot, lambda: cockpit.app.tune.state == states[name])
        await press_keys(pilot, "f5")

    check(snap_compare, size, scenario)


@pytest.mark.parametrize(("key", "size"), [("f6", (120, 40)), ("f8", (80, 24))])
def test_export_and_log(snap_compare: SnapCompare, key: str, size: tuple[int, int]) -> None:
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        cockpit.threads.log.add("llama_model_loader: loaded [meta] data")
        await talk(cockpit, pilot, 0)
        await press_keys(pilot, key)

    check(snap_compare, size, scenario)


def model(name: str, size_bytes: int) -> FoundModel:
    path = Path(f"/models/{name}.gguf")
    return FoundModel(path=path, name=name, size_bytes=size_bytes)


def compared(target: FoundModel, draft: FoundModel, reason: str | None = None) -> ModelInspected:
    facts = ModelFacts(
        path=draft.path,
        arch="qwen3",
        name=draft.name,
        n_params=draft.size_bytes,
        size_bytes=draft.size_bytes,
        file_bytes=draft.size_bytes,
        n_layers=28,
        n_ctx_train=40960,
        n_vocab=151936,
        kv_bytes_per_token=28_672,
        n_experts=0,
        read_bytes_per_token=draft.size_bytes,
    )
    return ModelInspected(target=target.path, path=draft.path, facts=facts, reason=reason)


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
    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        cockpit.threads.found = [ScanFinished(reasons=())]
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))

    check(snap_compare, (80, 24), scenario, started=launch(pair=None))


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_picker_with_ranked_drafts(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    target = model("Qwen3-30B-A3B-Q4_K_M", 18 * GIB)
    good, fair, unfit = (
        model("Qwen3-0.6B-Q8_0", GIB * 3 // 4),
        model("Qwen3-1.7B-Q8_0", GIB * 7 // 4),
        model("SmolLM2-135M-Q8_0", GIB // 7),
    )
    reason = "the vocabularies differ in size: 151936 (target), 49152 (draft)"
    header = Header(
        started=datetime(2026, 5, 3, 14, 2, tzinfo=UTC),
        target=str(target.path),
        draft=str(good.path),
    )
    log = SessionLog(header)
    log.append(UserTurn(text="What does the keeper of the lighthouse see at night?\nTell me."))
    log.close()

    async def scenario(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        for found in (target, good, fair, unfit, ScanFinished(reasons=())):
            cockpit.threads.post(found)
        await settled(pilot)
        cockpit.app.screen.query_one(TargetList).highlight_model(target.path)
        for event in (compared(target, good), compared(target, fair)):
            cockpit.threads.post(event)
        cockpit.threads.post(compared(target, unfit, reason))
        await settled(pilot)
        # The last row, whose reason stands below in full.
        await press_keys(pilot, "right", "end")

    check(snap_compare, size, scenario, started=launch(pair=None))
