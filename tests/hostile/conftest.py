"""What the hostile tests share."""

from collections.abc import Iterator

import pytest

from tests.hostile.attempts import Prompt


@pytest.fixture(scope="module")
def run() -> Iterator[Prompt]:
    prompt = Prompt()
    yield prompt
    prompt.close()
