"""``spectui tune`` on studies of a database, and its password."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spectui.trace.file import read_trace
from spectui.trace.record import Trace
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.postgres import PASSWORD, Postgres, needs_postgres, postgres

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.fixtures"]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


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
    listing = start(tmp_path, "a", address, "studies", "list")
    _, err = listing.communicate()
    assert listing.returncode == 3
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), err)
    assert "check --storage and SPECTUI_STORAGE" in err
    assert PASSWORD not in err
    assert "wrong" not in err


def start(folder: Path, home: str, storage: str, *arguments: object) -> "subprocess.Popen[str]":
    """A machine of its own, as far as files tell."""
    return subprocess.Popen(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        cwd=folder,
        env={
            **os.environ,
            "SPECTUI_HOME": str(folder / home),
            "SPECTUI_STORAGE": storage,
            "COLUMNS": "160",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_postgres
@pytest.mark.ci
def test_two_share_a_search_of_real_models_and_no_password_is_seen(
    database: Postgres, tmp_path: Path, tiny: TinyPath, prompts: Path
) -> None:
    own = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "--prompts", prompts, "--study", "real")
    sizes = ("-n", "400", "-c", "1024", "-t", "1", "--temp", "0", "--trials", "8")
    programs = [
        start(tmp_path, home, database.url, "tune", *own, *sizes, "--json", f"{home}.json")
        for home in ("a", "b")
    ]
    seen = set[str]()
    while running := [one for one in programs if one.poll() is None]:
        for one in running:
            with suppress(psutil.Error):
                family = [psutil.Process(one.pid), *psutil.Process(one.pid).children(True)]
                seen |= {" ".join(process.cmdline()) for process in family}
        with suppress(subprocess.TimeoutExpired):
            running[0].wait(0.1)
    said = [text for one in programs for text in one.communicate()]
    assert [one.returncode for one in programs] == [0, 0], said
    assert any("--study real" in line for line in seen)
    assert not any(PASSWORD in text for text in (*seen, *said))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    for home in ("a", "b"):
        found = json.loads((tmp_path / f"{home}.json").read_text())["trials"]
        assert len({one["number"] for one in found}) == len(found) > 2
    refused = start(tmp_path, "c", database.url, "tune", *own, *sizes, "-n", "300")
    _, err = refused.communicate()
    assert refused.returncode == 2
    assert "was made with another -n" in err


@needs_postgres
@pytest.mark.ci
def test_another_machine_takes_the_recording_and_has_a_verdict_of_its_own(
    database: Postgres, tmp_path: Path, tiny: TinyPath, prompts: Path
) -> None:
    own = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "--prompts", prompts, "--study", "mine")
    sizes = ("-n", "12", "-c", "256", "-t", "1", "--temp", "0")

    def ran(home: str, *arguments: object) -> tuple[str, str]:
        program = start(tmp_path, home, database.url, *arguments)
        out, err = program.communicate()
        assert program.returncode == 0, err
        return out, " ".join(err.split())

    def kept(home: str) -> Trace:
        (path,) = (tmp_path / home / "data" / "traces").iterdir()
        return read_trace(path)

    out, err = ran("a", "tune", *own, *sizes)
    assert "the study's recording" not in err
    assert "placement" not in out
    recorded = kept("a")
    # Prices depend on -ub, counts do not.
    out, err = ran("b", "tune", *own, *sizes, "-ub", "64", "--json", "b.json")
    n_tokens = sum(one.n_decoded for one in recorded.recordings)
    assert f"taking the study's recording: {n_tokens} tokens of 6 answers" in err
    assert "recording the prompts" not in err
    study = json.loads((tmp_path / "b.json").read_text())["study"]
    assert re.fullmatch("mine@[0-9a-f]{8}", study)
    assert kept("b").recordings == recorded.recordings
    assert kept("b").costs.keys() == recorded.costs.keys()
    assert kept("b").costs != recorded.costs
    shown, _ = ran("c", "studies", "show", "mine")
    for text in (out, shown):
        table = re.split(r"(?m)^machine, study +placement", text)[1].split("\n\n")[0]
        assert len(re.findall("-t 1", table)) == 2
        assert len(re.findall("-ub 64", table)) == 1
        assert os.uname().nodename not in table
    # Who has lost the data folder takes the recording, too, and goes on with the same study.
    _, err = ran("d", "tune", *own, *sizes)
    assert f"{n_tokens} tokens of 6 answers" in err
    listed, _ = ran("c", "studies", "list", "--json", "-")
    assert {"mine", study} <= {one["name"] for one in json.loads(listed)["studies"]}
    assert "recordings" not in listed
