"""Sessions on disk, the conversation behind them, and the user's settings."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from spectui.errors import BadInputError
from spectui.live.chat import AnswerText, Chat
from spectui.live.sessions import (
    AnswerEnd,
    AnswerPart,
    Entry,
    Header,
    Session,
    SessionLog,
    SettingsChange,
    UserTurn,
    earlier_prompts,
    now,
    read_session,
    recent_sessions,
)
from spectui.settings import Settings, read_settings, settings_path
from tests.support.disk import no_file_above

HEADER = Header(started=now(), target="/models/target.gguf", draft=None)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


ENTRIES: tuple[Entry, ...] = (
    UserTurn(text="What is [bold] \x1b[31m π?"),
    AnswerPart(text="It is 3", drafted=((3, 7),)),
    SettingsChange(speculation=None),
    AnswerPart(text=".14", drafted=()),
    AnswerEnd(note="5 tokens"),
)


def test_every_entry_is_on_disk_before_the_next_as_it_was(home: Path) -> None:
    logs = [SessionLog(HEADER) for _ in range(2)]
    assert list(home.rglob("*.jsonl")) == []
    # Two that write one session have a file each.
    for n, entry in enumerate(ENTRIES, start=1):
        for log in logs:
            log.append(entry)
            assert log.path is not None
            session = read_session(log.path)
            assert (session.header, session.entries) == (HEADER, ENTRIES[:n])
    assert len(session.prompts) == 1
    for log in logs:
        log.close()


def test_what_has_no_room_is_told_once_and_costs_nothing_else(tmp_path: Path) -> None:
    log = SessionLog(HEADER)
    log.append(ENTRIES[0])
    assert log.path is not None
    kept = log.path.read_bytes()
    with no_file_above(len(kept) + 5):
        with pytest.raises(BadInputError, match="File too large"):
            log.append(UserTurn(text="x" * 100))
        assert log.path.read_bytes() == kept
        log.close()
    other = SessionLog(HEADER, tmp_path / "other")
    with no_file_above(5), pytest.raises(BadInputError, match="File too large"):
        other.append(ENTRIES[0])
    other.append(ENTRIES[0])
    other.close()
    assert other.path is not None
    assert read_session(other.path).entries == ENTRIES[:1]


@given(cut=st.integers(min_value=1, max_value=400))
def test_a_cut_file_keeps_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    log = SessionLog(HEADER, tmp_path_factory.mktemp("cut"))
    for entry in ENTRIES:
        log.append(entry)
    log.close()
    assert log.path is not None
    content = log.path.read_bytes()
    kept = content[: max(len(content.splitlines()[0]) + 1, len(content) - cut)]
    log.path.write_bytes(kept)
    n_whole = kept.count(b"\n") - 1
    # The last line may be whole but for its line feed.
    assert read_session(log.path).entries in {ENTRIES[:n_whole], ENTRIES[: n_whole + 1]}


def test_earlier_prompts_come_oldest_first_each_where_it_was_said_last() -> None:
    def session(*prompts: str) -> Session:
        entries = tuple(UserTurn(text=text) for text in prompts)
        return Session(path=Path("x.jsonl"), header=HEADER, entries=entries)

    # The newer session has taken the older one up.
    newer, older = session("one", "two", "three"), session("one", "two", "other")
    assert earlier_prompts((newer, older)) == ("other", "one", "two", "three")
    assert earlier_prompts(()) == ()


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    for text in (json.dumps({"kind": "session", "schema": "other/1"}) + "\n", ""):
        path.write_text(text)
        with pytest.raises(BadInputError, match=r"other\.jsonl is no session"):
            read_session(path)
    with pytest.raises(BadInputError, match="no such file"):
        read_session(tmp_path / "missing.jsonl")
    with pytest.raises(BadInputError, match="cannot create the folder"):
        SessionLog(HEADER, path / "sessions").append(UserTurn(text="hi"))


# The conversation


def test_the_model_reads_what_was_said() -> None:
    told: list[Entry] = []
    chat = Chat(told.append)
    chat.system = "Be brief."
    chat.ask("2+2?")
    chat.add(b"4", from_draft=True)
    chat.add(b"!", from_draft=False)
    chat.finish("2 tokens")
    chat.ask("And 3+3?")
    assert chat.messages() == (
        ("system", "Be brief."),
        ("user", "2+2?"),
        ("assistant", "4!"),
        ("user", "And 3+3?"),
    )
    assert told == [
        UserTurn(text="2+2?"),
        AnswerPart(text="4!", drafted=((0, 1),)),
        AnswerEnd(note="2 tokens"),
        UserTurn(text="And 3+3?"),
    ]


@given(
    text=st.text(),
    cuts=st.lists(st.integers(min_value=0, max_value=60)),
    drafted=st.lists(st.booleans(), min_size=62, max_size=62),
)
def test_any_cut_of_the_bytes_gives_the_same_text(
    text: str, cuts: list[int], drafted: list[bool]
) -> None:
    text = text.encode(errors="replace").decode()
    data = text.encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    answer = AnswerText()
    parts: list[AnswerPart] = []
    for index, (start, end) in enumerate(pairwise(edges)):
        answer.add(data[start:end], from_draft=drafted[index % len(drafted)])
        if index % 2 and (part := answer.take_part()) is not None:
            parts.append(part)
    answer.end()
    if (part := answer.take_part()) is not None:
        parts.append(part)
    assert answer.text == text
    assert "".join(part.text for part in parts) == text
    for part in parts:
        edges = [edge for span in part.drafted for edge in span]
        assert edges == sorted(edges)
        assert not edges or edges[-1] <= len(part.text)


# Settings


def write_settings(text: str) -> None:
    settings_path().parent.mkdir(parents=True)
    settings_path().write_text(text)


def test_settings_are_read() -> None:
    assert read_settings() == Settings()
    write_settings('theme = "nord"\nascii = true\n[keys]\n"live.stop" = "ctrl+x"\n')
    settings = read_settings()
    assert (settings.theme, settings.ascii) == ("nord", True)
    assert settings.keys == {"live.stop": "ctrl+x"}


def test_a_setting_of_before_is_refused_in_a_sentence() -> None:
    write_settings("isolate = true\n")
    with pytest.raises(BadInputError, match="always have a process of their own; delete the line"):
        read_settings()


def test_settings_that_cannot_be_read_stay_and_are_named() -> None:
    write_settings("theme = \n")
    with pytest.raises(BadInputError, match=r"config\.toml"):
        read_settings()
    assert settings_path().read_text() == "theme = \n"


def test_sessions_of_one_second_and_of_any_clock_stay_apart(home: Path) -> None:
    """Containers have the same process id, and clocks are set back."""
    years = (1970, 2026, 2026, 2100)
    for n, year in enumerate(years):
        started = datetime(year, 1, 1, tzinfo=UTC)
        log = SessionLog(structs.replace(HEADER, started=started))
        log.append(UserTurn(text=str(n)))
        log.close()
    assert len(list((home / "data" / "sessions").iterdir())) == len(years)
    found = recent_sessions(10)
    assert sorted(session.prompts for session in found) == [(str(n),) for n in range(len(years))]
    # The one of the future is not the newest for ever.
    assert [session.header.started.year for session in found] == [2026, 2026, 1970, 2100]


def test_a_conversation_becomes_prompts_and_can_be_restored() -> None:
    told: list[Entry] = []
    first = Chat(told.append)
    # An empty answer is taken back with its question.
    first.ask("too long")
    first.finish("does not fit")
    assert first.messages() == ()
    for question, answer in (("a", b"b"), ("c", b"d")):
        first.ask(question)
        first.add(answer, from_draft=False)
        first.finish("")
    first.ask("never answered")
    prompts = first.prompts()
    assert [prompt.id for prompt in prompts] == ["turn-1", "turn-2", "turn-3"]
    assert [message.content for message in prompts[1].messages] == ["a", "b", "c"]
    n_told = len(told)
    second = Chat(told.append, tuple(told))
    assert second.messages() == first.messages()[:-1]
    assert len(told) == n_told
