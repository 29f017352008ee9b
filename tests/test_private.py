"""What spectui stores is for its user alone."""

import os
import stat
from pathlib import Path

import pytest

from spectui.cli import report_failure
from spectui.live.sessions import Header, SessionLog, UserTurn, now
from spectui.paths import data_dir, ensure_dir
from spectui.sweep.store import SweepStore
from spectui.tune.studies.storage import address_of, close_storage, open_storage


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_sessions_studies_sweeps_and_logs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0o022)
    try:
        log = SessionLog(Header(started=now(), target="/t", draft=None))
        log.append(UserTurn(text="secret"))
        log.close()
        close_storage(open_storage(address_of(None)))
        SweepStore("a", {}).close()
        report_failure(ZeroDivisionError("\x1b]0;title\x07"))
    finally:
        os.umask(before)
    assert "\x1b" not in capsys.readouterr().err
    found = list(home.rglob("*"))
    assert {path.name for path in found if path.is_dir()} >= {"sessions", "sweeps", "logs"}
    for path in (home, *found):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert "\x1b" not in (data_dir() / "logs" / "spectui.log").read_text()


def test_folders_of_earlier_versions_are_closed(home: Path) -> None:
    (home / "data" / "sessions").mkdir(parents=True)
    (home / "data").chmod(0o755)
    ensure_dir(data_dir() / "sessions")
    assert stat.S_IMODE((home / "data").stat().st_mode) == 0o700
    # Somebody else's folder stays as it is.
    home.chmod(0o755)
    ensure_dir(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
