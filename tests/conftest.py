"""What all tests share."""

from contextlib import closing
from sqlite3 import Connection

import pytest
from sqlalchemy import Engine, event


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--renew`` writes the golden files (``tests/golden``) anew."""
    parser.addoption("--renew", action="store_true", help="write the golden files anew")


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection: object, _record: object) -> None:
    """Studies of tests need not outlast a power cut: half of their time went into such waits."""
    if isinstance(connection, Connection):
        with closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA synchronous=OFF")
