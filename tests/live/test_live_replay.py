"""Replay of a chat: exact counts, costs from its own rounds, answers recorded beside it."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from spectui.engine import inspection
from spectui.engine.commands import Generate, LoadDraft
from spectui.engine.events import (
    Event,
    GenerationResult,
    RoundFinished,
)
from spectui.engine.thread import EngineThread
from spectui.engine.worker import LocalWorker
from spectui.live.recording import ChatRecorder, ChatRecording, newest
from spectui.live.setup import BaselineMeasured, ChatRecorded, LiveSetup
from spectui.options.drafters import Model
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.chains import read_chains
from spectui.trace.replay import Grid, Total, replay_grid
from spectui.tui.tune.ledger import replay_chat
from tests.live.conftest import Watched
from tests.support.engine import ENDLESS, drafting, load_target, speculation
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.replay import COSTS, DEPTH, SCENE, record

pytest_plugins = ["tests.support.fixtures"]

PROMPT = (88, 102, 126, 263, 261, 109, 271)
RECORDINGS = (record(SCENE)[0], record(replace(SCENE, prompt=(3, 1, 2), n_predict=24))[0])
PATIENCE_S = 60


CHAT = ChatRecording(draft="draft", depth=DEPTH, answers=RECORDINGS)


def counts(total: Total | Counters) -> tuple[int, int, int]:
    return total.n_rounds, total.n_drafted, total.n_accepted


def at(totals: tuple[Total, ...], setting: Model) -> Total:
    return next(total for total in totals if total.model == setting)


def test_every_setting_of_the_space_is_exact_and_the_best_comes_first() -> None:
    totals, unpriced = replay_chat(CHAT, COSTS), replay_chat(CHAT, None)
    for longest, shortest, p_min in product(range(2, DEPTH + 1), range(3), (0.0, 0.35, 0.95)):
        total = at(totals, drafting(longest, shortest, p_min))
        # As replays of this setting alone are.
        grid = Grid(draft_max=(longest,), draft_min=(shortest,), draft_p_min=(p_min,))
        prices = COSTS.prices(DEPTH)
        alone = [replay_grid([r], "draft", grid, prices=prices) for r in RECORDINGS]
        assert total.n_rounds == sum(int(r.n_rounds.item()) for r in alone)
        _tokens, drafted, accepted, seconds = np.sum([r.whole for r in alone], axis=0)
        assert (total.n_drafted, total.n_accepted) == (drafted, accepted)
        assert total.seconds == pytest.approx(seconds.item())
        assert counts(at(unpriced, total.model)) == counts(total)
    # Of those that do the same, the one that asks for the least; without costs, most tokens.
    best = totals[0]
    assert best.speedup == max(total.speedup or 0.0 for total in totals)
    alike = [total.model for total in totals if total.speedup == best.speedup]
    assert best.model.draft_min == min(setting.draft_min for setting in alike)
    lengths = [total.tokens_per_round or 1.0 for total in unpriced]
    assert lengths == sorted(lengths, reverse=True)
    assert all(total.model.check() is None for total in totals)


def test_the_newest_are_kept() -> None:
    for n_tokens, kept in ((0, [5]), (5, [5]), (8, [3, 5]), (9, [3, 5]), (10, [2, 3, 5])):
        assert list(newest([2, 3, 5], n_tokens, lambda n: n)) == kept
    assert newest([], 5, len) == ()


class Chat:
    """A chat and its recorder on one engine."""

    def __init__(self, tiny: TinyPath) -> None:
        self.engine = EngineThread(LocalWorker())
        self.recorder: ChatRecorder | None = None
        self.states: queue.SimpleQueue[ChatRecording] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.client = self.engine.connect(self._on_chat)
        self.client.submit(load_target(tiny(TARGET)))
        self.client.submit(LoadDraft(options=ModelOptions(path=tiny(CLOSE_DRAFT))))
        for _ in range(2):
            self._events.get(timeout=PATIENCE_S)

    def _on_chat(self, event: Event) -> None:
        if self.recorder is not None:
            self.recorder.hear(event)
        self._events.put(event)

    def record(self, *, mtp_layers: int = 0, max_tokens: int = 1000) -> ChatRecorder:
        self.recorder = ChatRecorder(
            self.engine,
            self.states.put,
            ChatRecording(draft="close", depth=8, mtp_layers=mtp_layers),
            n_ctx=512,
            rollback=Rollback.TRUNCATE,
            max_tokens=max_tokens,
        )
        return self.recorder

    def ask(self, turn: Generate) -> GenerationResult:
        if self.recorder is not None:
            self.recorder.begin(turn)
        self.client.submit(turn)
        return self.answer()

    def answer(self) -> GenerationResult:
        while True:
            event = self._events.get(timeout=PATIENCE_S)
            if isinstance(event, GenerationResult):
                return event

    def state(self, wanted: Callable[[ChatRecording], bool]) -> ChatRecording:
        while True:
            state = self.states.get(timeout=PATIENCE_S)
            if wanted(state):
                return state


@pytest.fixture
def chat(tiny: TinyPath) -> Iterator[Chat]:
    started = Chat(tiny)
    yield started
    started.engine.close()


def turn(n_predict: int = 24, prompt: tuple[int, ...] = PROMPT, **changes: object) -> Generate:
    command = Generate(
        prompt=prompt,
        n_predict=n_predict,
        sampling=ENDLESS,
        speculation=speculation(3),
        conversation=True,
    )
    return replace(command, **changes)  # type: ignore[arg-type] # its own fields


def recorded(n: int) -> Callable[[ChatRecording], bool]:
    return lambda state: len(state.recordings) == n == len(state.answers)


def test_an_answer_is_recorded_and_replays_exactly(chat: Chat) -> None:
    chat.record()
    first = turn()
    result = chat.ask(first)
    state = chat.state(recorded(1))
    (recording,) = state.recordings
    assert recording.output == result.tokens
    assert recording.prompt == PROMPT
    replayed = replay_chat(state, None)
    for setting in (drafting(3), drafting(8, 2, 0.3), drafting(1)):
        other = chat.ask(replace(first, speculation=Speculation(setting)))
        assert counts(at(replayed, setting)) == counts(other.counters)


def test_the_newest_answers_are_kept_once_each_and_none_of_one_token(chat: Chat) -> None:
    recorder = chat.record(max_tokens=40)
    for n_predict in (10, 20, 15):
        chat.ask(turn(n_predict))
    state = chat.state(lambda state: recorded(2)(state) and state.recordings[-1].id == "answer-3")
    assert [len(recording.output) for recording in state.recordings] == [20, 15]
    assert [recording.id for recording in state.recordings] == ["answer-2", "answer-3"]
    # The same answer is recorded once.
    for again in (turn(1), turn(15, speculation=speculation(6))):
        chat.ask(again)
    assert [answer.id for answer in recorder.state.answers] == ["answer-2", "answer-3"]
    # A closed recorder records nothing; what was submitted is answered before another command.
    recorder.close()
    for n_predict in (12, 4):
        chat.ask(turn(n_predict))
    assert {one.id for one in recorder.state.recordings} <= {"answer-2", "answer-3"}


def test_a_recording_gives_way_to_the_chat_and_begins_again(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.record()
    began: list[int] = []
    second = turn(12, (*PROMPT, 40, 41))

    def interrupted(*arguments: object, check: Callable[[], None], **more: object) -> object:
        began.append(len(began))
        n_asked = 0

        def ask() -> None:
            nonlocal n_asked
            n_asked += 1
            if n_asked == 2 and len(began) == 1:
                assert chat.recorder is not None
                chat.recorder.begin(second)
                chat.client.submit(second)
            check()

        return read_chains(*arguments, check=ask, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "read_chains", interrupted)
    chat.ask(turn())
    # The chat is answered while the first recording is still to be made.
    assert len(chat.answer().tokens) == 12
    state = chat.state(recorded(2))
    assert began == [0, 1, 2]
    total = at(replay_chat(state, None), drafting(4))
    assert total.n_rounds + total.n_accepted == sum(one.n_decoded for one in state.recordings)


def test_a_stopped_answer_is_recorded_as_far_as_it_came(chat: Chat) -> None:
    def stop(event: Event) -> None:
        listen(event)
        if isinstance(event, RoundFinished):
            chat.client.stop()

    # What cannot be recorded is told and dropped.
    chat.record(mtp_layers=1)
    chat.ask(turn())
    state = chat.state(lambda state: state.failure is not None)
    assert "without its MTP layers" in str(state.failure)
    assert state.answers == ()
    chat.record()
    listen = chat.client.sink
    chat.client.sink = stop
    result = chat.ask(turn(200))
    assert result.stop is Stop.CANCELLED
    state = chat.state(recorded(1))
    (recording,) = state.recordings
    assert recording.output == result.tokens
    total = at(replay_chat(state, None), drafting(4))
    assert total.n_rounds + total.n_accepted == recording.n_decoded


def test_a_session_records_its_answers(watched: Watched, setup: LiveSetup) -> None:
    assert setup.draft is not None
    watched.load(setup)
    watched.session.measure_baseline()
    result = watched.ask(setup)
    recording = watched.recording()
    assert (recording.draft, recording.depth) == (setup.draft.path.stem, 16)
    assert watched.session.max_draft == 16
    assert recording.recordings[0].output == result.tokens
    assert recording.recordings[0].n_ctx == 512
    # Another pair begins without recordings. Without a draft there is nothing to record, and who
    # shall not record does not.
    for records, other in ((True, replace(setup, draft=None)), (False, setup)):
        n_before = len(watched.told)
        watched.session.records_chats = records
        watched.load(other)
        watched.ask(other)
        # Comes after whatever else was done in the background.
        watched.session.measure_baseline()
        watched.wait(BaselineMeasured)
        assert set(watched.told[n_before:]) == {ChatRecorded(recording=None)}
