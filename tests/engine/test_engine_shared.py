"""One engine, several clients: who goes first, what gives way, and what the chat's caches cost."""

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from spectui.engine.commands import ComparePair, Generate, LoadDraft, ProbeMargin, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import (
    TERMINAL,
    CommandRestarted,
    EngineClosed,
    EngineFailed,
    Event,
    GenerationFinished,
    GenerationResult,
    LoadProgress,
    ModelLoaded,
    PromptEvaluated,
    RoundFinished,
    Tokenized,
)
from spectui.engine.thread import EngineClient, EngineThread, Priority
from spectui.errors import CancelledError, UsageError
from spectui.llama.context import Context
from spectui.models.ranking import ModelInspected
from spectui.options.setup import ModelOptions
from spectui.speculative.decoder import Stop
from tests.support.engine import ENDLESS, load_target, local_worker, speculation
from tests.support.models import CLOSE_DRAFT, OTHER, TARGET, Tiny, TinyPath, write_empty

pytest_plugins = ["tests.support.fixtures"]

PROMPT = tuple(range(20, 60))
Hook = Callable[[Event], None]


class Client:
    """Records events, and acts on the engine's thread while the engine stands still."""

    def __init__(self, engine: EngineThread, priority: Priority) -> None:
        self.events: list[Event] = []
        self.hook: Hook = lambda _event: None
        self._answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.client: EngineClient = engine.connect(self._sink, priority)

    def _sink(self, event: Event) -> None:
        self.events.append(event)
        self.hook(event)
        if isinstance(event, TERMINAL):
            self._answers.put(event)

    def answer(self) -> Event:
        return self._answers.get(timeout=60)

    def result(self) -> GenerationResult:
        answer = self.answer()
        assert isinstance(answer, GenerationFinished), answer
        return answer.result


class Shared:
    """A loaded pair with a chat and a measurement as its clients; its clock is set by hand."""

    def __init__(self, tiny: TinyPath) -> None:
        self.now_s = 0.0
        self.engine = EngineThread(clock=lambda: self.now_s)
        self.chat = Client(self.engine, Priority.INTERACTIVE)
        self.background = Client(self.engine, Priority.BACKGROUND)
        self.chat.client.submit(load_target(tiny(TARGET)))
        self.chat.client.submit(LoadDraft(options=ModelOptions(path=tiny(CLOSE_DRAFT))))
        assert isinstance(self.chat.answer(), ModelLoaded)
        assert isinstance(self.chat.answer(), ModelLoaded)


@pytest.fixture
def shared(tiny: TinyPath) -> Iterator[Shared]:
    started = Shared(tiny)
    yield started
    started.engine.close()


def request(n_predict: int = 24, *, conversation: bool = False, draft: bool = True) -> Generate:
    return Generate(
        prompt=PROMPT,
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


def test_background_work_gives_way_and_begins_again(shared: Shared) -> None:
    shared.background.client.submit(request())
    undisturbed = shared.background.result()
    order: list[str] = []
    shared.background.hook = once(
        RoundFinished, lambda: shared.chat.client.submit(request(4, draft=False))
    )
    shared.background.events.clear()
    shared.background.client.submit(request())
    order.append(f"chat {len(shared.chat.result().tokens)}")
    again = shared.background.result()
    kinds = [type(event) for event in shared.background.events]
    assert order == ["chat 4"]
    assert again.tokens == undisturbed.tokens
    assert again.counters.n_drafted == undisturbed.counters.n_drafted
    assert kinds.count(CommandRestarted) == 1
    # What came before the restart is void; after it everything is told once more.
    assert kinds.count(PromptEvaluated) == 2


def test_a_person_does_not_wait_for_what_is_queued_in_the_background(shared: Shared) -> None:
    finished: list[str] = []
    shared.chat.hook = once(GenerationFinished, lambda: finished.append("chat"))
    shared.background.hook = lambda event: (
        finished.append("background") if isinstance(event, GenerationFinished) else None
    )
    shared.background.client.hold()
    for _ in range(3):
        shared.background.client.submit(request(4))
    shared.chat.client.submit(request(4))
    shared.background.client.release()
    shared.chat.result()
    for _ in range(3):
        shared.background.result()
    assert finished == ["chat", "background", "background", "background"]


def test_the_chat_is_not_restarted_by_the_background(shared: Shared) -> None:
    shared.chat.hook = once(RoundFinished, lambda: shared.background.client.submit(request(4)))
    shared.chat.client.submit(request())
    assert len(shared.chat.result().tokens) == 24
    assert len(shared.background.result().tokens) == 4
    assert CommandRestarted() not in shared.chat.events


def test_a_held_client_waits_until_it_is_released(shared: Shared) -> None:
    def pause() -> None:
        shared.background.client.hold()
        shared.chat.client.submit(request(4))

    shared.background.hook = once(RoundFinished, pause)
    shared.background.client.submit(request())
    shared.chat.result()
    shared.chat.client.submit(request(4))
    shared.chat.result()
    assert not any(isinstance(event, GenerationFinished) for event in shared.background.events)
    shared.background.client.release()
    assert len(shared.background.result().tokens) == 24
    assert CommandRestarted() in shared.background.events


def test_stop_of_one_client_leaves_the_others_alone(shared: Shared) -> None:
    shared.chat.hook = once(RoundFinished, shared.background.client.stop)
    shared.chat.client.submit(request())
    shared.background.client.submit(request())
    assert shared.chat.result().stop is Stop.LENGTH
    answer = shared.background.answer()
    assert isinstance(answer, EngineFailed)
    assert isinstance(answer.error, CancelledError)


def test_a_stopped_command_of_a_held_client_is_answered(shared: Shared) -> None:
    shared.background.client.hold()
    shared.background.client.submit(request())
    shared.background.client.stop()
    assert isinstance(shared.background.answer(), EngineFailed)


def test_after_quitting_nothing_runs_any_more(shared: Shared) -> None:
    shared.background.client.quit()
    shared.background.client.submit(request())
    answer = shared.background.answer()
    assert isinstance(answer, EngineFailed)
    assert isinstance(answer.error, CancelledError)


def test_closing_tells_every_client(shared: Shared) -> None:
    shared.background.client.hold()
    shared.background.client.submit(request())
    shared.engine.close()
    assert shared.chat.events[-1] == EngineClosed()
    assert shared.background.events[-1] == EngineClosed()
    with pytest.raises(UsageError, match="the engine is closed"):
        shared.chat.client.submit(request())


def test_a_shared_driver_gives_way_and_does_not_notice(shared: Shared) -> None:
    with Engine(shared=shared.engine) as engine:
        undisturbed = engine.generate(request())
        engine.on_event = once(RoundFinished, lambda: shared.chat.client.submit(request(4)))
        assert engine.generate(request()).tokens == undisturbed.tokens
        shared.chat.result()
    # Let go of, not closed.
    shared.chat.client.submit(request(4))
    assert len(shared.chat.result().tokens) == 4


# What it costs to give way


def test_who_is_alone_neither_waits_nor_is_interrupted(shared: Shared) -> None:
    def work(_event: Event) -> None:
        shared.now_s += 3

    before = shared.background.client.n_interruptions
    shared.background.hook = work
    shared.background.client.submit(request())
    shared.background.result()
    assert shared.background.client.waited_s == 0
    assert shared.background.client.n_interruptions == before


def test_queueing_work_in_vain_and_the_others_turn_are_waited_for(shared: Shared) -> None:
    def give_way() -> None:
        shared.now_s += 5
        shared.chat.client.submit(request(4))

    def answered() -> None:
        shared.now_s += 30

    before = shared.background.client.n_interruptions
    shared.background.hook = once(RoundFinished, give_way)
    shared.chat.hook = once(GenerationFinished, answered)
    shared.background.client.hold()
    shared.background.client.submit(request())
    shared.now_s += 7
    shared.background.client.release()
    shared.chat.result()
    shared.background.result()
    assert shared.background.client.waited_s == 7 + 5 + 30
    # Held, and the chat's turn.
    assert shared.background.client.n_interruptions == before + 2
    assert shared.chat.client.waited_s == 0


def test_a_turn_between_two_commands_interrupts_as_well(shared: Shared) -> None:
    with Engine(shared=shared.engine) as engine:
        engine.generate(request(4))
        before = engine.n_interruptions
        shared.chat.client.submit(request(4))
        shared.chat.result()
        engine.generate(request(4))
        assert engine.n_interruptions == before + 1


def test_being_held_interrupts_and_is_waited_for(shared: Shared) -> None:
    with Engine(shared=shared.engine) as engine:
        before = engine.n_interruptions
        engine.client.hold()
        engine.client.submit(request(4))
        shared.now_s += 100
        engine.client.release()
        engine.generate(request(4))
        assert engine.waited_s == 100
        assert engine.n_interruptions == before + 1


# Sinks


def fail() -> None:
    raise ValueError("on purpose")


@pytest.mark.parametrize("kind", [RoundFinished, GenerationFinished])
def test_a_sink_that_raises_is_told_so(shared: Shared, kind: type[Event]) -> None:
    shared.chat.hook = once(kind, fail)
    shared.chat.client.submit(request(4))
    answer = shared.chat.answer()
    assert isinstance(answer, EngineFailed)
    assert str(answer.error) == "ValueError: on purpose"
    assert answer.trace is not None
    assert "in fail" in answer.trace
    shared.chat.client.submit(request(4))
    assert len(shared.chat.result().tokens) == 4


def test_a_sink_that_raises_while_a_model_loads_is_told_that(
    shared: Shared, tiny: TinyPath
) -> None:
    shared.chat.hook = once(LoadProgress, fail)
    shared.chat.client.submit(load_target(tiny(TARGET)))
    answer = shared.chat.answer()
    assert isinstance(answer, EngineFailed)
    assert str(answer.error) == "ValueError: on purpose"
    shared.chat.client.submit(load_target(tiny(TARGET)))
    assert isinstance(shared.chat.answer(), ModelLoaded)


def test_a_sink_that_takes_nothing_is_reported_and_harms_nobody_else(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    other = Client(shared.engine, Priority.BACKGROUND)
    shared.background.hook = lambda _event: fail()
    shared.background.client.submit(request(4))
    other.client.submit(request(4))
    assert len(other.result().tokens) == 4
    shared.engine.close()
    assert other.events[-1] == EngineClosed()
    # The answer, and the end of the engine.
    assert [str(args.exc_value) for args in reported] == ["on purpose"] * 2
    assert {args.thread and args.thread.name for args in reported} == {"spectui-engine"}


def test_what_a_sink_submits_while_the_engine_closes_is_cancelled(shared: Shared) -> None:
    closing = threading.Thread(target=shared.engine.close)

    def submit_while_closing() -> None:
        closing.start()
        with shared.engine._changed:
            assert shared.engine._changed.wait_for(lambda: shared.engine._is_closing, 30)
        shared.background.client.submit(request(4))

    shared.background.hook = once(Tokenized, submit_while_closing)
    shared.background.client.submit(Tokenize(text="in the"))
    assert isinstance(shared.background.answer(), Tokenized)
    answer = shared.background.answer()
    assert isinstance(answer, EngineFailed)
    assert isinstance(answer.error, CancelledError)
    assert shared.background.answer() == EngineClosed()
    closing.join(30)
    assert not closing.is_alive()


# The chat's caches


def turn(prompt: tuple[int, ...], n_predict: int = 12, *, draft: bool = True) -> Generate:
    return Generate(
        prompt=prompt,
        n_predict=n_predict,
        sampling=ENDLESS,
        speculation=speculation(4) if draft else None,
        conversation=True,
    )


def n_reused(client: Client) -> int:
    evaluated = [event for event in client.events if isinstance(event, PromptEvaluated)]
    return evaluated[-1].n_reused


def test_a_second_turn_evaluates_only_what_is_new(shared: Shared) -> None:
    shared.chat.client.submit(turn(PROMPT))
    first = shared.chat.result()
    assert n_reused(shared.chat) == 0
    second = (*PROMPT, *first.tokens, 70, 71, 72)
    shared.chat.client.submit(turn(second))
    continued = shared.chat.result()
    # All but the last emitted token, which no decode has seen.
    assert n_reused(shared.chat) == len(PROMPT) + len(first.tokens) - 1
    shared.chat.client.submit(request(1))
    shared.chat.result()
    shared.chat.client.submit(
        Generate(prompt=second, n_predict=12, sampling=ENDLESS, speculation=speculation(4))
    )
    assert shared.chat.result().tokens == continued.tokens


def test_an_edited_conversation_keeps_what_is_common(shared: Shared) -> None:
    shared.chat.client.submit(turn(PROMPT))
    shared.chat.result()
    shared.chat.client.submit(turn((*PROMPT[:30], 99, 98)))
    shared.chat.result()
    assert n_reused(shared.chat) == 30
    # The whole prompt is known: its last token is decoded again for its logits.
    shared.chat.client.submit(turn(PROMPT[:20]))
    shared.chat.result()
    assert n_reused(shared.chat) == 19


@pytest.mark.parametrize("disturbance", [request(4), ProbeMargin(prompt=PROMPT, continuation=(5,))])
def test_a_measurement_between_two_turns_costs_the_chat_nothing(
    shared: Shared, disturbance: Generate | ProbeMargin
) -> None:
    shared.chat.client.submit(turn(PROMPT))
    first = shared.chat.result()
    shared.background.client.submit(disturbance)
    shared.background.answer()
    shared.chat.client.submit(turn((*PROMPT, *first.tokens, 70)))
    shared.chat.result()
    assert n_reused(shared.chat) == len(PROMPT) + len(first.tokens) - 1


@pytest.mark.parametrize("n_bytes_missing", [0, 1])
def test_a_chat_that_is_too_large_to_keep_is_not_copied(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, n_bytes_missing: int
) -> None:
    shared.chat.client.submit(turn(PROMPT))
    first = shared.chat.result()
    models = local_worker(shared.engine).models
    n_bytes = sum(len(context.save()) for context in models.contexts)
    monkeypatch.setattr("spectui.engine.models._CHAT_BYTES", n_bytes - 1)
    free = psutil.virtual_memory()._replace(available=2 * (n_bytes - n_bytes_missing))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    copied: list[Context] = []
    save = Context.save

    def watched_save(context: Context) -> bytes:
        copied.append(context)
        return save(context)

    monkeypatch.setattr(Context, "save", watched_save)
    shared.background.client.submit(request(4))
    shared.background.result()
    shared.chat.client.submit(turn((*PROMPT, *first.tokens, 70)))
    shared.chat.result()
    fits = not n_bytes_missing
    assert copied == (list(models.contexts) if fits else [])
    assert n_reused(shared.chat) == (len(PROMPT) + len(first.tokens) - 1 if fits else 0)


def test_a_turn_without_the_draft_does_not_confuse_the_next_one_with_it(shared: Shared) -> None:
    shared.chat.client.submit(turn(PROMPT))
    first = shared.chat.result()
    second = (*PROMPT, *first.tokens, 70)
    shared.chat.client.submit(turn(second, draft=False))
    alone = shared.chat.result()
    third = (*second, *alone.tokens, 71)
    shared.chat.client.submit(turn(third))
    together = shared.chat.result()
    shared.background.client.submit(
        Generate(prompt=third, n_predict=12, sampling=ENDLESS, speculation=None)
    )
    assert shared.background.result().tokens == together.tokens


# Pairs without weights


def compare(shared: Shared, target: Path, draft: Path) -> Event:
    shared.background.client.submit(ComparePair(target=target, draft=draft))
    return shared.background.answer()


def test_a_pair_is_compared_without_loading_it(shared: Shared, tiny: TinyPath) -> None:
    answer = compare(shared, tiny(OTHER), tiny(CLOSE_DRAFT))
    assert isinstance(answer, ModelInspected)
    assert answer.reason is None
    assert answer.facts is not None
    assert answer.facts.arch == "llama"
    assert answer.facts.file_bytes == tiny(CLOSE_DRAFT).stat().st_size
    # 2 layers, 1 head, keys and values of 32, two bytes each
    assert answer.facts.kv_bytes_per_token == 2 * 1 * 64 * 2


def test_an_unfit_draft_is_told_with_its_reason(shared: Shared, tiny: TinyPath) -> None:
    renamed = tiny(Tiny(renamed=(9, "other")))
    answer = compare(shared, tiny(OTHER), renamed)
    assert isinstance(answer, ModelInspected)
    assert answer.reason is not None
    assert "token 9 differs" in answer.reason


def test_a_broken_file_is_a_reason(shared: Shared, tiny: TinyPath, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    write_empty(broken)
    answer = compare(shared, tiny(OTHER), broken)
    assert isinstance(answer, ModelInspected)
    assert answer.facts is None
    assert answer.reason is not None
    assert "broken.gguf" in answer.reason
    told = compare(shared, broken, tiny(OTHER))
    assert isinstance(told, ModelInspected)
    assert told.path == told.target == broken
    assert told.reason is not None
