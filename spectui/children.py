"""Starts child processes of this program, and exchanges typed messages with them.

A message is a MessagePack array of its class's name and its fields. The receiver decodes only the
classes that it has named, so that no message can carry code, and reads at most ``MOST_BYTES`` at a
time.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from spectui import errors
from spectui.closing import Closing
from spectui.errors import SpectuiError
from spectui.secret import environment_without_secrets

MOST_BYTES = 64 << 20
"""Limit for a message: several times the texts of the largest vocabulary."""
_LAST_WORDS_BYTES = 4096
_NO_MEMORY = re.compile(
    r"bad_alloc|mem_buffer != NULL|MemoryError|annot allocate|emory allocation"
    r"|failed to map segment|cannot map zero-fill|temporarily unavailable|can't start new thread"
    r"|without exception set|without setting an exception|unsupported hash type"
)
"""Messages of llama.cpp, Python, the linker and libraries when memory runs out.

C code of a module that gets no memory may fail without raising an exception, and a module of
Python's own that cannot be loaded may be left out.
"""
_END_S = 10.0
"""Seconds that a process which closed its connection may take to end."""


class ProtocolError(Exception):
    """The received bytes are not a message of a class that the receiver has named."""


class SendTimeoutError(OSError):
    """The other process does not read what it is sent."""


class Channel(Closing):
    """One end of a connection between two processes. Sending is safe from any thread."""

    def __init__(self, connection: Connection, receives: Iterable[type]) -> None:
        """Speak over ``connection``.

        Args:
            connection: is closed with this.
            receives: classes of the messages that may arrive.
        """
        self._connection = connection
        self._sending = threading.Lock()
        self.is_cut = False
        """Whether a message was sent in part only, so that the other end can read no more."""
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {
            kind.__name__: msgspec.msgpack.Decoder(kind, dec_hook=_read) for kind in receives
        }

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            OSError: the other process is gone.
            OverflowError: a number in it has more than 64 bits.
            SendTimeoutError: it has received nothing within the time of ``bound``.
        """
        kind = type(message).__name__
        try:
            data = _ENCODER.encode((kind, message))
        except UnicodeEncodeError:
            # Undecodable bytes of a name or an argument have no UTF-8.
            plain = msgspec.to_builtins(message, builtin_types=(bytes,), enc_hook=_plain)
            data = _ENCODER.encode((kind, _encodable(plain)))
        with self._sending:
            if self.is_cut:
                raise SendTimeoutError
            try:
                self._connection.send_bytes(data)
            except BlockingIOError:
                self.is_cut = True
                raise SendTimeoutError from None

    def bound(self, timeout_s: float) -> None:
        """Limit the time for sending a message, and for receiving the rest of one that has begun.

        The other process may stop within a message, which ``poll`` does not notice.
        """
        end = socket.socket(fileno=os.dup(self._connection.fileno()))
        with end:
            value = struct.pack("ll", int(timeout_s), 0)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)

    def poll(self, timeout_s: float) -> bool:
        """Wait for a message, or the end of the other process; False if the time ran out."""
        return self._connection.poll(timeout_s)

    def receive(self) -> Any:  # noqa: ANN401 - one of the classes that were named
        """Wait for the next message.

        Raises:
            EOFError: the other process is gone, or this end is closed.
            ProtocolError: it is not of a class that this end receives. After an unreadable one,
                this end is closed, since its rest would be read as the next message.
        """
        if self._connection.closed:
            raise EOFError("the connection is closed")
        try:
            data = self._connection.recv_bytes(MOST_BYTES)
        except ConnectionError as error:
            raise EOFError(str(error)) from None
        except OSError as error:
            self._connection.close()
            raise ProtocolError(f"a message cannot be read: {error}") from None
        try:
            kind, fields = _ENVELOPE.decode(data)
            return self._decoders[kind].decode(fields)
        except KeyError as error:
            raise ProtocolError(f"a message of the unknown kind {error}") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise ProtocolError(f"a message cannot be understood: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Child(Closing):
    """A process that runs a module of this program, with a channel to it.

    It writes to its own log in place of the terminal, gets no Ctrl-C, and ends with this process,
    however that ends.
    """

    def __init__(
        self,
        module: str,
        receives: Iterable[type],
        arguments: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            module: its name; its ``main`` calls ``parent_channel``.
            receives: classes of the messages that it may send.
            arguments: stand in its ``sys.argv`` from 2 on.
            variables: of its environment, besides this process's.
        """
        own_end, child_end = Pipe()
        self.channel = Channel(own_end, receives)
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        number = child_end.fileno()
        # -P: what lies in the working folder is not imported.
        command = [sys.executable, "-P", "-m", module, str(number), *arguments]
        with child_end:
            self._process = subprocess.Popen(  # noqa: S603 - this very program, without a shell
                command,
                # Held open and never written to: the child ends when it is closed.
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(number,),
                start_new_session=True,
                env={**environment_without_secrets(), **(variables or {})},
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def end(self) -> str:
        """Wait for the end of a process that closed its connection; return how it ended.

        Returns:
            The name of the signal, or ``exit code N``.
        """
        try:
            # The connection breaks a moment before the process is gone.
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def last_words(self) -> str:
        """The last line of its log, "none" if there is none."""
        return next(reversed(self._last_lines()), "none")

    def out_of_memory_line(self) -> str | None:
        """The last of its final log lines that shows that memory ran out; None without any."""
        return next(filter(is_out_of_memory, reversed(self._last_lines())), None)

    def _last_lines(self) -> list[str]:
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(end - _LAST_WORDS_BYTES, 0))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def close(self) -> None:
        """Kill it: it has nothing to keep. May be called again."""
        self._process.kill()
        # A process in a hanging driver or disk access ends only once that returns.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.channel.close()
        self._stderr.close()


def is_out_of_memory(words: str) -> bool:
    """Whether a message of a process, or of an exception, shows that memory ran out."""
    return _NO_MEMORY.search(words) is not None


def parent_channel(receives: Iterable[type]) -> Channel:
    """The child's end of the channel; from now on this process ends with its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return Channel(Connection(int(sys.argv[1])), receives)


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open as long as it lives."""
    os.read(0, 1)
    os._exit(0)


def _plain(value: object) -> object:
    """Encode a value of a type that MessagePack lacks."""
    match value:
        case Path():
            # A name need not be valid UTF-8.
            return os.fsencode(value)
        case SpectuiError():
            words = [_bytes(str(one)) for one in value.args]
            notes = [_bytes(one) for one in getattr(value, "__notes__", ())]
            return (type(value).__name__, words, notes)
        case _:
            raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def _bytes(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        # Half of a surrogate pair, as JSON may spell it.
        return text.encode(errors="replace")


def _encodable(plain: object) -> object:
    """Plain values, with ``?`` for what has no UTF-8, as ``Vocabulary.tokenize`` has it."""
    match plain:
        case str():
            return plain.encode(errors="replace").decode()
        case dict():
            return {_encodable(key): _encodable(value) for key, value in plain.items()}
        case list() | tuple():
            return [_encodable(one) for one in plain]
        case _:
            return plain


def _read(kind: type, value: Any) -> object:  # noqa: ANN401 - what `_plain` returns
    if issubclass(kind, Path):
        return Path(os.fsdecode(value))
    if issubclass(kind, SpectuiError):
        name, words, notes = msgspec.convert(value, tuple[str, list[bytes], list[bytes]])
        known = getattr(errors, name, None)
        if not (isinstance(known, type) and issubclass(known, SpectuiError)):
            known = SpectuiError
        # Without its constructor, which may add words to the reason that these contain already.
        error: SpectuiError = known.__new__(known, *map(os.fsdecode, words))
        for note in notes:
            error.add_note(os.fsdecode(note))
        return error
    raise NotImplementedError(f"{kind.__name__} cannot be received")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_ENVELOPE = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
