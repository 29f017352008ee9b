"""What all tests share."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from sqlite3 import Connection
from unittest.mock import patch

import pytest
from alembic.script import ScriptDirectory
from hypothesis import settings
from sqlalchemy import Engine, event

# A suite must not pass or fail by chance; whoever looks for new examples asks for it.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Tests draw a screen when they look at it; what it draws by itself in between costs the most.
os.environ["TEXTUAL_FPS"] = "1"

# Programs under test are started by the hundred: they must not be compiled each time, and nor must
# the tests, whose assertions take longer to rewrite than all of them to be collected.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--renew`` writes the golden files (``tests/golden``) anew."""
    parser.addoption("--renew", action="store_true", help="write the golden files anew")


_SLOW = frozenset(
    {
        "test_cli",
        "test_cli_backend",
        "test_cli_drafts",
        "test_cli_experts",
        "test_cli_export",
        "test_cli_reader",
        "test_cli_takeover",
        "test_cli_trace",
        "test_cli_verify",
        "test_demo",
        "test_doctor",
        "test_engine_recording",
        "test_full_disk",
        "test_live_session",
        "test_mtp_tuning",
        "test_replay",
        "test_sweep_cli",
        "test_sweep_server",
        "test_sweep_summary",
        "test_tui_app",
        "test_tui_attach",
        "test_tui_export",
        "test_tui_live",
        "test_tui_picker",
        "test_tui_settings",
        "test_tui_snapshots",
        "test_tui_terminal",
        "test_tui_tune",
        "test_tui_whatif",
        "test_tui_whatif_mtp",
        "test_tune",
    }
)
"""Whole screens, searches and commands: a fifth of all tests, and most of their time."""


_SLOW_FOLDERS = frozenset({"golden", "tui"})
"""Folders of such modules."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the quick round leaves out, and give real models their time."""
    tests = Path(__file__).parent
    for item in items:
        folders = item.path.relative_to(tests).parts
        is_real = item.get_closest_marker("models") is not None
        if is_real:
            item.add_marker(pytest.mark.timeout(900))
        if is_real or item.path.stem in _SLOW or not _SLOW_FOLDERS.isdisjoint(folders):
            item.add_marker(pytest.mark.slow)


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection: object, _record: object) -> None:
    """Studies of tests need not outlast a power cut: half of their time went into such waits."""
    if isinstance(connection, Connection):
        with closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA synchronous=OFF")


@pytest.fixture(scope="session", autouse=True)
def _read_the_versions_of_storages_once() -> Iterator[None]:
    """Opening a storage loads fifteen modules of older schemas, which are never let go of."""
    read = cache(ScriptDirectory)
    with patch.object(
        ScriptDirectory,
        "from_config",
        lambda config: read(config.get_main_option("script_location")),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def _look_for_garbage_less_often() -> None:
    """Every screen is thousands of objects in cycles: looking for them took a third of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _programs_start_with_default_signals() -> None:
    """Let programs under test be ended by signals that this process was started to ignore.

    ``nohup`` and background shells ignore some, and a new program inherits that. A handler it does
    not inherit, and this process still ignores what it was told to ignore.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing."""
