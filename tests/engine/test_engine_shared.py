"""One engine, several clients: who goes first, what gives way, and what the chat's caches cost."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from spectui.engine.commands import (
    Command,
    Generate,
    LoadDraft,
    ProbeMargin,
    RecordChains,
    Tokenize,
)
from spectui.engine.driver import Engine
from spectui.engine.events import (
    Answer,
    Done,
    EngineFailed,
    Event,
    GenerationResult,
    LoadProgress,
    ModelLoaded,
    PromptEvaluated,
    RoundFinished,
    Tokenized,
)
from spectui.engine.thread import EngineThread, Priority
from spectui.engine.worker import LocalWorker
from spectui.errors import CancelledError, UsageError
from spectui.options.setup import ModelOptions
from spectui.speculative.decoder import Stop
from tests.support.engine import ENDLESS, load_target, local_worker, speculation
from tests.support.models import CLOSE_DRAFT, OTHER, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]

PROMPT = tuple(range(20, 60))
Hook = Callable[[Event], None]


class Client:
    """Records events, and acts on the engine's thread while the engine stands still."""

    def __init__(self, engine: EngineThread, priority: Priority) -> None:
        self.events: list[Event] = []
        self.hook: Hook = lambda _event: None
        self._answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        client = engine.connect(self._sink, priority)
        self.client = client
        self.submit = client.submit

    def _sink(self, event: Event) -> None:
        self.events.append(event)
        self.hook(event)
        if isinstance(event, Answer):
            self._answers.put(event)

    def answer(self) -> Event:
        return self._answers.get(timeout=60)

    def ask(self, command: Command) -> Event:
        self.submit(command)
        return self.answer()

    def result(self) -> GenerationResult:
        answer = self.answer()
        assert isinstance(answer, GenerationResult), answer
        return answer

    def generate(self, command: Generate) -> GenerationResult:
        self.submit(command)
        return self.result()

    def failure(self) -> EngineFailed:
        answer = self.answer()
        assert isinstance(answer, EngineFailed)
        return answer

    def assert_cancelled(self) -> None:
        assert isinstance(self.failure().error, CancelledError)

    @contextmanager
    def has_engine(self) -> Iterator[None]:
        """The engine stands still in a command of this client, whose answer comes behind it."""
        reached, ended = threading.Event(), threading.Event()
        hook = self.hook

        def stand_still() -> None:
            reached.set()
            assert ended.wait(60)

        self.hook = once(PromptEvaluated, stand_still)
        self.submit(request(1, draft=False))
        assert reached.wait(60)
        self.hook = hook
        yield
        ended.set()
        self.result()

    @property
    def n_reused(self) -> int:
        return [one.n_reused for one in self.events if isinstance(one, PromptEvaluated)][-1]


class Shared:
    """A loaded pair with a chat and a measurement as its clients; its clock is set by hand."""

    def __init__(self, tiny: TinyPath) -> None:
        self.now_s = 0.0
        self.engine = EngineThread(LocalWorker(), clock=lambda: self.now_s)
        self.chat = Client(self.engine, Priority.INTERACTIVE)
        self.background = Client(self.engine, Priority.BACKGROUND)
        assert isinstance(self.chat.ask(load_target(tiny(TARGET))), ModelLoaded)
        draft = LoadDraft(options=ModelOptions(path=tiny(CLOSE_DRAFT)))
        assert isinstance(self.chat.ask(draft), ModelLoaded)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def chat(shared: Shared) -> Client:
    return shared.chat


@pytest.fixture
def background(shared: Shared) -> Client:
    return shared.background


@pytest.fixture
def shared(tiny: TinyPath) -> Iterator[Shared]:
    started = Shared(tiny)
    yield started
    started.engine.close()


def request(
    n_predict: int = 24,
    prompt: tuple[int, ...] = PROMPT,
    *,
    conversation: bool = False,
    draft: bool = True,
) -> Generate:
    return Generate(
        prompt=prompt,
        n_predict=n_predict,
        sampling=ENDLESS,
        speculation=speculation(4) if draft else None,
        conversation=conversation,
    )


def once(kind: type[Event], action: Callable[[], None]) -> Hook:
    """Hook that acts on the first event of ``kind``."""
    left = [action]

    def hook(event: Event) -> None:
        if left and isinstance(event, kind):
            left.pop()()

    return hook


def test_background_work_gives_way_and_begins_again(chat: Client, background: Client) -> None:
    undisturbed = background.generate(request())
    background.hook = once(RoundFinished, lambda: chat.submit(request(4, draft=False)))
    background.events.clear()
    background.submit(request())
    assert len(chat.result().tokens) == 4
    again = background.result()
    kinds = [type(event) for event in background.events]
    assert again.tokens == undisturbed.tokens
    assert again.counters.n_drafted == undisturbed.counters.n_drafted
    # What came before the restart is void; after it everything is told once more.
    assert kinds.count(PromptEvaluated) == 2


def test_a_person_does_not_wait_for_what_is_queued_in_the_background(
    chat: Client, background: Client
) -> None:
    finished: list[str] = []
    background.hook = lambda event: (
        finished.append("background") if isinstance(event, GenerationResult) else None
    )
    chat.hook = lambda event: (
        finished.append("chat") if isinstance(event, GenerationResult) else None
    )
    with chat.has_engine():
        for n_predict in (2, 3, 4):
            background.submit(request(n_predict))
        chat.submit(request(4))
    chat.result()
    # What comes first goes first.
    assert [len(background.result().tokens) for _ in range(3)] == [2, 3, 4]
    assert finished == ["chat", "chat", "background", "background", "background"]


def test_the_chat_is_not_restarted_by_the_background(chat: Client, background: Client) -> None:
    chat.hook = once(RoundFinished, lambda: background.submit(request(4)))
    assert len(chat.generate(request()).tokens) == 24
    assert len(background.result().tokens) == 4
    assert [type(event) for event in chat.events].count(PromptEvaluated) == 1


def test_what_is_stopped_is_answered_and_the_others_are_left_alone(
    shared: Shared, chat: Client, background: Client
) -> None:
    chat.hook = once(RoundFinished, background.client.stop)
    chat.submit(request())
    background.submit(request())
    assert chat.result().stop is Stop.LENGTH
    background.assert_cancelled()
    with chat.has_engine():
        background.submit(request())
        background.client.stop()
    background.assert_cancelled()
    background.client.quit()
    background.submit(request())
    background.assert_cancelled()
    shared.engine.close()
    assert chat.events[-1] == background.events[-1] == Done()
    with pytest.raises(UsageError, match="the engine is closed"):
        chat.submit(request())


def test_stop_from_another_thread_keeps_the_tokens_so_far(chat: Client) -> None:
    reached, stopped = threading.Event(), threading.Event()

    def stand_still() -> None:
        chat.events.clear()
        reached.set()
        assert stopped.wait(60)

    chat.hook = once(RoundFinished, stand_still)
    chat.submit(request(draft=False))
    assert reached.wait(60)
    chat.client.stop()
    stopped.set()
    cut = chat.result()
    assert (cut.stop, len(cut.tokens), cut.counters.n_rounds) == (Stop.CANCELLED, 2, 1)
    assert [type(event) for event in chat.events] == [GenerationResult]
    whole = chat.generate(request(draft=False))
    assert (whole.stop, whole.tokens[:2]) == (Stop.LENGTH, cut.tokens)


def test_stop_in_the_middle_of_a_decode_keeps_whole_rounds_and_ends_a_load(
    shared: Shared, chat: Client, tiny: TinyPath
) -> None:
    for _ in range(2):
        # What stop() does while a decode runs: the next graph node ends it.
        chat.hook = once(RoundFinished, local_worker(shared.engine).models.abort.set)
        cut = chat.generate(request(draft=False))
        assert (cut.stop, len(cut.tokens)) == (Stop.CANCELLED, 2)
    chat.hook = once(LoadProgress, chat.client.stop)
    chat.submit(LoadDraft(options=ModelOptions(path=tiny(CLOSE_DRAFT))))
    chat.assert_cancelled()
    assert len(chat.generate(request(3, draft=False)).tokens) == 3


def test_stop_cancels_what_was_submitted_before_and_nothing_after(
    chat: Client, tiny: TinyPath
) -> None:
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        holding.set()
        assert release.wait(60)

    chat.hook = once(PromptEvaluated, hold)
    for command in (request(), request(), load_target(tiny(OTHER))):
        chat.submit(command)
    assert holding.wait(60)
    chat.client.stop()
    chat.submit(load_target(tiny(TARGET)))
    chat.submit(request(4, draft=False))
    release.set()
    running = chat.result()
    assert (running.stop, len(running.tokens)) == (Stop.CANCELLED, 1)
    chat.assert_cancelled()
    chat.assert_cancelled()
    assert isinstance(chat.answer(), ModelLoaded)
    assert chat.result().stop is Stop.LENGTH


def test_a_shared_driver_gives_way_and_only_counts_it(shared: Shared, chat: Client) -> None:
    with Engine(shared=shared.engine) as engine:
        undisturbed = engine.generate(request())
        engine.on_event = once(RoundFinished, lambda: chat.submit(request(4)))
        assert engine.generate(request()).tokens == undisturbed.tokens
        chat.result()
        with chat.has_engine():
            engine.client.submit(request(4))
            shared.passes(100)
        engine.generate(request(4))
        assert engine.waited_s == 100
    # Let go of, not closed.
    assert len(chat.generate(request(4)).tokens) == 4


# What it costs to give way


def test_queueing_work_in_vain_and_the_others_turn_are_waited_for(
    shared: Shared, chat: Client, background: Client
) -> None:
    def give_way() -> None:
        shared.passes(5)
        chat.submit(request(4))

    background.hook = lambda _event: shared.passes(3)
    background.generate(request())
    # Who is alone does not wait.
    assert background.client.waited_s == 0
    background.hook = once(RoundFinished, give_way)
    chat.hook = once(GenerationResult, lambda: shared.passes(30))
    other = Client(shared.engine, Priority.INTERACTIVE)
    with other.has_engine():
        background.submit(request())
        shared.passes(7)
    chat.result()
    background.result()
    assert background.client.waited_s == 7 + 5 + 30
    assert chat.client.waited_s == 0


# Sinks


def fail() -> None:
    raise ValueError("on purpose")


@pytest.mark.parametrize("kind", [RoundFinished, GenerationResult, LoadProgress])
def test_a_sink_that_raises_is_told_so(chat: Client, kind: type[Event], tiny: TinyPath) -> None:
    chat.hook = once(kind, fail)
    chat.submit(load_target(tiny(TARGET)) if kind is LoadProgress else request(4))
    failed = chat.failure()
    assert str(failed.error) == "ValueError: on purpose"
    assert "in fail" in str(failed.trace)
    assert isinstance(chat.ask(load_target(tiny(TARGET))), ModelLoaded)
    assert len(chat.generate(request(4, draft=False)).tokens) == 4


def test_a_sink_that_takes_nothing_is_reported_and_harms_nobody_else(
    shared: Shared, background: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    other = Client(shared.engine, Priority.BACKGROUND)
    background.hook = lambda _event: fail()
    background.submit(request(4))
    assert len(other.generate(request(4)).tokens) == 4
    shared.engine.close()
    assert other.events[-1] == Done()
    # The answer, and the end of the engine.
    assert [str(args.exc_value) for args in reported] == ["on purpose"] * 2


def test_what_a_sink_submits_while_the_engine_closes_is_cancelled(
    shared: Shared, background: Client
) -> None:
    closing = threading.Thread(target=shared.engine.close)

    def submit_while_closing() -> None:
        closing.start()
        with shared.engine._changed:
            assert shared.engine._changed.wait_for(lambda: shared.engine._is_closing, 30)
        background.submit(request(4))

    background.hook = once(Tokenized, submit_while_closing)
    assert isinstance(background.ask(Tokenize(text="in the")), Tokenized)
    background.assert_cancelled()
    assert background.answer() == Done()
    closing.join(30)
    assert not closing.is_alive()


# The chat's caches


def turn(prompt: tuple[int, ...], *, draft: bool = True) -> Generate:
    return request(12, prompt, conversation=True, draft=draft)


@pytest.mark.parametrize(
    "disturbance",
    [
        None,
        request(4),
        ProbeMargin(prompt=PROMPT, continuation=(5,)),
        RecordChains(prompt=PROMPT, output=(5,), depth=4),
    ],
)
def test_a_second_turn_evaluates_only_what_is_new_whatever_was_measured_between(
    chat: Client, background: Client, disturbance: Command | None
) -> None:
    first = chat.generate(turn(PROMPT))
    assert chat.n_reused == 0
    if disturbance is not None:
        background.ask(disturbance)
    second = (*PROMPT, *first.tokens, 70, 71, 72)
    continued = chat.generate(turn(second))
    # All but the last emitted token, which no decode has seen.
    assert chat.n_reused == len(PROMPT) + len(first.tokens) - 1
    chat.generate(request(1))
    assert chat.generate(request(12, second)).tokens == continued.tokens


def test_an_edited_conversation_keeps_what_is_common(chat: Client, background: Client) -> None:
    first = chat.generate(turn(PROMPT))
    # A turn without the draft does not confuse the next one with it.
    second = (*PROMPT, *first.tokens, 70)
    third = (*second, *chat.generate(turn(second, draft=False)).tokens, 71)
    together = chat.generate(turn(third))
    assert background.generate(request(12, third, draft=False)).tokens == together.tokens
    chat.generate(turn((*PROMPT[:30], 99, 98)))
    assert chat.n_reused == 30
    # The whole prompt is known: its last token is decoded again for its logits.
    chat.generate(turn(PROMPT[:20]))
    assert chat.n_reused == 19


@pytest.mark.parametrize("n_bytes_missing", [0, 1])
def test_a_chat_that_is_too_large_to_keep_is_not_copied(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, n_bytes_missing: int
) -> None:
    chat = shared.chat
    first = chat.generate(turn(PROMPT))
    models = local_worker(shared.engine).models
    n_bytes = sum(len(context.save()) for context in models.contexts)
    monkeypatch.setattr("spectui.engine.models._CHAT_BYTES", n_bytes - 1)
    free = psutil.virtual_memory()._replace(available=2 * (n_bytes - n_bytes_missing))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    shared.background.generate(request(4))
    chat.generate(turn((*PROMPT, *first.tokens, 70)))
    assert chat.n_reused == (0 if n_bytes_missing else len(PROMPT) + len(first.tokens) - 1)
