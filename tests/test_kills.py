"""Processes that are killed at random moments while they store something: what it costs."""

from pathlib import Path

import pytest

from spectui.files import write_file
from spectui.live.sessions import UserTurn, recent_sessions
from spectui.tune.studies.listing import StudyState, delete_studies, list_studies, stored_study
from spectui.tune.studies.transfer import export_study, import_study, read_exported
from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.support.disk import killed_while_writing

pytestmark = pytest.mark.ci

N_KILLS = 16
STUDY = "every-kind"
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


STUDIES = f"""{LOOP}
from spectui.tune.studies.listing import keep_report
from spectui.tune.studies.transfer import import_study, read_exported
found = read_exported(Path(sys.argv[1]))
for n in count():
    import_study(None, found, f"{{sys.argv[2]}}-{{n}}")
    keep_report(None, f"{{sys.argv[2]}}-{{n}}", "text" * 5000, {{}})
    print(f"{{sys.argv[2]}}-{{n}}", flush=True)
"""


def test_an_import_is_whole_or_no_study_and_can_be_done_again(home: Path) -> None:
    file, exported = home / "data" / "studies.sqlite3", home / "s.json"
    file.parent.mkdir()
    inside.restored((STORED / "studies.sql").read_text("utf-8"), file)
    export_study(stored_study(None, STUDY), exported)
    file.unlink()
    n_trials = len(read_exported(exported).trials)
    said: set[str] = set()
    n_half = 0
    for seed in range(N_KILLS):
        said |= set(killed_while_writing(STUDIES, exported, seed, seed=seed, lines=3, turns=10**7))
        found = {one.name: one for one in list_studies(None)}
        assert said <= found.keys()
        for name in found.keys() - said:
            if found[name].state(None) is StudyState.UNREADABLE:
                n_half += 1
                delete_studies(None, [name])
                import_study(None, read_exported(exported), name)
            said.add(name)
    for name in said:
        assert len(stored_study(None, name).trials) in {n_trials, 0}
    assert n_half
