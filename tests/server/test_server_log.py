"""What a server prints, in a file that stays small."""

import os
from pathlib import Path
from threading import Event

import pytest

from spectui.errors import ServerError
from spectui.server import process as server_process
from spectui.server.process import HEAD_BYTES, TAIL_BYTES, ServerLog

WORDS = b"over and out"


def printed(path: Path, *pieces: bytes) -> tuple[ServerLog, Event]:
    """A log behind its process."""
    found, heard = ServerLog(path), Event()
    output = os.dup(found.output)
    found.follow(WORDS, heard.set)
    with os.fdopen(output, "wb", buffering=0) as process:
        for piece in pieces:
            process.write(piece)
    found.settle()
    return found, heard


def test_what_is_short_is_kept_whole(tmp_path: Path) -> None:
    for n_bytes in (0, 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES):
        text = (b"0123456789abcde\n" * (n_bytes // 16 + 1))[:n_bytes]
        found, _heard = printed(tmp_path / f"{n_bytes}.log", text)
        assert found.last() == text[-4096:]
        found.close()
        assert found.path.read_bytes() == text


def test_of_what_is_long_the_middle_is_left_out(tmp_path: Path) -> None:
    many = [b"x" * HEAD_BYTES] * 12
    found, _heard = printed(tmp_path / "log", b"begin", *many, b"end")
    found.close()
    found.close()
    kept = (tmp_path / "log").read_bytes()
    assert found.n_bytes == 12 * HEAD_BYTES + 8
    assert len(kept) < HEAD_BYTES + TAIL_BYTES + 100
    assert (kept[:5], kept[-3:]) == (b"begin", b"end")
    n_left_out = found.n_bytes - HEAD_BYTES - TAIL_BYTES
    assert f"[{n_left_out} bytes are left out here]".encode() in kept


def test_words_that_are_waited_for(tmp_path: Path) -> None:
    for pieces, heard in (
        ((b"all is well, over and out, Roger",), True),
        ((b"over and ", b"out"), True),
        ((b"over ", b"and over"), False),
        ((), False),
    ):
        found, event = printed(tmp_path / "log", *pieces)
        found.close()
        assert event.is_set() is heard, pieces


def test_a_file_that_is_written_is_left_alone(tmp_path: Path) -> None:
    first, _heard = printed(tmp_path / "a.log", b"first")
    second, _heard = printed(tmp_path / "a.log", b"second")
    first.close()
    second.close()
    assert (tmp_path / "a.log").read_bytes() == b"first"
    assert second.path == tmp_path / "a-2.log"
    assert second.path.read_bytes() == b"second"


def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match="cannot write llama-server's log"):
        ServerLog(tmp_path)
    monkeypatch.setattr(server_process, "_MOST_LOGS", 1)
    with ServerLog(tmp_path / "log"), pytest.raises(ServerError, match="1 processes write"):
        ServerLog(tmp_path / "log")
