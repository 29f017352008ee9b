"""Pictures of the screens. ``pytest --snapshot-update`` renews them: look at what changed."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest
from textual.app import App
from textual.pilot import Pilot

from spectui.engine.events import EngineFailed
from spectui.errors import BadInputError, EngineDiedError
from spectui.live.sessions import Header, SessionLog, UserTurn
from spectui.live.setup import Activity
from spectui.models.files import FoundModel
from spectui.models.ranking import ModelInspected
from spectui.monitor.readings import HostReading, Reading, Snapshot
from spectui.settings import Settings
from spectui.tui.launch import Launch
from spectui.tui.picker.lists import TargetList
from spectui.tui.picker.screen import PickerScreen
from spectui.tune.forecast import Forecast
from spectui.tune.progress import Phase
from tests.support.cockpit import Cockpit, answer_events, facts, found, launch, press_keys, settled
from tests.support.constructed import snapshots
from tests.support.search import forecast_of
from tests.tui.test_tui_tune import DECIDED, PREDICTED, SEARCHING, TURN_OFF, arm

SIZES = {"80": (80, 24), "120": (120, 40), "200": (200, 60)}
GIB = 1 << 30

HOST = HostReading(
    cpu_per_core=(0.9, 0.85, 0.8, 0.95, 0.9, 0.88, 0.91, 0.2),
    memory_total_bytes=64 * GIB,
    memory_available_bytes=40 * GIB,
    swap_used_bytes=0,
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
    return [Snapshot(gpus=(), gpu_reason=NO_GPU, host=HOST)] * n


def with_gpu() -> list[Snapshot]:
    """The end of the constructed readings: a model is loaded and decodes."""
    return list(snapshots())[-40:]


async def ready(cockpit: Cockpit, pilot: Pilot[None]) -> None:
    await settled(pilot, lambda: cockpit.app.live.activity is Activity.READY)


def check(
    snap_compare: SnapCompare,
    size: tuple[int, int],
    *,
    keys: Sequence[str] = (),
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


REASON = "the prompt has 20000 tokens, which leaves no room; raise -c or shorten the prompt"
ASCII_WORDS = tuple(word for word in SHORT + STORY if word.isascii())
CHATS: dict[str, dict[str, Any]] = {
    **{f"without a gpu {width}": {"machine": without_gpu(30)} for width in SIZES},
    "gpu": {"machine": with_gpu()},
    "ascii": {
        "started": launch(settings=Settings(keep_sessions=False, ascii=True)),
        "machine": with_gpu(),
        "answers": [answer_events(ASCII_WORDS)],
    },
    **{
        theme: {
            "started": launch(settings=Settings(keep_sessions=False, theme=theme)),
            "machine": with_gpu(),
        }
        for theme in ("spectui-light", "spectui-high-contrast", "ansi-dark")
    },
    "nothing said 80": {"answers": ()},
    "error 80": {"answers": [[EngineFailed(error=BadInputError(REASON), trace=None)]]},
    "long text 80": {"machine": without_gpu(30), "answers": [answer_events(STORY * 12)] * 3},
    "rejected": {"keys": ("f2",)},
    "help 80": {"keys": ("f1",)},
    "settings": {"keys": ("f3",)},
}
"""Pictures by a name that ends with their width, where that is not 120."""


@pytest.mark.parametrize("name", CHATS)
def test_a_chat(snap_compare: SnapCompare, name: str) -> None:
    check(snap_compare, SIZES.get(name.rpartition(" ")[2], (120, 40)), **CHATS[name])


def test_models_lost(snap_compare: SnapCompare) -> None:
    died = EngineDiedError(
        "llama.cpp ended its process with SIGABRT while generating (its last words: "
        "ggml/src/ggml-cpu/ops.cpp:4681: GGML_ASSERT(i01 >= 0 && i01 < ne01) failed); tell "
        "llama.cpp's developers"
    )

    async def lose(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        failure = EngineFailed(error=died, trace=None)
        cockpit.script.answers = [[*answer_events(STORY)[:12], failure]]
        cockpit.app.session.ask("And what of the lamp?")
        await settled(pilot, lambda: cockpit.app.live.activity is Activity.READY)

    check(snap_compare, (120, 40), machine=without_gpu(30), then=lose)


def replayed() -> tuple[Forecast, ...]:
    """Every setting, the best where the drafts have five tokens."""
    found = [
        forecast_of(
            arm(longest, round(0.05 * step, 2)),
            1.45 - 0.006 * (longest - 5) ** 2 - 0.001 * (step - 6) ** 2,
            n_drafted=100 * longest,
            n_accepted=(95 - 5 * longest + step) * longest,
        )
        for longest in range(1, 17)
        for step in range(20)
    ]
    return tuple(sorted(found, key=lambda one: -one.speedup))


STATES = {
    "empty 80": None,
    "searching": SEARCHING,
    "turn it off": TURN_OFF,
    "confirming": replace(
        PREDICTED,
        phase=Phase.CONFIRMING,
        n_done=5,
        n_steps=36,
        forecasts=replayed(),
        current=replayed()[0].arm,
    ),
    **{f"use it {width}": replace(DECIDED, forecasts=replayed()) for width in SIZES},
}


@pytest.mark.parametrize("name", STATES)
def test_tuning(snap_compare: SnapCompare, name: str) -> None:
    async def search(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        state = STATES[name]
        if state is not None:
            cockpit.tuning(state)
            await settled(pilot, lambda: cockpit.app.tune.state == state)

    size = SIZES.get(name.rpartition(" ")[2], (120, 40))
    check(snap_compare, size, keys=("f5",), answers=(), then=search)


@pytest.mark.parametrize(("key", "size"), [("f6", (120, 40)), ("f8", (80, 24))])
def test_export_and_log(snap_compare: SnapCompare, key: str, size: tuple[int, int]) -> None:
    async def log(cockpit: Cockpit, _pilot: Pilot[None]) -> None:
        cockpit.threads.log.write_text("llama_model_loader: loaded [meta] data\n")

    check(snap_compare, size, keys=(key,), answers=(), then=log)


def compared(target: FoundModel, draft: FoundModel, reason: str | None = None) -> ModelInspected:
    known = facts(draft.path, draft.size_bytes)
    return ModelInspected(target=target.path, path=draft.path, facts=known, reason=reason)


@pytest.fixture
def steady() -> Iterator[None]:
    """No folders of this machine, and its time zone always the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spectui.tui.picker.screen.usual_folders", lambda: (Path("/models"),))
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("steady")
def test_picker_without_models(snap_compare: SnapCompare) -> None:
    async def scan(cockpit: Cockpit, pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: isinstance(cockpit.app.screen, PickerScreen))
        cockpit.threads.tell_found()

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
        cockpit.threads.tell_found(target, good, fair, unfit)
        await settled(pilot)
        targets = cockpit.app.screen.query_one(TargetList)
        targets.highlighted = targets.get_option_index(str(target.path))
        for draft, why in ((good, None), (fair, None), (unfit, reason)):
            cockpit.threads.post(compared(target, draft, why))
        await settled(pilot)

    # The last row, whose reason stands below in full.
    check(snap_compare, size, keys=("right", "end"), started=launch(pair=None), then=look)
