"""The target's place is searched before any draft: of tiny models whose threads get in the way."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run, Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

THREADS = ("-t", 6, "--tune", "draft,threads", "--spec-type", "draft-simple")


def test_the_place_is_searched_once_and_written(run: Run, spectui: Spectui) -> None:
    found = run.document("tune", *THREADS)
    placing = found["placing"]
    assert placing["given"] == {"threads": 6}
    assert placing["trials"][0]["params"] == {"threads": 6}
    assert {"threads": 2} in [one["params"] for one in placing["trials"]]
    # Which of them is shown to be faster, the clock says.
    n_threads = placing["best"].get("threads", 6)
    for command in (found["command"], found["best_command"]):
        assert f" -t {n_threads}" in command
    assert "place --threads 6: " in spectui.err
    assert run("tune", *THREADS) == 0
    assert "place --threads" not in spectui.err
    assert ("over your command" in spectui.out) == bool(placing["best"])
    assert ("no place was shown to be faster" in spectui.out) == (not placing["best"])
    assert spectui("studies", "list", "--json", "-") == 0
    assert [one["name"] for one in json.loads(spectui.out)["studies"]] == [found["study"]]


def test_a_command_gets_what_was_found(run: Run, spectui: Spectui, tmp_path: Path) -> None:
    del tmp_path
    assert run("tune", "--tune", "everything") == 2
    assert "--tune everything: unknown; choose among " in spectui.err
    assert run("tune", "--tune", "threads,split_mode", "--backend", "server") == 2
    assert "--tune split_mode,threads moves the target in spectui's own engine" in spectui.err
