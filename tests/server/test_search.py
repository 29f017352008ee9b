"""Which llama-server is taken where none was named."""

from pathlib import Path

import pytest

from spectui.llama.search import find_server
from tests.support.scripted_server import write_server


def test_which_llama_server_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("spectui.llama.search._running", lambda: iter(()))
    folder = tmp_path / "llama.cpp" / "build" / "bin"
    folder.mkdir(parents=True)
    build = write_server(folder / "llama-server")
    assert find_server() == build
    # What others can write is not taken.
    build.parent.chmod(0o777)
    assert find_server() is None
    build.parent.chmod(0o755)
    build.chmod(0o644)
    assert find_server() is None
    build.chmod(0o755)
    # That of the PATH comes first.
    (tmp_path / "bin").mkdir()
    first = write_server(tmp_path / "bin" / "llama-server")
    assert find_server() == first
