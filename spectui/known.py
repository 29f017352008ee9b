"""A value, or the reason why there is none."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Known(msgspec.Struct, Generic[T], frozen=True):
    """A value, or the reason why it is missing. A missing value is never a zero."""

    value: T | None
    reason: str | None = None
    """Why there is no value; None where there is one."""
