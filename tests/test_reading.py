"""Files that somebody names: only regular ones are read, and no more than a limit."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.errors import BadInputError
from spectui.files import read_file
from spectui.live.sessions import read_session
from spectui.prompts import load_prompts
from spectui.settings import read_settings, settings_path
from spectui.trace.file import read_trace
from tests.support.tables import table


def test_a_limit_is_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 B"):
        read_file(path, 4)


@table("reader", [load_prompts, read_session, read_trace])
def test_neither_devices_nor_pipes_are_read(
    tmp_path: Path, reader: Callable[[Path], object]
) -> None:
    path = tmp_path / "a.jsonl"
    path.symlink_to("/dev/zero")
    with pytest.raises(BadInputError, match="no regular file"):
        reader(path)
    path.unlink()
    os.mkfifo(path)
    # A folder of prompts has it, too.
    for place in (path, *[tmp_path] * (reader is load_prompts)):
        with pytest.raises(BadInputError, match="no regular file"):
            reader(place)
    path.unlink()


def test_settings_on_a_device_or_nested_too_deeply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    path = settings_path()
    path.parent.mkdir()
    path.write_text("a = " + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(BadInputError, match=r"config\.toml"):
        read_settings()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(BadInputError, match=r"config\.toml"):
        read_settings()


def test_a_trace_of_many_empty_members(tmp_path: Path) -> None:
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(b"") * 100_000)
    with pytest.raises(BadInputError, match="is no whole trace of spectui's"):
        read_trace(path)
