"""``spectui studies`` over files that older versions of Optuna made."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

TUNED = "target-8f7363ae"
SAME_TABLES = ("3.6.2",)
OTHER_TABLES = ("2.10.1", "3.1.1")


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "data" / "studies.sqlite3"
    path.parent.mkdir(parents=True)
    return path


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


@pytest.mark.parametrize("version", OTHER_TABLES)
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


@pytest.mark.parametrize("version", SAME_TABLES)
def test_the_same_tables_are_read_as_they_are(spectui: Spectui, file: Path, version: str) -> None:
    fill(file, "studies")
    today = shown(spectui)
    fill(file, f"studies-optuna-{version}")
    assert shown(spectui) == today
    check_listed(spectui)


def check_listed(spectui: Spectui) -> None:
    assert spectui("studies", "list", "--json", "-") == 0, spectui.err
    (found,) = json.loads(spectui.out)["studies"]
    assert (found["name"], found["state"], found["n_trials"]) == (TUNED, "finished", 5)
