"""Attempts by what lies where spectui stores: damaged, huge and odd files, and links."""

import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from spectui.errors import SpectuiError
from spectui.files import write_file, write_new_file, write_own_file
from spectui.live.sessions import Header, Session, SessionLog, UserTurn, now, recent_sessions
from spectui.sweep import report
from spectui.sweep.store import SweepStore
from spectui.trace.file import read_trace, write_trace
from tests.golden.make_stored import STORED
from tests.hostile.attempts import Prompt, put
from tests.support.sweep import run_all, sweep

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.ci

GOOD = (STORED / "session.jsonl").read_bytes()
HEADER, *_ENTRIES = GOOD.splitlines(keepends=True)
_DEEP = b'{"kind": "user", "text": ' + b"[" * 200_000 + b"\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "data" / "sessions").mkdir(parents=True)
    return tmp_path / "home"


# -- sessions

DAMAGED = (
    *(b"", GOOD[:40], bytes(range(256)) * 40, _DEEP, b"".join(_ENTRIES)),
    b'{"kind": "session", "started": ' + b"9" * 100_000 + b"}\n",
    # Newer, of another schema, and a lone surrogate.
    HEADER.replace(b"spectui.session/1", b"spectui.session/2"),
    HEADER.replace(b"spectui.session/1", b"spectui.trace/4"),
    HEADER.replace(b"spectui.session/1", b"\\ud800"),
)


def test_what_is_no_session_keeps_no_other_from_being_offered(home: Path) -> None:
    folder = home / "data" / "sessions"
    (folder / "20260101T000000-1.jsonl").write_bytes(GOOD)
    for number, content in enumerate(DAMAGED, 10):
        (folder / f"202601{number:02}T000000-1.jsonl").write_bytes(content)
    for number, kind in enumerate(("fifo", "folder", "/dev/zero", "loop", "sparse"), 2):
        put(folder / f"202601{number:02}T000000-1.jsonl", kind)
    (found,) = recent_sessions(5)
    assert found.path.name == "20260101T000000-1.jsonl"


def test_what_is_deep_or_damaged_ends_a_session_and_costs_nothing_before_it(home: Path) -> None:
    path = home / "data" / "sessions" / "20260101T000000-1.jsonl"
    whole = b'{"kind": "user", "text": "before"}\n'
    for line in (_DEEP, b"\xff\xfe\n", b'{"kind": "user", "text": 1}\n', b'{"kind": "none"}\n'):
        path.write_bytes(HEADER + whole + line + whole)
        (found,) = recent_sessions(5)
        assert found.prompts == ("before",)


@pytest.mark.parametrize("kind", ["file", "fifo", "link"])
def test_a_session_that_has_anothers_name_is_not_written_into(
    home: Path, tmp_path: Path, kind: str
) -> None:
    header = Header(started=now(), target="/t", draft=None)
    own = home / "data" / "sessions" / f"{header.started:%Y%m%dT%H%M%S}-{os.getpid()}.jsonl"
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    if kind == "fifo":
        os.mkfifo(own)
    elif kind == "link":
        own.symlink_to(victim)
    else:
        own.write_bytes(b"another's")
    log = SessionLog(header)
    log.append(UserTurn(text="hello"))
    log.close()
    assert log.path == own.with_name(f"{own.stem}-2.jsonl")
    assert victim.read_bytes() == b"mine"
    assert kind != "file" or own.read_bytes() == b"another's"
    newest: Session = recent_sessions(1)[0]
    assert newest.prompts == ("hello",)


# -- links in place of what spectui stores


def _sweep(path: Path) -> None:
    os.environ["SPECTUI_HOME"] = str(path.parents[3])
    SweepStore("a", {}).close()


_PAIR, _TRACE = STORED / "pair.trace.json.gz", "data/traces/a.trace.json.gz"
STORES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "kept trace": (_TRACE, lambda path: write_trace(read_trace(_PAIR), path, is_own=True)),
    "sweep": ("data/sweeps/a/cells.jsonl", _sweep),
}


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "fifo", "folder", "loop"])
@pytest.mark.parametrize("store", STORES)
def test_what_is_in_place_of_what_is_stored_is_neither_followed_nor_waited_for(
    home: Path, tmp_path: Path, store: str, kind: str
) -> None:
    name, write = STORES[store]
    victim = tmp_path / "victim"
    place = home / name
    place.parent.mkdir(parents=True)
    if kind == "link to a file":
        victim.write_bytes(b"mine")
        victim.chmod(0o640)
    if kind.startswith("link"):
        place.symlink_to(victim)
    else:
        put(place, kind)
    # It is refused, or what is in its place is replaced.
    with suppress(SpectuiError):
        write(place)
    assert victim.exists() == (kind == "link to a file")
    if victim.exists():
        assert victim.read_bytes() == b"mine"
        assert victim.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["fifo", "folder", "/dev/zero", "sparse"])
def test_studies_in_a_place_of_another_kind_are_refused(
    run: Prompt, tmp_path: Path, kind: str
) -> None:
    data = tmp_path / "home" / "data"
    data.mkdir(parents=True)
    for command in ("list", "show"):
        # What is no database has been moved aside.
        if not (data / "studies.sqlite3").exists():
            put(data / "studies.sqlite3", kind)
        found = run("studies", command, folder=tmp_path).check()
        assert found.code == 3


# -- links that are swapped in between a look and the write


@pytest.mark.usefixtures("home")
def test_no_link_is_followed_that_replaces_a_file_of_a_sweeps_folder(tmp_path: Path) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    victim.write_bytes(b"mine")
    (folder / "summary.csv").symlink_to(victim)
    one = sweep(4)
    with one.open():
        run_all(one)
        report.write_folder(folder, one, one.summaries(), {})
    assert victim.read_bytes() == b"mine"
    assert not (folder / "summary.csv").is_symlink()


@pytest.mark.parametrize("write", [write_file, write_own_file, write_new_file])
@pytest.mark.parametrize("call", ["fsync", "open"])
def test_no_link_is_followed_that_replaces_a_file_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], call: str
) -> None:
    place, victim = tmp_path / "a", tmp_path / "victim"
    victim.write_bytes(b"mine")
    if write is not write_new_file:
        place.write_bytes(b"old")
    done: Callable[..., int] = getattr(os, call)

    def swapped(*arguments: object) -> int:
        result = done(*arguments)
        monkeypatch.setattr(os, call, done)
        place.unlink(missing_ok=True)
        place.symlink_to(victim)
        return result

    monkeypatch.setattr(os, call, swapped)
    with pytest.raises(FileExistsError) if write is write_new_file else nullcontext():
        write(place, b"new")
    assert write is write_new_file or (place.read_bytes() == b"new" and not place.is_symlink())
    assert victim.read_bytes() == b"mine"
