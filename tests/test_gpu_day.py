"""A day on a GPU, tried without one: an RPC server stands in for the card."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page
from tools.gpu import prepare, run, take

NAMES = {check.name for check in run.CHECKS}


def dry(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tools.gpu.run", "--dry"]
    command += ["--work", str(folder / "work"), "--out", str(folder / "out")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def found_in(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "out" / "results.jsonl").read_text("utf-8").splitlines()
    return {found["name"]: found for found in map(json.loads, lines)}


@pytest.mark.ci
@pytest.mark.device
@pytest.mark.timeout(900)
def test_a_dry_run_checks_everything_and_its_results_have_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Interrupted behind its first check, it goes on with the others.
    first = dry(tmp_path)
    assert first.stdout is not None
    while not first.stdout.readline().startswith("== panel"):
        assert first.poll() is None
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert set(found_in(tmp_path)) == {"plans"}
    kept = found_in(tmp_path)["plans"]
    again = dry(tmp_path)
    again.communicate()
    assert again.returncode == 0
    found = found_in(tmp_path)
    assert {name: each.get("error") for name, each in found.items()} == dict.fromkeys(NAMES)
    assert found["plans"] == kept
    assert found["plans"]["equal_to_the_byte"] == found["plans"]["placements"]
    assert found["fits"]["equal"] == found["fits"]["budgets"]
    assert found["counts"]["equal"] == found["counts"]["settings"]
    results, screenshots = tmp_path / "results", tmp_path / "screenshots"
    results.mkdir()
    screenshots.mkdir()
    assert take.take(tmp_path / "out", results, screenshots) == 0
    assert {path.name for path in screenshots.iterdir()} == {"gpu-80x24.svg"}
    for path in page.RESULTS.glob("*.json"):
        (results / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(page, "RESULTS", results)
    assert page.used_results() >= {f"gpu_{name}" for name in NAMES}
    assert "## On a GPU" in page.page()


def test_pieces_become_what_they_were(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    (tmp_path / "whole").mkdir()
    files = [tmp_path / "whole" / name for name in ("other", run.MODEL)]
    files[0].write_bytes(content[:100])
    files[1].write_bytes(content)
    parts = prepare.divide(files, tmp_path, 4096)
    sizes = [sum(piece.stat().st_size for piece in part.glob("*.[0-9]")) for part in parts]
    assert sizes == [4096, 4096, 2148]
    listed = json.loads((parts[0] / "whole.json").read_text("utf-8"))
    joined = {
        name: b"".join(
            next(tmp_path.glob(f"[0-9]/{name}.{number}")).read_bytes() for number in range(n_pieces)
        )
        for name, (n_pieces, _) in listed.items()
    }
    assert joined == {"other": content[:100], run.MODEL: content}
    assert {name: digest for name, (_, digest) in listed.items()} == {
        path.name: prepare.digest_of(path) for path in files
    }
