"""Asks a program one question on its command line, and is not held up by what it does then."""

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

from spectui.errors import ServerError
from spectui.server.kept import KeptProcess, last_words

MAX_OUTPUT_BYTES = 1 << 20
"""Twenty times what llama-server has to say."""
_AT_ONCE_BYTES = 1 << 16
_OVERRIDES = "LLAMA_ARG_"
"""Variables with which a user sets llama-server up: a bad one would be all that it talks about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program printed, and how it ended."""

    output: bytes
    """Of stdout and stderr, as they came."""
    code: int
    """Less than 0 for the signal that ended it."""
    took_s: float

    @property
    def text(self) -> str:
        """The output; what is no UTF-8 is replaced."""
        return self.output.decode("utf-8", "replace")


def ask(program: Path, argument: str, timeout_s: float) -> Answer:
    """Run ``program argument`` to its end.

    Raises:
        ServerError: it cannot be started, does not end in time, or prints without end.
    """
    asked_s = time.monotonic()
    deadline_s = asked_s + timeout_s
    reading, theirs = os.pipe()
    try:
        try:
            environment = {k: v for k, v in os.environ.items() if not k.startswith(_OVERRIDES)}
            process = KeptProcess(
                [str(program), argument], output=theirs, grace_s=0.0, environment=environment
            )
        finally:
            os.close(theirs)
        with process:
            output = _read(reading, deadline_s)
            if len(output) > MAX_OUTPUT_BYTES:
                what = f"printed more than {MAX_OUTPUT_BYTES} bytes"
                raise _unanswered(program, argument, what, output)
            code = process.wait(max(deadline_s - time.monotonic(), 0.0))
    finally:
        os.close(reading)
    if code is None:
        # What is left of the time for several questions is no round number.
        shown = f"{timeout_s:.0f}" if timeout_s > 1 else f"{timeout_s:.2g}"
        raise _unanswered(program, argument, f"did not end within {shown} s", output)
    return Answer(output=output, code=code, took_s=time.monotonic() - asked_s)


def _read(pipe: int, deadline_s: float) -> bytes:
    """All until its end, until the deadline, or until it is too much."""
    output = bytearray()
    while len(output) <= MAX_OUTPUT_BYTES:
        ready, _, _ = select.select([pipe], [], [], max(deadline_s - time.monotonic(), 0.0))
        data = os.read(pipe, _AT_ONCE_BYTES) if ready else b""
        if not data:
            break
        output += data
    return bytes(output)


def _unanswered(program: Path, argument: str, what: str, output: bytes) -> ServerError:
    return ServerError(
        f"{program} {argument} {what}; {last_words(output)}; give the path of "
        "a llama-server that runs"
    )
