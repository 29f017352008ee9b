"""Which round of tests runs what."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_alone(values: Iterable[object]) -> list[Any]:
    """Parameters of a test, of which only the first is not for the long round."""
    first, *others = values
    return [first, *(pytest.param(other, marks=pytest.mark.long) for other in others)]
