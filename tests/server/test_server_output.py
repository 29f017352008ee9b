"""What a server prints: the beginning and the end of it are kept."""

import os
from threading import Event

from spectui.server.output import HEAD_BYTES, TAIL_BYTES, Output

WORDS = b"over and out"


def printed(*pieces: bytes) -> tuple[Output, Event]:
    """The output of a process that has ended."""
    found, heard = Output(), Event()
    descriptor = os.dup(found.descriptor)
    found.follow(WORDS, heard.set)
    with os.fdopen(descriptor, "wb", buffering=0) as process:
        for piece in pieces:
            process.write(piece)
    found.close()
    return found, heard


def test_what_is_short_is_kept_whole() -> None:
    for n_bytes in (0, 1, HEAD_BYTES, HEAD_BYTES + 2 * TAIL_BYTES):
        text = (b"0123456789abcde\n" * (n_bytes // 16 + 1))[:n_bytes]
        found, _heard = printed(text)
        assert found.text == text.decode()
    Output().close()


def test_of_what_is_long_the_middle_is_left_out_and_no_terminal_acts_on_it() -> None:
    many = [b"\x1b" * HEAD_BYTES] * 12
    found, _heard = printed(b"begin", *many, b"end")
    assert found.n_bytes == 12 * HEAD_BYTES + 8
    assert len(found.text) < HEAD_BYTES + 2 * TAIL_BYTES + 100
    assert (found.text[:6], found.text[-4:]) == ("begin?", "?end")
    assert " bytes are left out here]\n" in found.text
    assert found.last_words == "its last words were '??end'"


def test_the_last_lines_are_the_last_words() -> None:
    found, _heard = printed(b"one\n\n two\n3\n4\n5\n6\n")
    assert found.last_words == "its last words were 'two / 3 / 4 / 5 / 6'"
    assert printed()[0].last_words == "it printed nothing"


def test_words_that_are_waited_for() -> None:
    for pieces, is_heard in (
        ((b"all is well, over and out, Roger",), True),
        ((b"over and ", b"out"), True),
        ((b"over ", b"and over"), False),
        ((), False),
    ):
        _found, heard = printed(*pieces)
        assert heard.is_set() is is_heard, pieces
