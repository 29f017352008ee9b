"""``spectui lint`` of a paste, of files with several commands, and beside studies."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import optuna
import pytest

from spectui.measure.verdict import Verdict
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.tune.outcome import Gain, Outcome
from spectui.tune.studies.records import OUTCOME, to_plain
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


def test_a_paste_is_read_from_stdin(spectui: Spectui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("$ llama-server -m a.gguf \\\n  -fa -c 5\n"))
    assert spectui("lint", "--no-models") == 3
    assert "error: -fa has no value\n    -m a.gguf -fa -c 5\n              ^^^\n" in spectui.out
    monkeypatch.setattr("sys.stdin", StringIO("\n"))
    assert spectui("lint") == 3
    assert "nothing was pasted" in spectui.err


def test_all_commands_of_a_file_are_checked(spectui: Spectui, tmp_path: Path) -> None:
    path = tmp_path / "m.ini"
    path.write_text("[good]\nmodel = a\n[bad]\nmodel = b\nmlock = 1\n", "utf-8")
    assert spectui("lint", "--no-models", path) == 3
    assert spectui.out.startswith("good:\nNo problems found. Checked against")
    assert "\nbad:\nerror: llama-server does not take --mlock\n" in spectui.out
    assert spectui("lint", "--no-models", "--json", "-", path) == 3
    document = json.loads(spectui.out)
    assert [(one["name"], len(one["findings"])) for one in document["commands"]] == [
        ("good", 0),
        ("bad", 1),
    ]
    assert spectui("lint", "--no-models", f"{path}:good") == 0
    assert spectui("lint", "--fix", path) == 3
    assert "give one of them as FILE:NAME, with good, bad" in spectui.err


def linted(spectui: Spectui, *words: object) -> list[dict[str, Any]]:
    """The findings on a command."""
    command = " ".join(map(str, ("llama-server", *words)))
    spectui("lint", "--quiet", "--json", "-", command)
    return list(json.loads(spectui.out)["findings"])


def measured(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in findings if one["what"].startswith("the best setting of a search on ")]


def store(home: Path, name: str, target: object, draft: object | None, length: int | None) -> None:
    """Keep a study with a confirmed verdict: to draft so long, or not at all."""
    outcome = Outcome(
        ended=datetime(2026, 5, 1, 12, tzinfo=UTC),
        verdict=Verdict(use_speculation=length is not None, reason=f"The verdict of {name}."),
        target=ModelOptions(path=Path(str(target))),
        draft=None if draft is None else ModelOptions(path=Path(str(draft))),
        context=ContextOptions(),
        speculation=None if length is None else Speculation(DraftSimple(draft_max=length)),
        gain=Gain(speedup=1.25, low=1.1, high=1.4, n_prompts=6),
    )
    (home / "data").mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(study_name=name, storage=f"sqlite:///{home}/data/studies.sqlite3")
    study.set_user_attr(OUTCOME, to_plain(outcome))


@pytest.mark.slow
def test_the_gain_of_the_pair_is_told(spectui: Spectui, pair: list[object], home: Path) -> None:
    _m, target, _md, draft = pair[:4]
    store(home, "first", target, draft, 8)
    [found] = measured(linted(spectui, "-m", target, "-md", draft))
    assert found["what"].endswith(": +25 %")
    assert found["why"].startswith("The verdict of first; its flags: spectui export first")
    assert measured(linted(spectui, "-m", target)) == []


@pytest.mark.slow
def test_the_length_beside_experts_in_ram_is_the_one_that_pays_here(
    spectui: Spectui, pair: list[object], home: Path
) -> None:
    _m, target, _md, draft = pair[:4]
    cases: tuple[tuple[int | None, int, str | None], ...] = (
        *((None, 8, "4"), (None, 7, None)),
        *((3, 4, "3"), (3, 3, None)),
    )
    for length, given, expected in cases:
        if length is not None and not (home / "data").exists():
            store(home, "own", target, draft, length)
            # Of another draft beside the same target it counts less.
            store(home, "other", target, target, 1)
        words = f"-md {draft} --spec-type draft-simple --spec-draft-n-max {given} -ot ffn_up=CPU"
        found = linted(spectui, "-m", target, words)
        long = [one for one in found if "beside weights in RAM" in one["what"]]
        assert [one["replacement"] for one in long] == (
            [] if expected is None else [f"--spec-draft-n-max {expected}"]
        )
        assert all(("on this machine" in one["why"]) == (length is not None) for one in long)
