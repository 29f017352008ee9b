"""A session without a screen: loaded, lost, loaded again, asked and tuned."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import TypeVar, cast

import pytest

from spectui.engine import events
from spectui.errors import (
    BadInputError,
    CancelledError,
    EngineDiedError,
    ReadsFromDiskError,
    SpectuiError,
    UsageError,
)
from spectui.live.controller import SessionController
from spectui.live.pair import SearchRequest
from spectui.live.session import LiveSession
from spectui.live.sessions import Entry, recent_sessions
from spectui.live.setup import Activity, LiveSetup, ModelsLost
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, builtin_suite
from spectui.tui.launch import Pair
from spectui.tune.progress import Phase, TuningState
from tests.live.conftest import Watched
from tests.support import cockpit
from tests.support.cockpit import ScriptedSession, answer_events, loaded

pytest_plugins = ["tests.support.fixtures"]
Kind = TypeVar("Kind")
DIED = EngineDiedError("llama.cpp ended its process with SIGABRT while generating")
WORDS = ("The", " sea", " is", " wide", ".")


class Notes:
    """In place of a screen: notes what a session has to show."""

    def __init__(self) -> None:
        self.said: list[tuple[str, object]] = []
        self.errors: list[SpectuiError] = []
        self.n_changes = 0

    def changed(self) -> None:
        self.n_changes += 1

    def begun(self, entries: Sequence[Entry]) -> None:
        self.said.append(("begun", tuple(entries)))

    def asked(self, text: str) -> None:
        self.said.append(("asked", text))

    def answered(self, event: events.TokenEmitted | events.RoundFinished) -> None:
        if isinstance(event, events.TokenEmitted):
            self.said.append(("token", event.piece))

    def ended(self, note: str, notice: str = "") -> None:
        self.said.append(("ended", notice or note))

    def warn(self, sentence: str) -> None:
        self.said.append(("warned", sentence))

    def unloaded(self, error: SpectuiError) -> None:
        self.errors.append(error)

    def take(self, kind: str) -> list[object]:
        """What was said of a kind since the last look."""
        found = [value for each, value in self.said if each == kind]
        self.said = [one for one in self.said if one[0] != kind]
        return found


class Scripted:
    """A session over an engine that answers with what a test lays out."""

    def __init__(self) -> None:
        self.mail: SimpleQueue[object] = SimpleQueue()
        self.script = ScriptedSession(self.mail.put)
        self.notes = Notes()
        self.session = SessionController(self.notes, keeps_sessions=True)
        self.session.engine = cast("LiveSession", self.script)
        self.setup = cockpit.setup(Pair(target=cockpit.TARGET, draft=cockpit.DRAFT))

    def handle(self) -> None:
        """Hand over what the engine has told."""
        while not self.mail.empty():
            self.session.take(self.mail.get())

    def load(self, setup: LiveSetup | None = None, *, from_disk: bool = False) -> None:
        self.session.load(setup or self.setup, from_disk=from_disk)
        self.handle()

    def is_at(self, activity: Activity, *parts: str) -> bool:
        """Whether that is the activity, with these parts being loaded."""
        return (self.session.activity, (*self.session.parts,)) == (activity, parts)

    def waits(self, text: str | None) -> bool:
        """Whether that is the prompt that waits."""
        return self.session.waiting == text

    def ask(self, text: str = "hello") -> bool:
        is_taken = self.session.ask(text)
        self.handle()
        return is_taken


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.session.close()


def test_a_pair_is_loaded_answers_is_lost_and_answers_again(scripted: Scripted) -> None:
    session, notes = scripted.session, scripted.notes
    assert scripted.is_at(Activity.STARTING)
    session.load(scripted.setup)
    assert scripted.is_at(Activity.LOADING, cockpit.TARGET.name)
    scripted.handle()
    assert scripted.is_at(Activity.READY)
    assert scripted.script.names() == ["load", "load_draft", "measure_baseline"]
    assert session.target == loaded(events.Role.TARGET)
    assert session.tally.baseline_tokens_per_s is not None
    died = events.EngineFailed(error=DIED, trace=None)
    answer = answer_events(WORDS)
    scripted.script.answers += [answer, [*answer[:3], died], answer]
    assert scripted.ask()
    assert notes.take("token") == [word.encode() for word in WORDS]
    [note] = notes.take("ended")
    assert str(note).startswith("5 tokens, ")
    assert session.chat.messages()[-1] == ("assistant", "".join(WORDS))
    # The child with the models is gone in the middle of an answer: what came of it stays.
    assert scripted.ask("and then?")
    [notice] = notes.take("ended")
    again = "Your next prompt loads the models again; the log has llama.cpp's last lines."
    assert notice == f"{DIED}. {again}"
    assert scripted.is_at(Activity.READY)
    assert scripted.ask("again")
    assert session.chat.messages()[-1] == ("assistant", "".join(WORDS))
    # And while nobody waits.
    session.take(ModelsLost(error=DIED))
    assert str(DIED) in str(notes.take("warned"))
    session.close()
    [stored] = recent_sessions(2)
    assert stored.prompts == ("hello", "and then?", "again")


def test_an_old_baseline_is_measured_again_after_an_answer(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.script.answers += [answer_events(WORDS)] * 3
    scripted.load()
    session, script = scripted.session, scripted.script

    def asked_again() -> bool:
        before = script.names().count("measure_baseline")
        scripted.ask()
        return script.names().count("measure_baseline") > before

    assert not asked_again()
    monkeypatch.setattr(session.tally, "_clock", lambda: time.monotonic() + 1000.0)
    # A search measures the target itself, and ends with a baseline.
    session.take(TuningState(phase=Phase.SEARCHING))
    assert not asked_again()
    session.take(TuningState(phase=Phase.FINISHED))
    assert asked_again()


def test_prompts_wait_for_the_pair_and_come_back(scripted: Scripted) -> None:
    session = scripted.session
    scripted.script.answers += [answer_events(WORDS)[:3]]
    session.load(scripted.setup)
    assert session.ask("early")
    assert scripted.waits("early")
    assert not session.ask("too many")
    scripted.handle()
    assert scripted.is_at(Activity.ANSWERING)
    assert scripted.waits(None)
    assert session.ask("next")
    assert session.take_back() == "next"
    session.new_chat()
    assert "stop it first" in str(scripted.notes.take("warned"))
    session.stop()
    scripted.handle()
    assert scripted.notes.take("ended") == ["stopped before the first token"]


def test_what_cannot_be_loaded_leaves_no_pair_and_a_draft_leaves_the_target(
    scripted: Scripted,
) -> None:
    session, script, notes = scripted.session, scripted.script, scripted.notes
    errors = (
        BadInputError("this is no model"),
        ReadsFromDiskError("RAM has room for half of the weights"),
        CancelledError("stopped"),
    )
    good = script.load_events[0]
    for error in errors:
        script.load_events[0] = [events.EngineFailed(error=error, trace=None)]
        scripted.load()
        assert (session.activity, session.setup) == (Activity.NO_MODEL, None)
        assert not session.ask("nobody is there")
        with pytest.raises(UsageError, match="choose a target"):
            session.tune(SearchRequest(prompts=builtin_suite()))
    assert notes.errors[:2] == list(errors[:2])
    assert str(notes.errors[2]) == "The load was cancelled."
    script.load_events[0] = good
    scripted.load(from_disk=True)
    assert script.names()[-3:] == ["load from disk", "load_draft", "measure_baseline"]
    assert session.activity is Activity.READY
    script.load_events[1] = [
        events.EngineFailed(error=BadInputError("token 9 differs"), trace=None)
    ]
    scripted.load()
    assert (session.activity, session.setup and session.setup.draft) == (Activity.READY, None)
    assert notes.take("ended") == ["token 9 differs. The target runs without a draft."]
    # Without a draft there are n-grams to try.
    session.tune(SearchRequest(prompts=builtin_suite()))
    assert script.names()[-1] == "start_tuning"


def test_a_stored_conversation_is_taken_up_with_its_drafting(scripted: Scripted) -> None:
    scripted.script.answers += [answer_events(WORDS)]
    scripted.load()
    off = replace(scripted.setup, speculation=None)
    scripted.session.adopt(replace(off, system="Be brief.", resting=Speculation()))
    scripted.ask()
    scripted.session.close()
    [stored] = recent_sessions(1)
    other = Scripted()
    other.session.load(other.setup, resumed=stored)
    other.handle()
    assert other.notes.take("begun")[-1] == stored.entries
    assert other.session.setup is not None
    assert other.session.setup.speculation is None
    assert other.session.chat.messages()[0] == ("user", "hello")


class Headless(Watched):
    """A session of real models, whose owner waits for its events."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes()
        self.controller = SessionController(self.notes)
        self.controller.engine = self.session

    def until(self, condition: Callable[[], bool]) -> None:
        """Hand over events until a condition holds."""
        while not condition():
            self.controller.take(self._queue.get(timeout=60))

    def reach(self, activity: Activity) -> None:
        self.until(lambda: self.controller.activity is activity)

    def ask(self, text: str) -> str:  # type: ignore[override] # through the controller
        """The answer to a question."""
        assert self.controller.ask(text)
        self.reach(Activity.READY)
        return self.controller.chat.messages()[-1][1]


@pytest.mark.slow
def test_real_models_are_loaded_lost_loaded_again_asked_and_tuned(
    setup: LiveSetup,
) -> None:
    headless = Headless()
    session = headless.controller
    try:
        session.load(setup)
        headless.reach(Activity.READY)
        headless.until(lambda: session.tally.baseline_tokens_per_s is not None)
        first = headless.ask("in the on")
        assert first
        pid = headless.session.process
        assert pid is not None
        # Its end comes in the middle of an answer.
        session.adopt(replace(setup, n_predict=-1))
        assert session.ask("the in on")
        headless.until(lambda: session.chat.is_answering and not session.chat.awaits_first_word)
        os.kill(pid, signal.SIGKILL)
        headless.reach(Activity.READY)
        assert "Your next prompt loads the models again" in str(headless.notes.take("ended")[-1])
        session.adopt(setup)
        session.new_chat()
        assert headless.ask("in the on") == first
        assert headless.session.process not in {None, pid}
        request = SearchRequest(
            prompts=tuple(
                Prompt(id=f"p{n}", category="chat", text="the in on " * (n + 1)) for n in range(6)
            )
        )
        session.tune(request)
        with pytest.raises(UsageError, match="still running"):
            session.tune(request)
        headless.until(
            lambda: session.search is not None and session.search.phase is not Phase.IDLE
        )
        headless.until(lambda: session.search is not None and not session.search.is_running)
        assert session.search is not None
        assert session.search.phase is Phase.FINISHED, session.search.error
        assert session.search.result is not None
        assert session.search.result.speedup is not None
        session.load(replace(setup, draft=None))
        headless.reach(Activity.READY)
        headless.until(lambda: session.search is not None and session.search.phase is Phase.IDLE)
        session.tune(request)
        headless.until(lambda: session.search is not None and session.search.is_running)
        headless.until(lambda: session.search is not None and not session.search.is_running)
        assert session.search.phase is Phase.FINISHED, session.search.error
        tried = [one.arm.speculation for one in session.search.forecasts]
        assert tried
        assert all(one is None or not one.needs_draft for one in tried)
    finally:
        session.close()
        headless.session.close()
