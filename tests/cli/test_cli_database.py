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
            "SPECTUI_ISOLATE": "1",
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
