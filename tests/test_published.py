"""What the repository publishes tells nothing of the machine on which it was made."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import common
from benchmarks.common import without_folders, write_results
from tests.support.tables import table

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
OF_A_MACHINE = re.compile(r"/(?:work|tmp/w|root/\.cache|root(?!/\.cache))/")
"""Folders of checkouts and caches; a Compose file may mount ``/root/.cache`` itself."""


@table(
    ("told", "published"),
    [
        ("--rows /tmp/x/rows.jsonl", "--rows rows.jsonl"),
        ('"--rows=/tmp/x/rows.jsonl"', '"--rows=rows.jsonl"'),
        ("was: /a/.venv/lib/n.so: failed to map", "was: n.so: failed to map"),
        ("the storage sqlite:////tmp/0/s.sqlite3 cannot", "the storage sqlite:///s.sqlite3 cannot"),
        (json.dumps("error:\n/tmp/x/y"), json.dumps("error:\ny")),
        ("see https://host/a/b/page", "see https://host/a/b/page"),
        ("benchmarks/results/a.json and ./a/b", "benchmarks/results/a.json and ./a/b"),
        ("12 tokens/s, 4096/512", "12 tokens/s, 4096/512"),
    ],
)
def test_absolute_paths_lose_their_folders(told: str, published: str) -> None:
    assert without_folders(told) == published


def test_results_have_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    rows = tmp_path / "rows.jsonl"
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks/requests.py"), "--rows", str(rows)])
    write_results("made", {"faults": [{"said": f"error: {rows}: it cannot be read"}]})
    written = (tmp_path / "made.json").read_text(encoding="utf-8")
    document = json.loads(written)
    assert document["command"] == "python -m benchmarks.requests --rows rows.jsonl"
    assert document["faults"] == [{"said": "error: rows.jsonl: it cannot be read"}]
    assert str(tmp_path.parent) not in written


@table("path", RESULTS)
def test_a_committed_result_has_no_folders(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert without_folders(text) == text


def test_no_tracked_file_names_a_folder_of_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True)
    if listed.returncode != 0:
        pytest.skip("this is no checkout")
    tracked = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = {path: path.read_text(errors="replace") for path in tracked if path.is_file()}
    named = [str(path) for path, text in texts.items() if OF_A_MACHINE.search(text)]
    assert named == []
