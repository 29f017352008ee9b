"""Processes that are killed at random moments while they store something: what it costs."""

from pathlib import Path

import pytest

from spectui.files import write_file
from spectui.live.sessions import UserTurn, recent_sessions
from tests.support.disk import killed_while_writing

pytestmark = pytest.mark.ci

N_KILLS = 16
LOOP = "import sys\nfrom itertools import count\nfrom pathlib import Path\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


SESSION = f"""{LOOP}
from spectui.live.sessions import Header, SessionLog, UserTurn, now
log = SessionLog(Header(started=now(), target="t.gguf", draft=None))
for n in count():
    log.append(UserTurn(text=str(n)))
    print(n, flush=True)
"""


def test_a_session_keeps_what_was_said() -> None:
    for seed in range(N_KILLS):
        said = killed_while_writing(SESSION, seed=seed)
        newest = max(recent_sessions(N_KILLS), key=lambda session: session.path.stat().st_mtime_ns)
        kept = [entry.text for entry in newest.entries if isinstance(entry, UserTurn)]
        assert kept[: len(said)] == said
        assert len(kept) <= len(said) + 1
    assert len(recent_sessions(2 * N_KILLS)) == N_KILLS


FILE = f"""{LOOP}
from spectui.files import write_file, write_new_file
path = Path(sys.argv[1])
for n in count():
    write_file(path, str(n).encode() * 50_000)
    write_new_file(path.with_name(f"{{n}}.new"), str(n).encode() * 50_000)
    print(n, flush=True)
    path.with_name(f"{{n}}.new").unlink()
"""


def test_a_file_of_results_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "files" / "result"
    path.parent.mkdir()
    n_left = 0
    for seed in range(N_KILLS):
        said = int(killed_while_writing(FILE, path, seed=seed)[-1])
        assert path.read_bytes() in {str(n).encode() * 50_000 for n in (said, said + 1)}
        for new in path.parent.glob("*.new"):
            assert new.read_bytes() == new.stem.encode() * 50_000
            new.unlink()
        n_left = max(n_left, len(list(path.parent.glob(".spectui-*"))))
    # The next one removes what the one before has left.
    assert n_left <= 1
    write_file(path, b"")
    assert list(path.parent.iterdir()) == [path]
