"""Which llama-server is taken where none was named."""

from pathlib import Path

import pytest

from spectui.llama.search import find_server
from tests.support.scripted_server import write_server


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A llama-server in the usual folder of a build, and none on the PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("spectui.llama.search._running", lambda: iter(()))
    folder = tmp_path / "llama.cpp" / "build" / "bin"
    folder.mkdir(parents=True)
    return write_server(folder / "llama-server")


def test_a_build_in_a_usual_folder_is_found(build: Path) -> None:
    assert find_server() == build


@pytest.mark.usefixtures("build")
def test_that_of_the_path_comes_first(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    first = write_server(tmp_path / "bin" / "llama-server")
    assert find_server() == first


def test_what_others_can_write_is_not_taken(build: Path) -> None:
    build.parent.chmod(0o777)
    assert find_server() is None
    build.parent.chmod(0o755)
    build.chmod(0o644)
    assert find_server() is None
