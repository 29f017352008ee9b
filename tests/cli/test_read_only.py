"""The command line where spectui's folder takes nothing: a disk that is mounted read-only."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.support.cli import Run, Spectui
from tests.support.disk import small_disk
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

TUNED = "target-8f7363ae"


@pytest.fixture
def mounted(home: Path) -> Iterator[Callable[[str], None]]:
    """A disk as spectui's folder, with the storage of a user of an earlier version."""
    with small_disk(home, 8192) as remount:
        file = home / "data" / "studies.sqlite3"
        file.parent.mkdir()
        inside.restored((STORED / "studies.sql").read_text("utf-8"), file)
        yield remount


def test_studies_are_read(spectui: Spectui, mounted: Callable[[str], None], home: Path) -> None:
    spectui("studies", "list")
    before = spectui.out
    for lock in home.rglob("*.lock"):
        lock.unlink()
    mounted("ro")
    assert spectui("studies", "list") == 0, spectui.err
    assert spectui.out == before
    assert spectui("studies", "show", TUNED, "--json", "-") == 0, spectui.err
    assert json.loads(spectui.out)["study"] == TUNED
    assert spectui("studies", "export", TUNED, home.parent / "s.json") == 0, spectui.err
    for change in (("delete", TUNED, "--yes"), ("import", home.parent / "s.json", "--as", "x")):
        assert spectui("studies", *change) == 3, change
        assert spectui.err.count("\n") == 1, spectui.err
        assert "writable" in spectui.err, spectui.err


def test_nothing_is_loaded_that_could_not_be_stored(
    run: Run, spectui: Spectui, mounted: Callable[[str], None]
) -> None:
    mounted("ro")
    for command in (("tune",), ("sweep", "--draft-max", "2,4"), ("trace",)):
        assert run(*command) == 3
        assert spectui.err.count("\n") == 1, spectui.err
        assert "make it writable" in spectui.err


def test_what_needs_no_folder_goes_on(
    run: Run, spectui: Spectui, mounted: Callable[[str], None], home: Path
) -> None:
    mounted("ro")
    assert run("bench") == 0, spectui.err
    out = home.parent / "t.trace.json.gz"
    assert run("trace", "--out", out) == 0, spectui.err
    storage = f"sqlite:///{home.parent / 's.sqlite3'}"
    assert run("tune", "--trials", 1, "--spec-type", "draft-simple", "--storage", storage) == 0, (
        spectui.err
    )


def test_the_screen_says_once_that_nothing_is_kept(tiny: TinyPath, tmp_path: Path) -> None:
    home = tmp_path / "home"
    arguments = ["-m", str(tiny(TARGET)), "-md", str(tiny(CLOSE_DRAFT)), "-c", "512", "-t", "1"]
    with small_disk(home, 64) as remount:
        remount("ro")
        with Terminal([*arguments, "--ignore-eos", "-n", "12"], home) as terminal:
            terminal.see("Sessions are not kept")
            terminal.see("ready")
            terminal.press("hello there\r")
            terminal.see("12 tokens")
            terminal.press("\x11")
            rest = terminal.end()
            assert terminal.exit_code == 0
            terminal.assert_restored(rest)
