"""The machine of the tests of commands: nobody else is busy on it."""

import pytest

from tests.support.machine import QUIET, seen_by_watches


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, QUIET)
