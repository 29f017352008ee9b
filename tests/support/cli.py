"""The command line run in this process."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from spectui.cli import main
from tests.support.scripted_server import LAST_WORDS

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Spectui:
    """Runs the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.delenv("COLUMNS", raising=False)
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._monkeypatch.setattr(sys, "argv", ["spectui", *map(str, arguments)])
        before = {number: signal.getsignal(number) for number in _HANDLED}
        try:
            with pytest.raises(SystemExit) as caught:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.out, self.err = self._capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code


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
