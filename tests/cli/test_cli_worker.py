"""``spectui worker`` as a program, beside ``spectui tune``, on PostgreSQL."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spectui.cli.tune import command as tune
from spectui.tune.studies.study import study_arguments
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.postgres import PASSWORD, Postgres, needs_postgres, postgres
from tests.tune.test_workers import await_begin

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.fixtures"]


def test_options_are_repeated_as_they_were_typed() -> None:
    words = ["-m", "a b.gguf", "-md", "x.gguf", "-md", "y.gguf", "-c", "512", "--no-isolate"]
    words += ["--prompts", "-odd.jsonl", "--temp", "0"]
    with tune.make_context("tune", list(words)) as context:
        given = context.meta["spectui.words"]
        first = dict(context.params)
    again = tune.words({**given, "model_draft": ["z.gguf"]})
    with tune.make_context("tune", again) as context:
        second = dict(context.params)
    assert second.pop("model_draft") == (Path("z.gguf"),)
    first.pop("model_draft")
    assert second == first


@pytest.mark.parametrize("command", ["tune", "verify", "export", "worker"])
def test_a_password_on_the_command_line_is_refused(spectui: Spectui, command: str) -> None:
    more = {"worker": ("s",), "verify": ("--server-bin", "x")}.get(command, ())
    given = ("--storage", f"postgresql://u:{PASSWORD}@localhost/db")
    assert spectui(command, *more, *given) == 2
    assert "SPECTUI_STORAGE" in spectui.err
    assert ".pgpass" in spectui.err
    assert PASSWORD not in spectui.out + spectui.err


def test_a_worker_needs_a_study_to_join(spectui: Spectui, tmp_path: Path) -> None:
    given = ("--storage", f"sqlite:///{tmp_path / 'none.sqlite3'}")
    assert spectui("worker", "nothing", *given) == 2
    assert "begin it with spectui tune --study nothing and the same --storage" in spectui.err


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


def start(
    database: Postgres, folder: Path, home: str, *arguments: object
) -> "subprocess.Popen[str]":
    """A machine of its own, as far as files tell."""
    return subprocess.Popen(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        cwd=folder,
        env={
            **os.environ,
            "SPECTUI_HOME": str(folder / home),
            "SPECTUI_STORAGE": database.url,
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
    name, kept = study_arguments(database.url, "real")
    assert name == "real"
    assert PASSWORD not in json.dumps(kept)
    (machine,) = json.loads((tmp_path / "w").read_text())["machines"]
    assert machine["n_trials"] >= 1
    refused = start(database, tmp_path, "c", "worker", "real", "-n", "300")
    _, err = refused.communicate()
    assert refused.returncode == 2
    assert "was made with another n_predict" in err
