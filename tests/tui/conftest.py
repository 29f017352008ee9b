"""What tests of screens share."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cockpit import without_idle_work


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines, each in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in named}))
    return True


@pytest.fixture(autouse=True)
def _without_idle_work() -> Iterator[None]:
    with without_idle_work():
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's settings and sessions, and nobody's colours: they are in every picture."""
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    for name in ("NO_COLOR", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
