"""``spectui worker`` as a program, beside ``spectui tune``, on PostgreSQL."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from spectui.tune.studies.conducting import study_arguments
from spectui.tune.studies.study import StudyOptions, TuningStudy
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.postgres import PASSWORD, Postgres, needs_postgres, postgres
from tests.support.workers import SPACE
from tests.tune.test_workers import await_begin

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.fixtures"]


def test_a_password_on_the_command_line_is_refused(spectui: Spectui) -> None:
    given = ("--storage", f"postgresql://u:{PASSWORD}@localhost/db")
    for command in (("tune",), ("verify", "--server-bin", "x"), ("export",), ("worker", "s")):
        assert spectui(*command, *given) == 2
        assert "SPECTUI_STORAGE" in spectui.err
        assert ".pgpass" in spectui.err
        assert PASSWORD not in spectui.out + spectui.err


@pytest.mark.parametrize(
    ("kept", "code", "said"),
    [
        ({"server_bin": "/x", "backend": "server"}, 2, "programs are not taken from a storage"),
        ({"rpc": "198.51.100.1:50052"}, 2, "servers that get the models are not taken from a"),
        ({"from": True}, 2, "--from, whose command is not kept"),
        ({"model": {"path": "x.gguf"}}, 3, "does not keep its options as spectui writes them"),
        ({"model_draft": ["x.gguf", 3]}, 3, "does not keep its options as spectui writes them"),
    ],
)
def test_a_worker_starts_and_asks_nothing_that_a_storage_names(
    tmp_path: Path, spectui: Spectui, kept: dict[str, Any], code: int, said: str
) -> None:
    url = f"sqlite:///{tmp_path / 's.sqlite3'}"
    options = StudyOptions(storage=url, arguments=kept)
    study = TuningStudy("mine", options, spec={"machine": "m"}, space=SPACE)
    try:
        assert spectui("worker", "mine", "--storage", url) == code
    finally:
        study.close()
    assert said in " ".join(spectui.err.split())


@needs_postgres
@pytest.mark.ci
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (PASSWORD, "wrong", "(connection failed: .* password authentication failed"),
        ("/postgres", "/nodb", 'database "nodb" does not exist'),
    ],
)
def test_a_database_that_refuses_is_told_without_the_password(
    database: Postgres, tmp_path: Path, before: str, after: str, said: str
) -> None:
    address = database.url.replace(before, after)
    worker = start(database, tmp_path, "a", "worker", "s", storage=address)
    _, err = worker.communicate()
    assert worker.returncode == 3
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), err)
    assert "check --storage and SPECTUI_STORAGE" in err
    assert PASSWORD not in err
    assert "wrong" not in err


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


def start(
    database: Postgres, folder: Path, home: str, *arguments: object, storage: str | None = None
) -> "subprocess.Popen[str]":
    """A machine of its own, as far as files tell."""
    return subprocess.Popen(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        cwd=folder,
        env={
            **os.environ,
            "SPECTUI_HOME": str(folder / home),
            "SPECTUI_STORAGE": storage or database.url,
            "SPECTUI_ISOLATE": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_postgres
@pytest.mark.ci
def test_a_worker_joins_with_real_models_and_no_password_is_seen(
    database: Postgres, tmp_path: Path, tiny: TinyPath, prompts: Path
) -> None:
    own = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "--prompts", prompts)
    sizes = ("-n", "400", "-c", "1024", "-t", "1", "--temp", "0", "--trials", "8")
    tune = start(database, tmp_path, "a", "tune", *own, *sizes, "--study", "real", "--json", "t")
    await_begin(database.url, "real")
    worker = start(database, tmp_path, "b", "worker", "real", "--json", "w")
    seen = set[str]()
    while worker.poll() is None:
        for one in (tune, worker):
            try:
                family = [psutil.Process(one.pid), *psutil.Process(one.pid).children(True)]
                seen |= {" ".join(process.cmdline()) for process in family}
            except psutil.Error:
                continue
    said = [*worker.communicate(), *tune.communicate()]
    assert (tune.returncode, worker.returncode) == (0, 0), said
    assert any("worker real" in line for line in seen)
    assert not any(PASSWORD in text for text in (*seen, *said))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    name, kept = study_arguments(database.url, "real", pytest.fail)
    assert name == "real"
    assert PASSWORD not in json.dumps(kept)
    (machine,) = json.loads((tmp_path / "w").read_text())["machines"]
    assert machine["n_trials"] >= 1
    refused = start(database, tmp_path, "c", "worker", "real", "-n", "300")
    _, err = refused.communicate()
    assert refused.returncode == 2
    assert "was made with another -n, so that" in err
