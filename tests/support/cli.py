"""The command line run in this process."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from spectui.cli import main
from tests.support.machine import QUIET, seen_by_watches
from tests.support.scripted_server import LAST_WORDS


@contextmanager
def signals_kept() -> Iterator[None]:
    """Let a command's handlers of signals be gone behind it."""
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


PROMPTS = [
    '{"id": "a", "category": "x", "prompt": "the rain on the other tin ring"}',
    '{"id": "b", "category": "x", "prompt": "one to the other, then on"}',
    '{"id": "c", "category": "y", "messages": [{"role": "user", "content": "there?"}]}',
    '{"id": "d", "category": "y", "prompt": "all in one ring"}',
    '{"id": "e", "category": "y", "prompt": "hello there"}',
    '{"id": "f", "category": "x", "prompt": "in the tin on the ring"}',
]
"""Six short ones."""


class Spectui:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.delenv("COLUMNS", raising=False)
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._monkeypatch.setattr(sys, "argv", ["spectui", *map(str, arguments)])
        with signals_kept(), pytest.raises(SystemExit) as caught:
            main()
        self.out, self.err = self._capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A search that has ended: what it said, its document, and the folder that keeps its study."""

    out: str
    err: str
    document: dict[str, Any]
    data: Path
    prompts: Path


def done(home: Path, *arguments: object) -> tuple[str, str]:
    """Run a command that succeeds, apart from a test; what it wrote to stdout and stderr."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        seen_by_watches(patch, QUIET)
        patch.setenv("SPECTUI_HOME", str(home))
        patch.setattr(sys, "argv", ["spectui", *map(str, arguments)])
        with signals_kept(), pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == 0, err.getvalue()
    return out.getvalue(), err.getvalue()


def searched(folder: Path, prompts: Path, *arguments: object) -> Searched:
    """Run ``spectui tune``, apart from a test."""
    home, path = folder / "home", folder / "tune.json"
    out, err = done(home, "tune", *arguments, "--prompts", prompts, "--json", path)
    document = json.loads(path.read_text("utf-8"))
    return Searched(out=out, err=err, document=document, data=home / "data", prompts=prompts)


class Run:
    """Runs commands of the same models and prompts."""

    def __init__(self, spectui: Spectui, options: list[object]) -> None:
        self._spectui = spectui
        self._options = options

    def __call__(self, command: str, *more: object) -> int:
        return self._spectui(command, *self._options, *more)

    def document(self, command: str, *more: object) -> dict[str, Any]:
        assert self(command, "--json", "-", *more) == 0, self._spectui.err
        document: dict[str, Any] = json.loads(self._spectui.out)
        return document


def assert_failed(spectui: Spectui, out: Path, *, message: str, shown: int) -> None:
    """A server's failure is told with its last words, and costs nothing that was measured."""
    assert message in spectui.err
    assert LAST_WORDS in spectui.err
    assert out.exists() is (shown > 0)
    if shown:
        document = json.loads(out.read_text())
        assert document["interrupted"] is False
        assert message in document["error"]
        assert [one["id"] for one in document["prompts"]] == ["a", "b"][:shown]
