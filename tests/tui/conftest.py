"""What tests of screens share."""

from collections.abc import Iterator

import pytest

from tests.support.cockpit import without_idle_work


@pytest.fixture(autouse=True)
def _without_idle_work() -> Iterator[None]:
    with without_idle_work():
        yield
