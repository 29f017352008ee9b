"""The command line where a disk has no room for what it writes, or is mounted read-only."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

import pytest

from spectui.cli import report_failure
from spectui.errors import EngineDiedError
from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.support.cli import Run, Spectui
from tests.support.disk import no_file_above, small_disk
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


def test_a_result_from_before_stays(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "j.json"
    path.write_text("good")
    with no_file_above(10):
        assert spectui("bench", *pair, "--prompts", prompts, "--json", path) == 3
    assert f"{path} cannot be written (File too large)" in spectui.err
    assert "speedup" in spectui.out
    assert path.read_text() == "good"


def test_every_result_that_has_no_room_is_named_and_the_others_are_written(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    asked = ["--prompts", prompts, "--draft-max", "2,4", "--json", tmp_path / "j.json"]
    arguments = ["sweep", *pair, *asked, "--out"]
    assert spectui(*arguments, whole) == 0, spectui.err
    size = {path.name: path.stat().st_size for path in whole.iterdir()}
    small = {"summary.csv", "report.md"}
    with no_file_above(max(size[name] for name in small) + 100):
        assert spectui(*arguments, out) == 3
    written = {path.name for path in out.iterdir()}
    assert written >= small
    n_lines = {
        folder: [len((folder / name).read_bytes().splitlines()) for name in sorted(small)]
        for folder in (out, whole)
    }
    assert n_lines[out] == n_lines[whole]
    assert f"{tmp_path / 'j.json'} cannot be written (File too large)" in spectui.err
    assert "results.json" not in written
    assert f"; and results.json of --out {out} cannot be written" in spectui.err


def test_a_defect_that_the_log_has_no_room_for_is_told_in_full(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    defect = RuntimeError("odd")
    with no_file_above(10):
        assert report_failure(defect) == 1
    assert capsys.readouterr().err == (
        "RuntimeError: odd\n\nerror: this is a defect of spectui's; please report the text above\n"
    )
    assert report_failure(defect) == 1
    log = home / "data" / "logs" / "spectui.log"
    assert str(log) in capsys.readouterr().err
    assert "RuntimeError: odd" in log.read_text()


def filled(folder: Path, n_kib: int) -> Path:
    """A file that takes all room of a disk but that."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        while suppressed_write(file):
            pass
        file.truncate(file.tell() - n_kib * 1024)
    return filler


def suppressed_write(file: FileIO) -> bool:
    with suppress(OSError):
        return bool(file.write(bytes(4096)))
    return False


@pytest.mark.ci
@pytest.mark.parametrize(
    ("command", "n_kib"),
    [
        *(("tune", n_kib) for n_kib in (0, 64, 120, 132, 144)),
        *((command, n_kib) for command in ("sweep", "trace") for n_kib in (0, 8)),
    ],
)
def test_what_measures_on_a_disk_that_fills_up(
    run: Run, spectui: Spectui, home: Path, command: str, n_kib: int
) -> None:
    result = home / "result.json"
    settings: dict[str, tuple[object, ...]] = {
        "tune": ("--trials", 2, "--study", "s", "--json", result),
        "sweep": ("--draft-max", "2,4", "--name", "s"),
        "trace": (),
    }
    with small_disk(home, 4096) as remount:
        # A disk of tmpfs cannot be smaller than what is on it: so it is filled.
        filler = filled(home, n_kib)
        code = run(command, *settings[command])
        told = spectui.err
        assert code in {0, 3}, told
        assert "Traceback" not in told
        if code:
            assert "o space left on device" in told or "disk" in told, told
        if "result is printed" in told:
            assert "llama-server -m" in spectui.out
            assert not result.exists()
        assert list(home.glob(".spectui-*")) == []
        filler.unlink()
        remount("size=8m")
        assert run(command, *settings[command]) == 0, spectui.err
        assert command != "tune" or json.loads(result.read_text())["study"] == "s"


def test_the_end_of_the_models_process_names_the_log_with_its_last_lines(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    died = EngineDiedError("it ended", ("ggml: GGML_ASSERT(x) failed",))
    with no_file_above(10):
        assert report_failure(died) == 1
    assert capsys.readouterr().err == "error: it ended\n"
    assert report_failure(died) == 1
    log = home / "data" / "logs" / "spectui.log"
    assert capsys.readouterr().err == (f"error: it ended; llama.cpp's last lines are in {log}\n")
    assert "it ended\nggml: GGML_ASSERT(x) failed\n" in log.read_text()


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
    assert spectui("studies", "delete", TUNED, "--yes") == 3
    assert spectui.err.count("\n") == 1, spectui.err
    assert "writ" in spectui.err, spectui.err


def test_nothing_is_measured_that_could_not_be_stored(
    run: Run, spectui: Spectui, mounted: Callable[[str], None]
) -> None:
    mounted("ro")
    for command in (("tune",), ("sweep", "--draft-max", "2,4"), ("trace",)):
        assert run(*command) == 3
        assert spectui.err.count("\n") == 1, spectui.err
        assert "writ" in spectui.err


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


def test_the_screen_needs_a_folder_to_keep_its_log_in(tiny: TinyPath, tmp_path: Path) -> None:
    home = tmp_path / "home"
    arguments = ["-m", str(tiny(TARGET)), "-md", str(tiny(CLOSE_DRAFT)), "-c", "512", "-t", "1"]
    with small_disk(home, 64) as remount:
        remount("ro")
        with Terminal([*arguments, "--ignore-eos", "-n", "12"], home) as terminal:
            assert "point SPECTUI_HOME at a folder that is" in " ".join(terminal.end().split())
            assert terminal.exit_code == 3
