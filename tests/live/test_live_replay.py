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
    GenerationFinished,
    GenerationResult,
    PromptEvaluated,
    RoundFinished,
)
from spectui.engine.thread import EngineThread
from spectui.engine.worker import LocalWorker
from spectui.live.recording import ChatRecorder, ChatRecording, Run, RunMeter, newest
from spectui.live.replay import ChatReplay, known_costs, replay_chat
from spectui.live.setup import BaselineMeasured, ChatRecorded, LiveSetup
from spectui.options.drafters import Model, NgramSimple
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Round
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.chains import read_chains
from spectui.trace.grid import Grid, replay_grid
from spectui.trace.replay import Total
from tests.live.conftest import Watched
from tests.support.engine import ENDLESS, drafting, load_target, speculation
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.replay import COSTS, DEPTH, SCENE, record
from tests.trace.test_costs import rounds as rounds_of_known_costs

pytest_plugins = ["tests.support.fixtures"]

PROMPT = (88, 102, 126, 263, 261, 109, 271)
RECORDINGS = (record(SCENE)[0], record(replace(SCENE, prompt=(3, 1, 2), n_predict=24))[0])
PATIENCE_S = 60


def chat_of(*runs: Run, baseline: Run | None = None) -> ChatRecording:
    return ChatRecording(
        draft="draft", depth=DEPTH, answers=RECORDINGS, runs=runs, baseline=baseline
    )


def counts(total: Total | Counters) -> tuple[int, int, int]:
    return total.n_rounds, total.n_drafted, total.n_accepted


def at(chat: ChatReplay, setting: Model) -> Total:
    return next(total for total in chat.totals if total.model == setting)


def test_every_setting_of_the_space_is_exact_and_the_best_comes_first() -> None:
    chat, unpriced = replay_chat(chat_of(), COSTS), replay_chat(chat_of(), None)
    assert (chat.draft, chat.costs, unpriced.costs) == ("draft", COSTS, None)
    for longest, shortest, p_min in product(range(2, DEPTH + 1), range(3), (0.0, 0.35, 0.95)):
        total = at(chat, drafting(longest, shortest, p_min))
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
    best = chat.totals[0]
    assert best.speedup == max(total.speedup or 0.0 for total in chat.totals)
    alike = [total.model for total in chat.totals if total.speedup == best.speedup]
    assert best.model.draft_min == min(setting.draft_min for setting in alike)
    lengths = [total.tokens_per_round or 1.0 for total in unpriced.totals]
    assert lengths == sorted(lengths, reverse=True)
    assert all(total.model.check() is None for total in chat.totals)


def run(rounds: tuple[Round, ...] = (), wanted: Speculation | None = None) -> Run:
    return Run(speculation=wanted, n_prompt=100, rounds=rounds, n_decoded=10)


def known_rounds() -> tuple[Round, ...]:
    """Of the lengths that ``assert_costs`` expects, four times each; the first does not count."""
    found = [one.round for one in rounds_of_known_costs([1.0], [100], n_each=4)]
    return (found[0], *(one for one in found))


# No draft model took part: its second pass took no time.
OFF = run(
    tuple(
        replace(one, times=replace(one.times, draft_s=1e-6))
        for one in known_rounds()
        if not one.n_drafted
    )
)


def test_costs_are_fitted_to_the_rounds_of_the_chat() -> None:
    costs, source = known_costs(chat_of(run(known_rounds(), speculation(16)), baseline=OFF), None)
    assert costs is not None
    lengths = (0, 1, 2, 4, 8, 16)
    assert costs.verify_s == pytest.approx([0.05 + 0.006 * n for n in lengths])
    assert costs.again_s[0] == pytest.approx(0.003)
    assert costs.off_s == pytest.approx(0.05 + 0.0004 + 0.0003, rel=1e-3)
    assert source == "fitted to 30 rounds of up to 16 drafted, beyond along a line"


TWO = tuple(one for one in known_rounds() if one.n_drafted in {0, 4})
RARE = next(one for one in known_rounds() if one.n_drafted == 8)
UNKNOWN = [
    ((), None, "before the target alone is measured"),
    ((run(known_rounds(), speculation(16)),), None, "before the target alone is measured"),
    ((), OFF, "drafted nothing often enough"),
    ((run(TWO, speculation(4)),), OFF, "drafted only 0 and 4 with it alone;"),
    # A length that came up once does not count, nor do rounds in which others drafted.
    ((run((*TWO, RARE), speculation(16)),), OFF, "drafted only 0 and 4 with it alone;"),
    ((run(known_rounds(), Speculation(NgramSimple(size_m=16))),), OFF, "drafted nothing often"),
]


def test_too_little_is_no_costs_and_a_reason_and_what_tuning_measured_comes_first() -> None:
    for runs, baseline, reason in UNKNOWN:
        costs, source = known_costs(chat_of(*runs, baseline=baseline), None)
        assert costs is None
        assert reason in source
    known = chat_of(run(known_rounds(), speculation(16)), baseline=OFF)
    assert known_costs(known, COSTS) == (COSTS, "as tuning measured them")


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

    def record(self, *, depth: int = 8, max_tokens: int = 1000) -> ChatRecorder:
        self.recorder = ChatRecorder(
            self.engine,
            self.states.put,
            ChatRecording(draft="close", depth=depth),
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
            if isinstance(event, GenerationFinished):
                return event.result

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
    return lambda state: len(state.recordings) == n and not state.n_waiting


def test_an_answer_is_recorded_and_replays_exactly(chat: Chat) -> None:
    chat.record()
    first = turn()
    result = chat.ask(first)
    state = chat.state(recorded(1))
    (recording,) = state.recordings
    assert recording.output == result.tokens
    assert recording.prompt == PROMPT
    (heard,) = state.runs
    assert heard.speculation == first.speculation
    assert sum(len(one.tokens) for one in heard.rounds) == heard.n_decoded == 23
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
    assert [heard.n_decoded for heard in state.runs] == [19, 14]
    # The same answer is measured again, but recorded once.
    for again in (turn(1), turn(15, speculation=speculation(6))):
        chat.ask(again)
    state = chat.state(lambda state: state.runs[-1].speculation == speculation(6))
    assert [answer.id for answer in state.answers] == ["answer-2", "answer-3"]
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

    def interrupted(*arguments: object, cancelled: Callable[[], bool], **more: object) -> object:
        began.append(len(began))
        n_asked = 0

        def ask() -> bool:
            nonlocal n_asked
            n_asked += 1
            if n_asked == 2 and len(began) == 1:
                assert chat.recorder is not None
                chat.recorder.begin(second)
                chat.client.submit(second)
            return cancelled()

        return read_chains(*arguments, cancelled=ask, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "read_chains", interrupted)
    chat.ask(turn())
    # The chat is answered while the first recording is still to be made.
    assert len(chat.answer().tokens) == 12
    state = chat.state(recorded(2))
    assert began == [0, 1, 2]
    total = at(replay_chat(state, None), drafting(4))
    assert total.n_rounds + total.n_accepted == sum(one.n_decoded for one in state.recordings)


def test_rounds_before_a_restart_do_not_count(chat: Chat) -> None:
    meter, events, wanted = RunMeter(), list[Event](), turn(8)
    client = chat.engine.connect(events.append)
    client.submit(wanted)
    chat.ask(turn(2))
    cut = [event for event in events if not isinstance(event, GenerationFinished)]
    assert isinstance(cut[0], PromptEvaluated)
    heard = [meter.hear(event, wanted) for event in (*cut, *events)][-1]
    assert heard is not None
    assert sum(len(one.tokens) for one in heard.rounds) == heard.n_decoded == 7


def test_a_stopped_answer_is_recorded_as_far_as_it_came(chat: Chat) -> None:
    def stop(event: Event) -> None:
        listen(event)
        if isinstance(event, RoundFinished):
            chat.client.stop()

    # What cannot be recorded is told and dropped.
    chat.record(depth=300)
    chat.ask(turn())
    state = chat.state(lambda state: state.failure is not None)
    assert "takes 1 to 254" in str(state.failure)
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


def test_a_session_records_its_answers_and_its_baseline(watched: Watched, setup: LiveSetup) -> None:
    assert setup.draft is not None
    watched.load(setup)
    watched.session.measure_baseline()
    result = watched.ask(setup)
    recording = watched.recording()
    assert (recording.draft, recording.depth) == (setup.draft.path.stem, 16)
    assert watched.session.max_draft == 16
    assert recording.recordings[0].output == result.tokens
    assert recording.recordings[0].n_ctx == 512
    assert recording.runs[0].speculation == setup.speculation
    watched.recording(lambda found: found.baseline is not None)
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
