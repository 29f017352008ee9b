"""``spectui studies`` over real storages, damaged and older ones among them."""

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest

from spectui.errors import BadInputError
from spectui.live.sessions import read_session
from spectui.sweep.store import SweepStore, sweep_folder
from spectui.tune.studies.records import OUTCOME, SCHEMA
from spectui.tune.studies.storage import open_storage
from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.support.cli import Searched, Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

TUNED = "target-8f7363ae"
HOLDER = """
import sys, time
from spectui.tune.studies.storage import lock_study
lock = lock_study(sys.argv[1], sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def worked_on(file: Path) -> Iterator[None]:
    """Have another process work on the study, which is killed in the end."""
    arguments = [sys.executable, "-c", HOLDER, f"sqlite:///{file}", TUNED]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.send_signal(signal.SIGKILL)


@pytest.fixture
def file(home: Path) -> Path:
    """The storage of a user of an earlier version, where spectui's own is."""
    path = home / "data" / "studies.sqlite3"
    path.parent.mkdir(parents=True)
    inside.restored((STORED / "studies.sql").read_text("utf-8"), path)
    return path


def listed(spectui: Spectui, *arguments: object) -> dict[str, dict[str, Any]]:
    assert spectui("studies", "list", "--json", "-", *arguments) == 0, spectui.err
    return {one["name"]: one for one in json.loads(spectui.out)["studies"]}


def test_an_empty_storage_says_what_makes_a_study(spectui: Spectui, home: Path) -> None:
    assert spectui("studies", "list") == 0
    assert "spectui tune" in spectui.out
    assert not home.exists()


def test_a_storage_that_is_not_there_is_not_made(spectui: Spectui, tmp_path: Path) -> None:
    none = tmp_path / "none.db"
    assert spectui("studies", "list", "--storage", f"sqlite:///{none}") == 3
    assert f"{none}: no such file" in spectui.err
    assert not none.exists()


@pytest.mark.usefixtures("file")
def test_studies_of_an_earlier_version(spectui: Spectui) -> None:
    found = listed(spectui)
    assert next(iter(found)) == TUNED
    assert found[TUNED]["state"] == "finished"
    assert found[TUNED]["n_trials"] == 5
    assert found[TUNED]["verdict"]["use_speculation"] is False
    assert found[TUNED]["target"] == "target.gguf"
    assert spectui("studies", "list") == 0
    assert TUNED in spectui.out
    assert spectui("studies", "show", TUNED, "--json", "-") == 0
    document = json.loads(spectui.out)
    assert document["schema"] == "spectui.tune/1"
    assert {one["source"] for one in document["trials"]} == {"measured in the old way"}
    assert document["verdict"] == found[TUNED]["verdict"]
    assert spectui("studies", "show", "advice-") == 3


def test_show_repeats_what_tune_printed(study: Searched, spectui: Spectui, home: Path) -> None:
    assert spectui("studies", "show", "mine") == 0
    # Wrapped for the terminal of now.
    assert spectui.out.split() == study.out.split()
    assert spectui("studies", "show", "--json", "-") == 0
    assert json.loads(spectui.out) == study.document
    assert listed(spectui)["mine"]["state"] == "finished"
    url = f"sqlite:///{home / 'data' / 'studies.sqlite3'}"
    stored = optuna.load_study(study_name="mine", storage=open_storage(url))
    assert stored.user_attrs[SCHEMA] == "spectui.study/1"


def test_deleting_needs_an_answer_and_nobody_at_work(spectui: Spectui, file: Path) -> None:
    half = optuna.create_study(study_name="half", storage=f"sqlite:///{file}")
    half.set_user_attr(SCHEMA, "spectui.study-import/1")
    assert spectui("studies", "show", "half") == 3
    assert "studies delete" in spectui.err
    assert spectui("studies", "delete", TUNED) == 2
    assert "--yes" in spectui.err
    assert spectui("studies", "delete", "target", "--yes") == 3
    with worked_on(file):
        assert spectui("studies", "delete", "half", TUNED, "--yes") == 2
        assert "another spectui is working" in spectui.err
        assert spectui("studies", "show", TUNED) == 0
    found = listed(spectui)
    assert TUNED in found
    # An import that was cut off is no study.
    assert found["half"]["state"] == "not readable"
    assert spectui("studies", "delete", "half", TUNED, "--yes") == 0
    assert not {TUNED, "half"} & listed(spectui).keys()


def test_a_study_without_a_verdict_says_so(spectui: Spectui, file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        keys = (OUTCOME, "report")
        database.execute("DELETE FROM study_user_attributes WHERE key IN (?, ?)", keys)
        database.commit()
    assert spectui("studies", "show", TUNED) == 0
    assert "has no verdict yet, with 5 measured trials" in " ".join(spectui.out.split())


def test_a_study_of_a_newer_spectui_is_left_alone(spectui: Spectui, file: Path) -> None:
    study = optuna.load_study(study_name=TUNED, storage=f"sqlite:///{file}")
    study.set_user_attr(SCHEMA, "spectui.study/2")
    before = file.read_bytes()
    assert listed(spectui)[TUNED]["state"] == "not readable"
    for arguments in (("studies", "show", TUNED), ("export", TUNED), ("verify", TUNED)):
        assert spectui(*arguments) in {2, 3}
    assert spectui("studies", "show", TUNED) == 3
    assert TUNED in spectui.err
    assert "update spectui" in spectui.err
    assert file.read_bytes() == before
    # Nor is a storage of a newer Optuna touched.
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
        connection.commit()
    before = file.read_bytes()
    assert spectui("studies", "list") == 3
    assert "cannot be used (" in spectui.err
    assert file.read_bytes() == before


def scribbled(content: bytes) -> bytes:
    """The pages behind the first forty: every fifth is garbage."""
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    for number in range(40, len(pages), 5):
        pages[number] = b"\xa5\x5a garbage " * 341
    return b"".join(page[:4096].ljust(4096, b"\xff") for page in pages)


def test_a_damaged_file_is_moved_aside(spectui: Spectui, file: Path) -> None:
    journal = file.with_name(f"{file.name}-journal")
    other = file.with_name("notes.txt")
    other.write_text("dear diary\n" * 100)
    for broken in (scribbled(file.read_bytes()), b"garbage" * 5000):
        file.write_bytes(broken)
        journal.write_bytes(b"")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", refused)
            assert spectui("studies", "show") == 3
        assert "cannot be moved aside (Permission denied); move it away" in spectui.err
        assert file.read_bytes() == broken
        assert spectui("studies", "show") == 3
        assert spectui.err.count("\n") == 1
        assert "was damaged, and is" in spectui.err
        (kept,) = file.parent.glob("*.damaged-*[0-9]")
        assert str(kept) in spectui.err
        assert kept.read_bytes() == broken
        assert not journal.exists()
        assert listed(spectui) == {}
        kept.unlink()
    assert spectui("studies", "list", "--storage", f"sqlite:///{other}") == 3
    assert other.read_text() == "dear diary\n" * 100


def refused(*_arguments: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_sessions_and_sweeps_of_a_newer_spectui_are_left_alone(home: Path) -> None:
    session = home / "s.jsonl"
    session.parent.mkdir()
    session.write_text('{"kind":"session","schema":"spectui.session/2"}\n{"kind":"no')
    with pytest.raises(BadInputError, match="update spectui"):
        read_session(session)
    sweep = sweep_folder("new") / "cells.jsonl"
    sweep.parent.mkdir(parents=True)
    # The last line is one that this version would cut off.
    content = '{"kind":"sweep","schema":"spectui.sweep-log/2","spec":{}}\n{"kind":"vi'
    sweep.write_text(content)
    with pytest.raises(BadInputError, match="update spectui"):
        SweepStore("new", {})
    assert sweep.read_text() == content


def fill(file: Path, name: str) -> bytes:
    file.unlink(missing_ok=True)
    inside.restored((STORED / f"{name}.sql").read_text("utf-8"), file)
    return file.read_bytes()


def shown(spectui: Spectui) -> dict[str, Any]:
    assert spectui("studies", "show", TUNED, "--json", "-") == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    return {
        key: document[key] for key in ("verdict", "trials", "model", "schema") if key in document
    }


@pytest.mark.parametrize("version", ["2.10.1", "3.1.1"])
def test_other_tables_are_brought_up_to_date_by_the_command_that_is_named(
    spectui: Spectui, file: Path, version: str
) -> None:
    fill(file, "studies")
    today = shown(spectui)
    before = fill(file, f"studies-optuna-{version}")
    for command in ("list", "show"):
        assert spectui("studies", command) == 3
        assert "made by an older Optuna" in spectui.err
        assert file.read_bytes() == before
    named = re.search(r"(\S+optuna storage upgrade) --storage URL", " ".join(spectui.err.split()))
    assert named is not None
    subprocess.run([*named[1].split(), "-q", "--storage", f"sqlite:///{file}"], check=True)
    assert shown(spectui) == today
    check_listed(spectui)


def test_the_same_tables_are_read_as_they_are(spectui: Spectui, file: Path) -> None:
    fill(file, "studies")
    today = shown(spectui)
    fill(file, "studies-optuna-3.6.2")
    assert shown(spectui) == today
    check_listed(spectui)


def check_listed(spectui: Spectui) -> None:
    assert spectui("studies", "list", "--json", "-") == 0, spectui.err
    (found,) = json.loads(spectui.out)["studies"]
    assert (found["name"], found["state"], found["n_trials"]) == (TUNED, "finished", 5)
