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

from spectui.llama.search import LIBRARY_VARIABLE
from tools.build_llama_server import builds

# A suite must not pass or fail by chance; whoever looks for new examples asks for it.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Tests draw a screen when they look at it; what it draws by itself in between costs the most.
os.environ["TEXTUAL_FPS"] = "1"

# What is held against the llama-server that is built here is run by its library.
if (_server := builds(os.environ) / "server").is_dir():
    os.environ.setdefault(LIBRARY_VARIABLE, str(_server))

# Programs under test are started by the hundred: they must not be compiled each time, and nor must
# the tests, whose assertions take longer to rewrite than all of them to be collected.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--renew`` writes the golden files (``tests/golden``) anew."""
    parser.addoption("--renew", action="store_true", help="write the golden files anew")


_SLOW_FOLDERS = frozenset({"cli", "devices", "docs", "golden", "hostile", "tui"})
"""Whole screens and commands."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the quick round leaves out, and give real models their time."""
    tests = Path(__file__).parent
    for item in items:
        folders = item.path.relative_to(tests).parts
        marked = {mark.name for mark in item.iter_markers()}
        if "models" in marked:
            item.add_marker(pytest.mark.timeout(900))
        if "long" in marked:
            item.add_marker(pytest.mark.ci)
        if marked & {"models", "ci", "long"} or not _SLOW_FOLDERS.isdisjoint(folders):
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
def _libraries_use_the_whole_processor() -> Iterator[None]:
    """Else what is said of a result would depend on the processor that the tests run on."""
    with patch("spectui.llama.native.wide_features", tuple):
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


@pytest.fixture(scope="session", autouse=True)
def _no_server_of_the_machine() -> Iterator[None]:
    """What is said of a command must not depend on the llama-servers that run or are installed."""
    with patch("spectui.cli.from_command.find_servers", lambda: ()):
        yield
