"""What-if: exact replays, costs from a session's own rounds, answers recorded beside the chat."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from spectui.engine import inspection
from spectui.engine.commands import Generate, LoadDraft
from spectui.engine.events import (
    Event,
    GenerationFinished,
    GenerationResult,
    PromptEvaluated,
    Role,
    RoundFinished,
)
from spectui.engine.thread import EngineThread
from spectui.errors import UsageError
from spectui.live.recording import (
    ChatRecorder,
    ChatRecording,
    ChatText,
    Run,
    RunMeter,
    chat_trace,
    newest,
    save_trace,
)
from spectui.live.setup import BaselineMeasured, ChatRecorded, LiveSetup
from spectui.live.whatif import Source, WhatIf, known_costs, whatif_state
from spectui.options.drafters import Model, NgramSimple
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.file import read_trace
from spectui.trace.grid import Grid, replay_grid
from spectui.trace.record import Recording, Trace, record_chains
from tests.live.conftest import Watched
from tests.support.cockpit import loaded
from tests.support.engine import ENDLESS, drafting, load_target, speculation
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.replay import COSTS, DEPTH, SCENE, record
from tests.trace.test_costs import rounds as rounds_of_known_costs
from tests.tui.test_tui_tune import arm, failed, trial

pytest_plugins = ["tests.support.fixtures"]

PROMPT = (88, 102, 126, 263, 261, 109, 271)
RECORDINGS = (record(SCENE)[0], record(replace(SCENE, prompt=(3, 1, 2), n_predict=24))[0])
PATIENCE_S = 60


def whatif(*, with_costs: bool = True) -> WhatIf:
    costs = COSTS if with_costs else None
    return WhatIf(RECORDINGS, "draft", longest=DEPTH, costs=costs)


def assert_exact(one: WhatIf, setting: Model) -> None:
    """Compare with replays of this setting alone."""
    grid = Grid(
        draft_max=(setting.draft_max,),
        draft_min=(setting.draft_min,),
        draft_p_min=(setting.draft_p_min,),
    )
    prices = COSTS.prices(DEPTH)
    alone = [replay_grid(r, r.chains["draft"], grid, prices=prices) for r in RECORDINGS]
    total = one.at(setting)
    assert total.model == setting
    assert total.n_rounds == sum(int(r.n_rounds.item()) for r in alone)
    assert total.n_drafted == sum(int(r.n_drafted.item()) for r in alone)
    assert total.n_accepted == sum(int(r.n_accepted.item()) for r in alone)
    seconds = sum(r.seconds.item() for r in alone if r.seconds is not None)
    assert total.seconds == pytest.approx(seconds)


def test_every_setting_of_the_space_is_exact_and_known_at_once() -> None:
    one = whatif()
    one.replay_space()
    for longest, shortest, p_min in product(range(1, DEPTH + 1), range(3), (0.0, 0.35, 0.95)):
        setting = drafting(longest, shortest, p_min)
        assert one.knows(setting)
        assert_exact(one, setting)


def test_a_setting_between_the_steps_is_replayed_when_it_is_asked_for() -> None:
    one, setting = whatif(), drafting(4, 5, 0.333)
    one.replay_space()
    assert not one.knows(setting)
    assert_exact(one, setting)
    assert one.knows(drafting(1, 5, 0.333))
    line = one.line(drafting(3, 1, 0.5))
    assert [total.model for total in line] == [drafting(n, 1, 0.5) for n in range(1, DEPTH + 1)]
    # What differs is replayed anew.
    assert one.is_like(whatif())
    for recordings, longest, costs in (
        (RECORDINGS, DEPTH, None),
        (RECORDINGS[:1], DEPTH, COSTS),
        (RECORDINGS, 2, COSTS),
    ):
        assert not one.is_like(WhatIf(recordings, "draft", longest=longest, costs=costs))


def test_the_best_is_the_fastest_that_asks_for_the_least() -> None:
    assert whatif().best is None
    one = whatif()
    one.replay_space()
    assert one.best is not None
    settings = [
        drafting(longest, shortest, round(0.05 * step, 2))
        for longest, step in product(range(1, DEPTH + 1), range(20))
        for shortest in range(min(longest, 4) + 1)
    ]
    fastest = max(one.at(setting).tokens_per_s or 0.0 for setting in settings)
    assert one.best.tokens_per_s == fastest
    alike = [setting for setting in settings if one.at(setting).tokens_per_s == fastest]
    assert one.best.model.draft_min == min(setting.draft_min for setting in alike)


def test_without_costs_there_are_counts_and_no_speed() -> None:
    one = whatif(with_costs=False)
    one.replay_space()
    assert one.best is None
    total = one.at(drafting(3))
    assert total.tokens_per_s is None
    assert total.speedup is None
    assert total.n_accepted == whatif().at(drafting(3)).n_accepted


def run(
    rounds: tuple[Round, ...] = (),
    wanted: Speculation | None = None,
    *,
    n_decoded: int = 10,
    decode_s: float = 1.0,
) -> Run:
    return Run(
        speculation=wanted,
        n_prompt=100,
        rounds=rounds,
        n_decoded=n_decoded,
        decode_s=decode_s,
    )


def known_rounds() -> tuple[Round, ...]:
    """Of the lengths that ``assert_costs`` expects, four times each; the first does not count."""
    found = [one.round for one in rounds_of_known_costs([1.0], [100], n_each=4)]
    return (found[0], *(one for one in found))


def test_costs_are_fitted_to_the_rounds_of_the_chat() -> None:
    chat = run(known_rounds(), speculation(16))
    # No draft model took part: its second pass took no time.
    off = run(
        tuple(
            replace(one, times=replace(one.times, draft_s=1e-6))
            for one in known_rounds()
            if not one.n_drafted
        )
    )
    known = known_costs([chat], off, None)
    assert known.costs is not None
    lengths = (0, 1, 2, 4, 8, 16)
    assert known.costs.verify_s == pytest.approx([0.05 + 0.006 * n for n in lengths])
    assert known.costs.again_s[0] == pytest.approx(0.003)
    assert known.costs.off_s == pytest.approx(0.05 + 0.0004 + 0.0003, rel=1e-3)
    assert known.source == "fitted to 28 rounds of up to 16 drafted, beyond along a line"


def test_slow_rounds_raise_the_level_and_bend_no_curve() -> None:
    rounds = known_rounds()
    slow = tuple(
        replace(one, times=replace(one.times, other_s=1.0)) if index % 10 == 9 else one
        for index, one in enumerate(rounds)
    )
    calm, noisy = (
        known_costs([run(some, speculation(16))], None, None).costs for some in (rounds, slow)
    )
    assert calm is not None
    assert noisy is not None
    share = sum(one.times.total_s for one in slow[1:]) / sum(
        one.times.total_s for one in rounds[1:]
    )
    assert share > 1.5
    assert noisy.verify_s == pytest.approx([share * seconds for seconds in calm.verify_s])
    assert noisy.step_s == pytest.approx(share * calm.step_s)


def test_costs_of_other_work_per_round_are_left_out() -> None:
    ngram = run(known_rounds(), Speculation(NgramSimple(size_m=16)))
    assert known_costs([ngram], None, None).costs is None


def test_too_few_lengths_are_no_costs_and_a_reason() -> None:
    nothing = known_costs([], None, None)
    assert nothing.costs is None
    assert "drafted nothing often enough" in nothing.source
    two = tuple(one for one in known_rounds() if one.n_drafted in {0, 4})
    found = known_costs([run(two, speculation(4))], None, None)
    assert found.costs is None
    assert "tokens/s is not known" in found.source
    assert "drafted only 0 and 4 with it alone;" in found.source
    # A length that came up once or twice does not count.
    rare = next(one for one in known_rounds() if one.n_drafted == 8)
    found = known_costs([run((*two, rare), speculation(16))], None, None)
    assert found.costs is None


def test_what_tuning_measured_comes_first() -> None:
    known = known_costs([run(known_rounds(), speculation(16))], None, COSTS)
    assert known.costs == COSTS
    assert known.source == "as tuning measured them"


def test_what_was_measured_is_drawn_by_setting() -> None:
    chat = ChatRecording(
        draft="draft",
        depth=DEPTH,
        runs=(
            run((), speculation(4), n_decoded=30, decode_s=1.0),
            run((), speculation(4), n_decoded=30, decode_s=2.0),
            run((), None),
            run((), Speculation(NgramSimple(size_m=8))),
        ),
    )
    trials = (trial(0), trial(1, arm(3), 1.2), failed(2, "no"))
    state = whatif_state(chat, applied=None, trials=trials)
    first, second = state.measured
    assert (first.source, first.setting) == (Source.CHAT, drafting(4))
    assert first.tokens_per_s == pytest.approx(20.0)
    assert (second.source, second.setting) == (Source.TRIAL, drafting(3))
    assert second.tokens_per_s == pytest.approx(12.0)


def test_an_n_gram_setting_is_none_that_a_draft_could_run() -> None:
    chat = ChatRecording(draft="draft", depth=DEPTH)
    ngram = Speculation(NgramSimple(size_m=8))
    assert whatif_state(chat, applied=ngram).applied is None
    plain = whatif_state(chat, applied=speculation(2))
    assert plain.applied == drafting(2)


@pytest.mark.parametrize(
    ("n_tokens", "kept"), [(0, [5]), (5, [5]), (8, [3, 5]), (9, [3, 5]), (10, [2, 3, 5])]
)
def test_the_newest_are_kept(n_tokens: int, kept: list[int]) -> None:
    assert list(newest([2, 3, 5], n_tokens, lambda n: n)) == kept
    assert newest([], n_tokens, len) == ()


class Chat:
    """A chat and its recorder on one engine."""

    def __init__(self, tiny: TinyPath) -> None:
        self.engine = EngineThread()
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
    assert state.texts[0].sampling == ENDLESS
    (heard,) = state.runs
    assert heard.speculation == first.speculation
    assert sum(len(one.tokens) for one in heard.rounds) == heard.n_decoded == 23
    one = WhatIf((recording,), "close", longest=8, costs=None)
    for setting in (drafting(3), drafting(8, 2, 0.3), drafting(1)):
        other = chat.ask(replace(first, speculation=Speculation(setting)))
        total = one.at(setting)
        counters = other.counters
        assert (total.n_rounds, total.n_drafted, total.n_accepted) == (
            counters.n_rounds,
            counters.n_drafted,
            counters.n_accepted,
        )


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
    assert [text.recording.id for text in state.texts] == ["answer-2", "answer-3"]
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
            if n_asked == 5 and len(began) == 1:
                assert chat.recorder is not None
                chat.recorder.begin(second)
                chat.client.submit(second)
            return cancelled()

        return record_chains(*arguments, cancelled=ask, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "record_chains", interrupted)
    chat.ask(turn())
    # The chat is answered while the first recording is still to be made.
    assert len(chat.answer().tokens) == 12
    state = chat.state(recorded(2))
    assert began == [0, 1, 2]
    for recording in state.recordings:
        assert_replayable(recording)


def assert_replayable(recording: Recording) -> None:
    total = WhatIf((recording,), "close", longest=8, costs=None).at(drafting(4))
    assert total.n_rounds + total.n_accepted == recording.n_decoded


def test_what_cannot_be_recorded_is_told_and_dropped(chat: Chat) -> None:
    chat.record(depth=300)
    chat.ask(turn())
    state = chat.state(lambda state: state.failure is not None)
    assert state.failure is not None
    assert "takes 1 to 254" in state.failure
    assert state.texts == ()


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
    chat.record()

    def stop(event: Event) -> None:
        listen(event)
        if isinstance(event, RoundFinished):
            chat.client.stop()

    listen = chat.client.sink
    chat.client.sink = stop
    result = chat.ask(turn(200))
    assert result.stop is Stop.CANCELLED
    (recording,) = chat.state(recorded(1)).recordings
    assert recording.output == result.tokens
    assert_replayable(recording)


def chat_of(*samplings: SamplingConfig) -> ChatRecording:
    """Answers, all of them recorded."""
    texts = tuple(
        ChatText(recording=replace(RECORDINGS[0], id=f"answer-{number}"), sampling=sampling)
        for number, sampling in enumerate(samplings, start=1)
    )
    return ChatRecording(draft="draft", depth=DEPTH, texts=texts)


def trace_of_chat(chat: ChatRecording) -> Trace:
    return chat_trace(
        chat,
        target=loaded(Role.TARGET),
        drafter=loaded(Role.DRAFT),
        costs=COSTS,
    )


@pytest.mark.parametrize("keep_text", [False, True])
def test_a_saved_trace_can_be_read_and_replays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keep_text: bool
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    path = save_trace(trace_of_chat(chat_of(ENDLESS)), keep_text=keep_text)
    assert path.parent == tmp_path / "data" / "traces"
    read = read_trace(path)
    assert read.has_text is keep_text
    assert (read.recordings[0].output == RECORDINGS[0].output) is keep_text
    assert read.sampling == ENDLESS
    one = WhatIf(read.recordings, "draft", longest=DEPTH, costs=read.costs["draft"])
    other = WhatIf(RECORDINGS[:1], "draft", longest=DEPTH, costs=COSTS)
    assert one.line(drafting(3, 1, 0.4)) == other.line(drafting(3, 1, 0.4))


def test_a_trace_has_the_answers_that_were_sampled_as_the_last_one() -> None:
    warm = SamplingConfig(temp=0.7, seed=3)
    trace = trace_of_chat(chat_of(warm, ENDLESS, warm))
    assert [recording.id for recording in trace.recordings] == ["answer-1", "answer-3"]
    assert trace.sampling == warm


def test_nothing_recorded_is_nothing_to_save() -> None:
    with pytest.raises(UsageError, match="no answer is recorded yet"):
        trace_of_chat(chat_of())


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
    trace = watched.session.chat_trace(recording, None)
    assert trace.target.file == setup.target.path.name
    assert trace.costs == {}


def test_another_pair_begins_without_recordings(watched: Watched, setup: LiveSetup) -> None:
    watched.load(setup)
    watched.ask(setup)
    recording = watched.recording()
    # Without a draft there is nothing to record, and who shall not record does not.
    for records, other in ((True, replace(setup, draft=None)), (False, setup)):
        n_before = len(watched.told)
        watched.session.records_chats = records
        watched.load(other)
        if other.draft is None:
            with pytest.raises(UsageError, match="no longer loaded"):
                watched.session.chat_trace(recording, None)
        watched.ask(other)
        # Comes after whatever else was done in the background.
        watched.session.measure_baseline()
        watched.wait(BaselineMeasured)
        assert set(watched.told[n_before:]) == {ChatRecorded(recording=None)}
