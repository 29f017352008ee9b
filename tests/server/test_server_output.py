"""What a server prints: the end of it is kept."""

import os

from spectui.server.kept import MOST_BYTES, Output


def printed(*pieces: bytes) -> Output:
    """The output of a process that has ended."""
    read, written = os.pipe()
    found = Output(os.fdopen(read, "rb", buffering=0))
    with os.fdopen(written, "wb", buffering=0) as process:
        for piece in pieces:
            process.write(piece)
    found.join()
    return found


def test_the_end_is_kept_and_no_terminal_acts_on_it() -> None:
    for n_bytes in (0, 1, MOST_BYTES):
        text = (b"0123456789abcde\n" * (n_bytes // 16 + 1))[:n_bytes]
        assert printed(text).text == text.decode()
    found = printed(b"begin", *[b"\x1b" * MOST_BYTES] * 3, b"end")
    assert len(found.text) <= 2 * MOST_BYTES
    assert found.text.endswith("?end")
    assert found.last_words == "its last words were '??end'"


def test_the_last_lines_are_the_last_words() -> None:
    found = printed(b"one\n\n two\n3\n4\n5\n6\n")
    assert found.last_words == "its last words were 'two / 3 / 4 / 5 / 6'"
    assert printed().last_words == "it printed nothing"
