"""Results as JSON documents: fields by their names, and a reason beside each unknown value."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from spectui import __version__
from spectui.errors import CancelledError

Json = dict[str, Any]
T = TypeVar("T")


class Known(msgspec.Struct, Generic[T], frozen=True):
    """A value, or the reason why it is missing. A missing value is never a zero."""

    value: T | None
    reason: str | None = None
    """Why there is no value; None where there is one."""


def head(kind: str) -> Json:
    """Fields at the start of every document: its schema, and the version that wrote it."""
    return {"schema": f"spectui.{kind}/1", "spectui": __version__}


def or_reason(name: str, value: object, reason: str) -> Json:
    """A value, or null with its sibling ``<name>_reason``: that of a ``Known``, else ``reason``."""
    if isinstance(value, Known):
        return or_reason(name, value.value, value.reason or reason)
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}


def known(
    name: str, found: Known[T], document: Callable[[T], object] | None = None, reason: str = ""
) -> Json:
    """A value with its document, several of them, or null with its reason.

    Args:
        name: of the field.
        found: the value.
        document: encodes it; None for its own ``document()``.
        reason: reason for a missing value that has none itself.
    """
    content = None if found.value is None else (document or _own_document)(found.value)
    return or_reason(name, content, found.reason or reason)


def _own_document(value: Any) -> object:  # noqa: ANN401 - has a document, or those in it
    return [one.document() for one in value] if isinstance(value, tuple) else value.document()


def fields_of(source: object, reason: str, *names: str) -> Json:
    """The named attributes, encoded; ``reason`` is for missing ones that have none themselves."""
    found: Json = {}
    for name in names:
        one = getattr(source, name)
        reasoned = one if isinstance(one, Known) else Known(one, reason)
        found |= known(name, reasoned, encoded, reason)
    return found


def encoded(value: object) -> Any:  # noqa: ANN401 - what JSON holds
    """A value of plain types or of classes of fields, which keep their names; paths are text."""
    return msgspec.to_builtins(value, enc_hook=str)


def ending(ended: BaseException | None) -> Json:
    """Whether a measurement was interrupted, or which error ended it."""
    interrupted = isinstance(ended, KeyboardInterrupt | CancelledError)
    error = None if ended is None or interrupted else str(ended)
    return {"interrupted": interrupted, "error": error}
