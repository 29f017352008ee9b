"""Files that somebody names: only regular ones are read, and no more than a limit."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.errors import BadInputError
from spectui.prompts import load_prompts
from spectui.reading import read_file
from spectui.sessions import read_session
from spectui.settings import read_settings, settings_path
from spectui.trace.file import read_trace

READERS: dict[str, Callable[[Path], object]] = {
    "prompts": load_prompts,
    "session": read_session,
    "trace": read_trace,
}


def test_a_limit_is_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 B"):
        read_file(path, 4)


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("reader", READERS)
def test_neither_devices_nor_pipes_are_read(tmp_path: Path, reader: str, kind: str) -> None:
    path = tmp_path / "a.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(BadInputError, match="no regular file"):
        READERS[reader](path)


def test_a_folder_of_prompts_with_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(BadInputError, match="no regular file"):
        load_prompts(tmp_path)


@pytest.mark.parametrize("text", ["", "a = " + "[" * 100_000 + "]" * 100_000])
def test_settings_on_a_device_or_nested_too_deeply(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    path = settings_path()
    path.parent.mkdir()
    if text:
        path.write_text(text)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(BadInputError, match=r"config\.toml"):
        read_settings()


def test_a_trace_of_many_empty_members(tmp_path: Path) -> None:
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(b"") * 100_000)
    with pytest.raises(BadInputError, match="bytes of it were changed or appended"):
        read_trace(path)
