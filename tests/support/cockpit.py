"""The app over a scripted engine: exact numbers, no threads, no waiting for time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from unittest.mock import patch

from textual._compositor import Compositor
from textual._queue import Queue
from textual.app import App, ComposeResult
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message import Message
from textual.message_pump import MessagePump
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from spectui.commands.sources.processes import RunningServer
from spectui.commands.sources.reading import read_command
from spectui.demo import DemoModel, DemoProgress
from spectui.engine.events import (
    EngineFailed,
    GenerationResult,
    LoadProgress,
    ModelLoaded,
    PromptEvaluated,
    Role,
    RoundFinished,
    TokenEmitted,
)
from spectui.errors import CancelledError
from spectui.live.pair import SearchRequest
from spectui.live.recording import ChatRecording
from spectui.live.session import LiveSession
from spectui.live.sessions import Session as StoredSession
from spectui.live.sessions import recent_sessions
from spectui.live.setup import Activity, BaselineMeasured, ChatRecorded, LiveSetup
from spectui.llama.buffers import BufferKind, ModelMemory
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.options.drafters import DraftSimple
from spectui.options.setup import GREEDY, ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.paths import ensure_dir, log_path
from spectui.settings import Settings
from spectui.speculative.counters import Round, RoundTimes, count
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.tui.app import SpectuiApp
from spectui.tui.chat.loading import Choice
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tui.launch import Launch, Pair
from spectui.tui.look import ColouredApp
from spectui.tui.mailbox import Mailbox, Pace
from spectui.tui.threads import Threads
from spectui.tune.progress import TuningState
from tests.support.live import make_round, placed, traffic

Post = Callable[[object], None]

TARGET = Path("/models/Qwen3-30B-A3B-Q4_K_M.gguf")
DRAFT = Path("/models/Qwen3-0.6B-Q8_0.gguf")
GIB = 1 << 30


def setup(pair: Pair) -> LiveSetup:
    return LiveSetup(
        target=ModelOptions(path=pair.target, cpu_moe=True),
        draft=None if pair.draft is None else ModelOptions(path=pair.draft),
        context=ContextOptions(ctx_size=16384, threads=7),
        speculation=Speculation(DraftSimple(draft_max=4)) if pair.draft else None,
        sampling=GREEDY,
    )


def _with_command(text: str) -> Launch:
    """Start with the models of a command, as ``--from`` does."""
    command = read_command(text)
    draft = command.value("model-draft")
    target = Path(command.value("model") or "none")
    return launch(pair=Pair(target=target, draft=None if draft is None else Path(draft)))


def launch(**changes: Any) -> Launch:  # noqa: ANN401 - any field of a launch
    made = Launch(
        make_setup=setup,
        with_preset=lambda name: launch(pair=Pair(target=Path(f"/{name}.gguf"), draft=None)),
        with_command=_with_command,
        settings=Settings(keep_sessions=False),
        n_ctx=16384,
        pair=Pair(target=TARGET, draft=DRAFT),
    )
    return replace(made, **changes)


def memory(role: Role) -> ModelMemory:
    """A draft on the GPU; a target with its experts in RAM."""
    if role is Role.DRAFT:
        weights = ("CUDA0", BufferKind.WEIGHTS, GIB * 3 // 4)
        return placed(weights, ("CUDA0", BufferKind.KV, GIB // 4), reads=None)
    read = {"cpu_expert_bytes": 16 * GIB, "gpu_dense_bytes": GIB * 3 // 2}
    return placed(
        ("CUDA0", BufferKind.WEIGHTS, GIB * 3 // 2),
        ("CPU_Mapped", BufferKind.WEIGHTS, GIB * 16),
        ("CUDA0", BufferKind.KV, GIB * 3 // 2),
        ("CUDA0", BufferKind.COMPUTE, GIB // 3),
        reads=traffic(**read, n_experts=128, n_experts_used=8),
    )


def found(name: str, size_bytes: int = 1000, missing: tuple[str, ...] = ()) -> FoundModel:
    """A model that a scan finds."""
    path = Path(f"/models/{name}.gguf")
    shards = 1 + len(missing)
    return FoundModel(path=path, name=name, size_bytes=size_bytes, n_shards=shards, missing=missing)


def facts(path: Path, size_bytes: int = 1000, **changes: Any) -> ModelFacts:  # noqa: ANN401 - any field
    """What becomes known of a dense model."""
    made = ModelFacts(
        path=path,
        arch="qwen3",
        name=path.stem,
        n_params=size_bytes,
        size_bytes=size_bytes,
        file_bytes=size_bytes,
        n_layers=28,
        n_ctx_train=40960,
        n_vocab=151936,
        kv_bytes_per_token=28_672,
        n_experts=0,
        read_bytes_per_token=size_bytes,
    )
    return replace(made, **changes)


def loaded(role: Role, *, has_chat_template: bool = True) -> ModelLoaded:
    info = facts(
        TARGET if role is Role.TARGET else DRAFT,
        18 * GIB,
        arch="qwen3moe",
        n_params=30_000_000_000,
        n_layers=48,
        n_experts=128,
        kv_bytes_per_token=None,
        read_bytes_per_token=None,
        has_chat_template=has_chat_template,
    )
    return ModelLoaded(
        role=role, info=info, rollback=Rollback.TRUNCATE, n_ctx=16384, memory=memory(role)
    )


def answer_events(
    words: Sequence[str], *, accepted: Sequence[int] = (3, 1, 4, 0, 2), draft_max: int = 4
) -> list[object]:
    """An answer of ``words``, drafted in rounds that accept as many as ``accepted`` says."""
    pieces = [word.encode() for word in words]
    events: list[object] = [
        PromptEvaluated(n_tokens=42, seconds=0.5, n_reused=0),
        TokenEmitted(token=0, piece=pieces[0], from_draft=False),
    ]
    rounds: list[Round] = []
    at = 1
    while at < len(pieces):
        n_accepted = min(accepted[len(rounds) % len(accepted)], len(pieces) - at - 1)
        emitted = pieces[at : at + n_accepted + 1]
        rejected = (b" maybe", b" not")[: draft_max - n_accepted]
        n_drafted = n_accepted + len(rejected)
        times = RoundTimes(
            draft_s=0.007 * n_drafted,
            verify_s=0.05 + 0.01 * n_drafted,
            sample_s=0.001,
            rollback_s=0.0002,
            other_s=0.0008,
        )
        rounds.append(make_round(n_drafted, n_accepted, times, step_s=0.006))
        events += [
            TokenEmitted(token=index, piece=piece, from_draft=index < n_accepted)
            for index, piece in enumerate(emitted)
        ]
        events.append(RoundFinished(round=rounds[-1], rejected=rejected))
        at += n_accepted + 1
    counters = count(rounds)
    result = GenerationResult(
        tokens=tuple(range(len(words))),
        text="".join(words),
        n_prompt_tokens=42,
        prompt_s=0.5,
        decode_s=counters.times.total_s,
        counters=counters,
        stop=Stop.END_OF_GENERATION,
    )
    events.append(result)
    return events


class ScriptedSearch:
    """Notes how a search is steered."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.stop = partial(note, "end_tuning")


class ScriptedInspector:
    """Notes which pairs are to be compared."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self.forget = partial(note, "forget_comparisons")

    def compare(self, wanted: LiveSetup) -> None:
        self._note("compare", (wanted.target.path, wanted.draft and wanted.draft.path))


class ScriptedSession:
    """Answers at once with what the test has laid out. Records what it was asked."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self.asked: list[tuple[str, object]] = []
        self.answers: list[list[object]] = []
        """Events of the answers to come; without one the answer stays open."""
        self.load_events: list[list[object]] = [[loaded(Role.TARGET)], [loaded(Role.DRAFT)]]
        self.tuning = ScriptedSearch(self._note)
        self.inspector = ScriptedInspector(self._note)
        self.max_draft = 16
        self.records_chats = True
        self.is_lost = False
        self.load_again = partial(self._note, "load_again")
        self.close = partial(self._note, "close")

    def _note(self, what: str, value: object = None) -> None:
        self.asked.append((what, value))

    def names(self) -> list[str]:
        return [name for name, _value in self.asked]

    def _post_all(self, events: Sequence[object]) -> None:
        for event in events:
            self._post(event)

    def load(self, wanted: LiveSetup, *, from_disk: bool = False) -> None:
        self._note("load from disk" if from_disk else "load", wanted)
        self._post(LoadProgress(role=Role.TARGET, path=wanted.target.path, fraction=0.4))
        self._post_all(self.load_events[0])

    def load_draft(self, options: ModelOptions, *, mtp: bool) -> None:
        assert mtp is options.path.name.startswith("mtp-")
        self._note("load_draft", options)
        events = self.load_events[1]
        if self.records_chats and any(isinstance(event, ModelLoaded) for event in events):
            recording = ChatRecording(draft=options.path.stem, depth=self.max_draft)
            self._post(ChatRecorded(recording=recording))
        self._post_all(events)

    def measure_baseline(self) -> None:
        self._note("measure_baseline")
        self._post(BaselineMeasured(tokens_per_s=17.2, step_s=0.056))

    def send(self, wanted: LiveSetup, messages: object, text: str | None = None) -> None:
        self._note("send", (wanted, messages, text))
        if self.answers:
            self._post_all(self.answers.pop(0))

    def stop(self) -> None:
        self._note("stop")
        self._post(EngineFailed(error=CancelledError("stopped"), trace=None))

    def start_tuning(self, wanted: LiveSetup, request: SearchRequest) -> None:
        assert request.path is None or request.path.exists()
        self.time_budget_s = request.time_budget_s
        self.chats = request.chats
        self._note("start_tuning", (wanted, request.prompts))


class ScriptedThreads(Threads):
    """Starts a scripted session instead of an engine, and neither monitor nor scan."""

    def __init__(self, mailbox: Mailbox[object]) -> None:
        super().__init__(mailbox)
        self.post = mailbox.put
        self.script = ScriptedSession(mailbox.put)
        self.found: tuple[FoundModel, ...] = ()
        """What a scan finds; without any it goes on until it is told what it has found."""
        self.servers: tuple[RunningServer, ...] = ()
        """Those that run."""
        self.starts = True
        self.built: list[DemoModel] = []
        self.n_stopped_builds = 0
        self.log = log_path()
        ensure_dir(self.log.parent)
        self.log.touch()

    def start(
        self,
        interval_s: float,
        on_engine: Callable[[LiveSession], None],
        on_failure: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        del interval_s
        self._on_failure, self._warn = on_failure, warn
        if self.starts:
            self.post(partial(on_engine, cast("LiveSession", self.script)))

    def start_monitor(self, interval_s: float, warn: Callable[[str], None]) -> None:
        del interval_s
        self._warn = warn

    def build_demo(
        self,
        target: DemoModel,
        on_progress: Callable[[DemoProgress], None],
        on_built: Callable[[dict[DemoModel, Path]], None],
        on_failure: Callable[[str], None],
    ) -> None:
        del on_progress, on_failure
        self.built.append(target)
        self._on_built = on_built

    def stop_demo(self) -> None:
        self.n_stopped_builds += 1

    def tell_failure(self, reason: str) -> None:
        self.post(partial(self._on_failure, reason))

    def tell_unread(self, reason: str) -> None:
        """Tell why the machine is not read any more."""
        self.post(partial(self._warn, reason))

    def tell_built(self, paths: dict[DemoModel, Path]) -> None:
        self.post(partial(self._on_built, paths))

    def read_sessions(self, on_read: Callable[[tuple[StoredSession, ...]], None]) -> None:
        self.post(partial(on_read, recent_sessions(20)))

    def look_for_servers(self, on_servers: Callable[[Sequence[RunningServer]], None]) -> None:
        self.post(partial(on_servers, self.servers))

    def scan(
        self,
        folders: Sequence[Path],
        on_model: Callable[[FoundModel], None],
        on_end: Callable[[Sequence[str]], None],
    ) -> None:
        del folders
        self._on_model, self._on_end = on_model, on_end
        if self.found:
            self.tell_found(*self.found)

    def tell_found(self, *models: FoundModel, ends: bool = True) -> None:
        """Tell what the scan has found, and that it has ended."""
        for model in models:
            self.post(partial(self._on_model, model))
        if ends:
            self.post(partial(self._on_end, ()))


class Alone(ColouredApp[None]):
    """Nothing but a widget."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.animation_level = "none"
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


@asynccontextmanager
async def alone(widget: Widget, size: tuple[int, int]) -> AsyncIterator[Pilot[None]]:
    """A widget that is drawn."""
    async with Alone(widget).run_test(size=size) as pilot:
        await handled(pilot)
        yield pilot


class Recorder:
    """In place of a controller: notes what its screen asks for, by method."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        """Each a method's name, and what it was given."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def note(*values: object, **named: object) -> None:
            self.heard.append((name, *values, *named.values()))

        return note


class Host(ColouredApp[None]):
    """An app over a controller that only hears; it shows one screen, or one widget."""

    ENABLE_COMMAND_PALETTE = False
    # Scroll bars are the app's, which draws them without its own characters in ASCII.
    CSS = "* { scrollbar-size: 0 0; }"

    opened: Screen[Any]

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.controller = Recorder()

    def on_mount(self) -> None:
        self.push_screen(self.opened)

    def take(self) -> list[tuple[object, ...]]:
        """What the screen has asked for since the last look."""
        asked, self.controller.heard[:] = list(self.controller.heard), []
        return asked

    @property
    def is_idle(self) -> bool:
        """Whether nothing is worked out aside."""
        return True

    @property
    def notices(self) -> list[str]:
        return notices(self)

    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(screen_lines(self))

    def words(self) -> str:
        """The same, whatever its line breaks."""
        return " ".join(self.text().split())


HostT = TypeVar("HostT", bound=Host)


class Stage(Generic[HostT]):
    """An app, with what a user does to it; each step returns what stands on the screen then."""

    def __init__(self, app: HostT, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        await press_keys(self.pilot, *keys)
        return await self.idle()

    async def at(self, size: tuple[int, int]) -> str:
        await resize(self.pilot, *size)
        return await self.idle()

    async def click(self, where: str | type[Widget] | Widget, x: int = 0, y: int = 0) -> str:
        await self.pilot.click(where, offset=(x, y))
        return await self.idle()

    async def idle(self) -> str:
        """Wait until everything is handled, and nothing is worked out aside."""
        await handled(self.pilot)
        if not self.app.is_idle:
            await settled(self.pilot, lambda: self.app.is_idle)
        return self.app.text()


@asynccontextmanager
async def staged(
    app: HostT, size: tuple[int, int] = (120, 40), *, notifications: bool = False
) -> AsyncIterator[tuple[HostT, Stage[HostT]]]:
    """The app, which is drawn; with toasts if asked for."""
    async with app.run_test(size=size, notifications=notifications) as pilot:
        stage = Stage(app, pilot)
        await stage.idle()
        yield app, stage


def screen_lines(app: App[Any]) -> list[str]:
    """Lines of the whole screen."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def notices(app: App[Any]) -> list[str]:
    return [notice.message for notice in app._notifications]


class Cockpit:
    """An app with its script."""

    pilot: Pilot[None]

    def __init__(self, wanted: Launch | None = None) -> None:
        self.app = SpectuiApp(wanted or launch(), ScriptedThreads)
        self.threads = cast("ScriptedThreads", self.app.threads)
        self.script = self.threads.script

    @asynccontextmanager
    async def shown(self, size: tuple[int, int] = (120, 40)) -> AsyncIterator[None]:
        """The app, which is running."""
        with without_idle_work():
            async with self.app.run_test(size=size) as self.pilot:
                await handled(self.pilot)
                yield

    @asynccontextmanager
    async def loaded(self, size: tuple[int, int] = (120, 40)) -> AsyncIterator[None]:
        """The app, which has loaded its pair."""
        async with self.shown(size):
            await self.is_ready()
            yield

    async def press(self, *keys: str) -> None:
        await press_keys(self.pilot, *keys)

    async def ask(self, text: str = "hello") -> None:
        """Send a prompt."""
        self.app.live.query_one(PromptBox).text = text
        await self.press("enter")

    async def resize(self, width: int, height: int) -> None:
        await resize(self.pilot, width, height)

    async def settled(self, condition: Callable[[], bool] = lambda: True) -> None:
        await settled(self.pilot, condition)

    def choose(self, choice: Choice) -> None:
        """Choose in the picker, which is open."""
        assert self.app.picker is not None
        self.app.picker.dismiss(self.app.live.loader.prepared(choice))

    async def reach(self, activity: Activity) -> None:
        await self.settled(lambda: self.app.live.activity is activity)

    async def is_ready(self) -> None:
        await self.reach(Activity.READY)

    async def tell(self, state: TuningState) -> None:
        """Tell of a search, and wait until it is shown."""
        self.tuning(state)
        await self.settled(lambda: self.app.tune.state == state)

    @property
    def setup(self) -> LiveSetup:
        found = self.app.live.setup
        assert found is not None
        return found

    def tuning(self, state: TuningState) -> None:
        """Tell of a search."""
        self.threads.post(state)

    @property
    def is_live(self) -> bool:
        """Whether no other screen lies over the chat."""
        return self.app.screen is self.app.live

    @property
    def notices(self) -> list[str]:
        return notices(self.app)

    @property
    def problem(self) -> str:
        """Why models were not loaded, as the picker shows it."""
        shown = self.app.screen.query("#problem").results(Static)
        return next((str(one.content) for one in shown if one.display), "")

    @property
    def said(self) -> str:
        """All turns of the chat."""
        return "\n\n".join("".join(parts) for _role, parts in self.app.live.transcript._said)

    def lines(self) -> list[str]:
        """What stands on the screen."""
        return screen_lines(self.app)


_draw = Compositor.render_update


@contextmanager
def without_idle_work() -> Iterator[None]:
    """Neither sleep after a key or between events, nor animate, nor draw what nobody looks at.

    Tests wait for effects. Textual sleeps until the process is idle, which on a busy machine it
    hardly ever is.
    """
    with (
        patch("textual.app.wait_for_idle", _take_turns),
        patch("textual.pilot.wait_for_idle", _take_turns),
        patch("textual.constants.TEXTUAL_ANIMATIONS", "none"),
        patch.object(Pace, "delay_s", return_value=0.0),
        # A notice is there until it is looked at, however long that takes.
        patch.object(Notification, "has_expired", new=False),
        patch.object(Stylesheet, "_parse_rules", _parse_once),
        # The same, without a call into Python for every rule that a widget is held against.
        patch.object(RuleSet, "__hash__", object.__hash__),
        patch.object(Compositor, "render_update", _draw_what_is_looked_at),
    ):
        yield


_parse_rules = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, *source: Hashable, **options: Hashable) -> list[RuleSet]:
    """Share parsed rules among apps: each has them parsed anew with every new kind of widget."""
    key = (source, *sorted(options.items()), tuple(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, *source, **options)  # type: ignore[arg-type]
    return _parsed[key]


async def _take_turns(*_seconds: float) -> None:
    await asyncio.sleep(0)


def _draw_what_is_looked_at(compositor: Compositor, *, full: bool = False, **above: Any) -> object:  # noqa: ANN401 - handed on
    """Leave what changes for a moment undrawn: ``handled`` draws what is there in the end."""
    return _draw(compositor, full=True, **above) if full else None


_STEPS = 8
"""More than the longest way of a message: key, box, screen, app, another screen, its widgets."""

_SOON = 500
"""Turns of the loop after which somebody waits for a thread, or for time."""


async def handled(pilot: Pilot[None]) -> None:
    """Wait until everything posted is handled, and what follows from it, however slow the machine.

    What is laid out and drawn may post messages, and these what is to be laid out again.
    """
    for _ in range(_STEPS):
        await _drained(pilot.app)
        # The first frame of an animation is its last: there are none here.
        pilot.app.animator()
        # Lay out and draw what has changed, as the screen does at its own pace.
        pilot.app.screen._on_timer_update()
        if not _is_busy(pilot.app):
            break
    compositor = pilot.app.screen._compositor
    if compositor._dirty_regions:
        _draw(compositor, screen_stack=pilot.app._background_screens)


async def _drained(app: App[None]) -> None:
    """Wait until every widget waits for its next message, or the app ends."""
    async with asyncio.timeout(60):
        n_looks = n_quiet = 0
        # What ends between two widgets, such as a removal, takes a few turns to be seen.
        while n_quiet < _STEPS and not (app._exit or app._exception):
            n_looks += 1
            await asyncio.sleep(0 if n_looks < _SOON else 0.005)
            n_quiet = 0 if _is_busy(app) else n_quiet + 1


def _is_busy(app: App[None]) -> bool:
    """Whether anyone has a message, or is at work on one instead of waiting for the next."""
    pumps: list[MessagePump] = [app, *app._registry]
    return any(map(_is_at_work, pumps))


def _is_at_work(pump: MessagePump) -> bool:
    queue: Queue[Message | None] = pump._message_queue
    return not queue.empty() or bool(pump._next_callbacks) or not queue.ready_event._waiters


async def press_keys(pilot: Pilot[None], *keys: str) -> None:
    """Press one key after the other, each when the one before has had its effect."""
    for key in keys:
        await pilot.app._press_keys([key])
        await handled(pilot)


async def settled(pilot: Pilot[None], condition: Callable[[], bool] = lambda: True) -> None:
    """Wait until every event is collected, and ``condition`` holds."""
    async with asyncio.timeout(60):
        n_looks = 0
        while has_mail(pilot.app) or not condition():
            n_looks += 1
            await asyncio.sleep(0 if n_looks < _STEPS else 0.02)
            pilot.app.screen._on_timer_update()
    await handled(pilot)


def has_mail(app: App[None]) -> bool:
    """Whether events of other threads wait to be collected."""
    return isinstance(app, SpectuiApp) and app._mailbox._is_awake


async def resize(pilot: Pilot[None], width: int, height: int) -> None:
    """Give the terminal another size, and wait until the app has passed it on."""
    await pilot.resize_terminal(width, height)
    await settled(pilot, lambda: pilot.app._resize_event is None)
