"""The command line run in this process."""

import signal
import sys

import pytest

from spectui.cli import main

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
