"""``--chats`` as a user meets it, on tiny models."""

import json
from pathlib import Path

import pytest

from spectui.engine.events import AnswerRead
from spectui.measure import chats
from spectui.speculative.decoder import Stop
from spectui.trace.file import read_trace
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

N_CHATS = 8


def is_foreign(read: AnswerRead) -> float | None:
    """In place of the test: what random weights write is no text that an export could have."""
    return 1.9 if len(read.log_p) % 2 else None


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight chats of two answers."""
    monkeypatch.setattr(chats, "excess", is_foreign)
    path = tmp_path / "export.json"
    talks = [
        {
            "id": f"talk {n}",
            "conversations": [
                {"from": "human", "value": f"the ring {n}?"},
                {"from": "gpt", "value": "on the tin ring, and on and on and on"[: 30 + n]},
            ],
        }
        for n in range(N_CHATS)
    ]
    path.write_text(json.dumps(talks))
    return path


def test_a_trace_has_the_answers_as_they_are(
    pair: list[object], spectui: Spectui, export: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.trace.json.gz"
    arguments = [*pair, "--chats", export, "--out", out, "--keep-text", "--no-costs"]
    assert spectui("trace", *arguments) == 0, spectui.err
    recordings = read_trace(out).recordings
    assert f"chats: {len(recordings)} answers, " in spectui.out
    assert "of another model left out." in spectui.out
    assert "chat 'talk 3', answer 1: not this model's text: 1.9 nats per token" in spectui.err
    assert {one.stop for one in recordings} == {Stop.LENGTH}
    assert {len(one.output) for one in recordings} == {12}
    # They begin alike, behind prompts of their own.
    assert len({one.output[:6] for one in recordings}) == 1
    assert len({one.prompt for one in recordings}) == len(recordings)


def test_a_search_takes_chats_beside_prompts(
    pair: list[object], spectui: Spectui, export: Path, prompts: Path
) -> None:
    arguments = [*pair, "--chats", export, "--prompts", prompts, "--json", "-"]
    assert spectui("tune", *arguments) == 0, spectui.err
    found = json.loads(spectui.out)
    (note,) = [one for one in found["notes"] if one.startswith("chats: ")]
    n_taken = int(note.split()[1])
    assert found["finalists"][0]["n_prompts"] == 6 + n_taken
    assert f"tuning on {6 + n_taken} prompts" in spectui.err
    assert spectui("tune", *arguments[:-2]) == 0, spectui.err
    assert f"note: {note}" in " ".join(spectui.out.split())
    # Other text is another study.
    assert spectui("tune", *pair, "--prompts", prompts, "--json", "-") == 0
    assert json.loads(spectui.out)["study"] != found["study"]


def test_other_answers_to_the_same_prompts_are_another_study(
    pair: list[object], spectui: Spectui, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "excess", lambda _read: None)
    names = []
    for said in ("on the tin ring", "on the tin ring", "all in one ring"):
        export.write_text(export.read_text().replace("on the tin ring", said))
        assert spectui("tune", *pair, "--chats", export, "--temp", 0.5, "--json", "-") == 0
        names.append(json.loads(spectui.out)["study"])
    assert names[0] == names[1] != names[2]


def test_bench_takes_the_prompts_of_chats(
    pair: list[object], spectui: Spectui, export: Path
) -> None:
    export.write_text(json.dumps([*json.loads(export.read_text()), {"event": "started"}]))
    assert spectui("bench", *pair, "--chats", export) == 0, spectui.err
    assert f"{N_CHATS} prompts" in spectui.out
    assert "note: chats: 1 in no known form left out." in spectui.out


def test_chats_of_others_alone_are_an_error(
    pair: list[object], spectui: Spectui, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "excess", lambda _read: 2.0)
    assert spectui("trace", *pair, "--chats", export) == 3
    assert spectui.err.splitlines()[-1] == (
        "error: chats: 0 answers, 0 tokens of this model; 8 of another model left out; give chats "
        "that this model has written, or --prompts"
    )
    assert spectui("tune", *pair, "--chats", export.with_name("none.json")) == 3
    assert "none.json: no such file" in spectui.err
