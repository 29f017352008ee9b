"""Messages between processes of this program."""

import os
from dataclasses import dataclass
from enum import Enum
from multiprocessing import Pipe
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui import children
from spectui.children import Channel, ProtocolError, is_out_of_memory
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    EngineDiedError,
    ReadsFromDiskError,
    SpectuiError,
)
from tests.support.tables import table


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    path: Path | None
    numbers: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: tuple[Part, ...]
    data: bytes
    colour: Colour = Colour.RED


@dataclass(frozen=True, kw_only=True)
class Failed:
    error: SpectuiError


class FromElsewhereError(BadInputError):
    """One that the receiver does not know."""


PATHS = st.binary(min_size=1, max_size=20).map(
    lambda name: Path("/" + name.replace(b"\0", b"x").decode(errors="surrogateescape"))
)
PARTS = st.builds(
    Part,
    name=st.text(),
    path=st.none() | PATHS,
    numbers=st.lists(st.floats(allow_nan=False)).map(tuple),
)
WHOLES = st.builds(Whole, parts=st.lists(PARTS).map(tuple), data=st.binary())


def carried(message: object, *kinds: type) -> object:
    """What arrives of a message."""
    ours, theirs = Pipe()
    with Channel(ours, ()) as sender, Channel(theirs, kinds or (type(message),)) as receiver:
        sender.send(message)
        return receiver.receive()


@given(WHOLES)
def test_a_message_arrives_as_it_was_sent(message: Whole) -> None:
    assert carried(message) == message


@table(
    ("error", "kind", "text"),
    [
        (BadInputError("half \ud800"), BadInputError, "half ?"),
        (DoesNotFitError("needs 3 GB"), DoesNotFitError, "needs 3 GB"),
        (BadInputError("/\udce4/m.gguf is odd"), BadInputError, "/\udce4/m.gguf is odd"),
        (FromElsewhereError("it failed"), SpectuiError, "it failed"),
        # A death that is told has no log.
        (EngineDiedError("it ended", ("a line",)), EngineDiedError, "it ended"),
        # Words around a reason arrive once.
        (
            ReadsFromDiskError("it reads"),
            ReadsFromDiskError,
            "it reads; --yes loads it all the same",
        ),
    ],
)
def test_an_error_arrives_with_its_class(
    error: SpectuiError, kind: type[SpectuiError], text: str
) -> None:
    error.add_note("a note")
    found = carried(Failed(error=error))
    assert isinstance(found, Failed)
    assert (type(found.error), str(found.error)) == (kind, text)
    assert found.error.__notes__ == ["a note"]
    assert getattr(found.error, "log", ()) == ()


def test_what_has_no_utf_8_arrives_readable() -> None:
    path = Path(os.fsdecode(b"/\xe4"))
    for text in ("/home/\udce4", "half \ud800"):
        found = carried(Part(name=text, path=path, numbers=(1.0,)))
        assert found == Part(name=f"{text[:-1]}?", path=path, numbers=(1.0,))


@given(st.binary(min_size=1, max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    ours, theirs = Pipe()
    with ours, Channel(theirs, (Whole, Failed)) as receiver:
        ours.send_bytes(data)
        with pytest.raises(ProtocolError):
            receiver.receive()


def test_nothing_is_read_after_a_message_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "MOST_BYTES", 1000)
    ours, theirs = Pipe()
    with Channel(ours, (Whole,)) as receiver, Channel(theirs, ()) as sender:
        sender.send(Whole(parts=(), data=bytes(2000)))
        sender.send(Whole(parts=(), data=b""))
        with pytest.raises(ProtocolError, match="cannot be read"):
            receiver.receive()
        # Who goes on after a ProtocolError comes to an end.
        with pytest.raises(EOFError, match="is closed"):
            receiver.receive()


LAST_WORDS = {
    "terminate called after throwing an instance of 'std::bad_alloc'": True,
    "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.": True,
    "RuntimeError: can't start new thread": True,
    "libgomp: Thread creation failed: Resource temporarily unavailable": True,
    "ImportError: lib/_umath.so: failed to map segment from shared object": True,
    "python: error while loading shared libraries: libc.so.6: cannot map zero-fill pages": True,
    "SystemError: error return without exception set": True,
    "SystemError: <function f at 0x7f> returned NULL without setting an exception": True,
    "OSError: [Errno 12] Cannot allocate memory": True,
    "GGML_ASSERT(n_tokens > 0) failed": False,
    "ModuleNotFoundError: No module named 'numpy'": False,
    "none": False,
}


def test_words_of_who_got_no_memory_are_known() -> None:
    for words, no_memory in LAST_WORDS.items():
        assert is_out_of_memory(words) is no_memory, words


def test_only_named_classes_arrive() -> None:
    with pytest.raises(ProtocolError, match="unknown kind 'Whole'"):
        carried(Whole(parts=(), data=b""), Failed)
    ours, theirs = Pipe()
    ours.close()
    with Channel(theirs, (Whole,)) as receiver, pytest.raises(EOFError):
        receiver.receive()
