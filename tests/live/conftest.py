"""A session of the screen on tiny models, whose events can be waited for."""

import queue
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from spectui.engine.events import EngineFailed, GenerationResult, ModelLoaded
from spectui.live.recording import ChatRecording
from spectui.live.session import LiveSession
from spectui.live.setup import ChatRecorded, LiveSetup
from spectui.monitor.dram import RamGauge
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

Kind = TypeVar("Kind")
QUESTION = (("user", "in the on"),)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


class Watched:
    """A session whose events can be waited for."""

    def __init__(self, *, is_idle: Callable[[], bool] = lambda: False) -> None:
        self.events: list[object] = []
        self.on_event: Callable[[object], None] = lambda _event: None
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.session = LiveSession(self._sink, make_gauge=partial(RamGauge, is_idle=is_idle))

    def _sink(self, event: object) -> None:
        self.events.append(event)
        self.on_event(event)
        self._queue.put(event)

    def wait(self, kind: type[Kind], wanted: Callable[[Kind], bool] = lambda _event: True) -> Kind:
        while True:
            event = self._queue.get(timeout=60)
            if isinstance(event, kind) and wanted(event):
                return event
            assert kind is EngineFailed or not isinstance(event, EngineFailed), event

    def load(self, setup: LiveSetup) -> None:
        self.session.load(setup)
        self.wait(ModelLoaded)
        if setup.draft is not None:
            self.session.load_draft(setup.draft, mtp=setup.has_mtp_file)
            self.wait(ModelLoaded)

    def ask(self, setup: LiveSetup) -> GenerationResult:
        """Ask the same question in a conversation of its own."""
        self.session.send(setup, QUESTION)
        return self.wait(GenerationResult)

    def recording(
        self, wanted: Callable[[ChatRecording], bool] = lambda found: bool(found.recordings)
    ) -> ChatRecording:
        while True:
            found = self.wait(ChatRecorded).recording
            if found is not None and wanted(found) and all(one.chains for one in found.answers):
                return found

    @property
    def told(self) -> list[ChatRecorded]:
        """What was said of recordings."""
        return [event for event in self.events if isinstance(event, ChatRecorded)]


@pytest.fixture
def watched() -> Iterator[Watched]:
    started = Watched()
    yield started
    started.session.close()


@pytest.fixture
def setup(tiny: TinyPath) -> LiveSetup:
    return LiveSetup(
        target=ModelOptions(path=tiny(TARGET)),
        draft=ModelOptions(path=tiny(CLOSE_DRAFT)),
        context=ContextOptions(ctx_size=512, threads=1),
        sampling=SamplingConfig(temp=0.0, ignore_eos=True),
        n_predict=12,
    )
