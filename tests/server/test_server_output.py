"""What a server prints: the beginning and the end of it are kept."""

import os

from spectui.server.kept import HEAD_BYTES, TAIL_BYTES, Output


def printed(*pieces: bytes) -> Output:
    """The output of a process that has ended."""
    read, written = os.pipe()
    found = Output(os.fdopen(read, "rb", buffering=0))
    with os.fdopen(written, "wb", buffering=0) as process:
        for piece in pieces:
            process.write(piece)
    found.join()
    return found


def test_what_is_short_is_kept_whole() -> None:
    for n_bytes in (0, 1, HEAD_BYTES, HEAD_BYTES + 2 * TAIL_BYTES):
        text = (b"0123456789abcde\n" * (n_bytes // 16 + 1))[:n_bytes]
        found = printed(text)
        assert found.text == text.decode()


def test_of_what_is_long_the_middle_is_left_out_and_no_terminal_acts_on_it() -> None:
    many = [b"\x1b" * HEAD_BYTES] * 12
    found = printed(b"begin", *many, b"end")
    assert found.n_bytes == 12 * HEAD_BYTES + 8
    assert len(found.text) < HEAD_BYTES + 2 * TAIL_BYTES + 100
    assert (found.text[:6], found.text[-4:]) == ("begin?", "?end")
    assert " bytes are left out here]\n" in found.text
    assert found.last_words == "its last words were '??end'"


def test_the_last_lines_are_the_last_words() -> None:
    found = printed(b"one\n\n two\n3\n4\n5\n6\n")
    assert found.last_words == "its last words were 'two / 3 / 4 / 5 / 6'"
    assert printed().last_words == "it printed nothing"
