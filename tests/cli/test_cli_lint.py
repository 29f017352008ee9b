"""``spectui lint`` of a paste, and of files with several commands."""

import json
from io import StringIO
from pathlib import Path

import pytest

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
