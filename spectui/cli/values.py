"""Kinds of values that options take, besides click's own."""

import re
from typing import TYPE_CHECKING, Any

import click

from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    ONLY_BY_SERVER,
    THROUGH_SERVER,
)
from spectui.options.option import INT_MAX, Decimal, Values, Whole
from spectui.options.reading import read_value
from spectui.options.request import RequestShape

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Value(click.ParamType[Any]):
    """A value of an option, parsed as in the commands of llama-server."""

    name = "N"

    def __init__(self, values: Values) -> None:
        self.values = values

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Parse, or fail with what is accepted."""
        try:
            return read_value(self.values, str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def range_text(parsed: click.ParamType[Any]) -> str:
    """A range, such as ``0 to 1``; empty where it only says that a number counts something."""
    match parsed:
        case Value(values=Whole(low=low, high=high) | Decimal(low=low, high=high)):
            if high is None or high >= INT_MAX:
                return "" if low in {0, 1} else f"at least {low}"
            return f"{low} to {high}"
    return ""


class DrafterKind(click.Choice[str]):
    """A drafter's kind by llama-server's name; kinds that cannot run here fail with a reason."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Parse, or fail with what is accepted."""
        if value in HIDDEN_STATE_KINDS and value not in self.choices:
            told = f"{value}: {ONLY_BY_SERVER}; {THROUGH_SERVER}, or name one of {self._names()}"
            self.fail(told, param, ctx)
        if value == "none":
            told = "none is no drafter; the target alone is measured beside every setting, and "
            told += f"the screen runs it without -md; name one of {self._names()}"
            self.fail(told, param, ctx)
        if value == MTP_KIND and MTP_KIND not in self.choices:
            stands = f"{MODEL_KIND} stands for whoever the trace recorded, MTP layers included"
            self.fail(f"{value}: {stands}; name one of {self._names()}", param, ctx)
        return str(super().convert(value, param, ctx))

    def _names(self) -> str:
        return ", ".join(map(str, self.choices))


class ListOf(click.ParamType[tuple[Any, ...]]):
    """A comma-separated list of values of another type, without duplicates."""

    def __init__(self, item: click.ParamType[Any]) -> None:
        self._item = item
        self.name = f"{item.name},..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Parse every item, or fail with what is accepted."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            told = "is empty" if len(parts) == 1 else "has an empty place"
            self.fail(f"{value!r} {told}; write {self._wanted()}", param, ctx)
        return tuple(dict.fromkeys(self._item.convert(part, param, ctx) for part in parts))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[Any]]":
        """Complete the last item."""
        from click.shell_completion import CompletionItem

        head, comma, last = incomplete.rpartition(",")
        items = self._item.shell_complete(ctx, param, last)
        return [CompletionItem(f"{head}{comma}{item.value}", help=item.help) for item in items]

    def _wanted(self) -> str:
        if isinstance(self._item, click.Choice):
            return f"one or more of {', '.join(self._item.choices)}, with commas between them"
        is_decimal = isinstance(self._item, Value) and isinstance(self._item.values, Decimal)
        example = "0,0.5" if is_decimal else "1,2,3"
        return f"numbers with commas between them, such as {example}"


class RequestLengths(click.ParamType[RequestShape]):
    """Lengths of a request in tokens: ``4096+512`` for the prompt and the answer."""

    name = "PROMPT+ANSWER"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> RequestShape:
        """Parse, or fail with what is accepted."""
        if isinstance(value, RequestShape):
            return value
        match = re.fullmatch(r"\s*(\d{1,9})\s*\+\s*(\d{1,9})\s*", str(value))
        if match is None:
            told = "write the tokens of prompt and answer, such as 4096+512"
            self.fail(f"{value!r} is no request; {told}", param, ctx)
        shape = RequestShape(n_prompt=int(match[1]), n_answer=int(match[2]))
        if shape.n_prompt < 1 or shape.n_answer < _FEWEST_OF_ANSWER:
            told = f"a prompt has 1 token at least, and an answer {_FEWEST_OF_ANSWER}"
            self.fail(f"{value!r}: {told}, since the first comes with the prompt", param, ctx)
        return shape


_FEWEST_OF_ANSWER = 2
_LONGEST = 1e9
_UNIT_S = {"h": 3600, "m": 60, "s": 1}
_NUMBER = r"\d+(?:\.\d+)?"
_PARTS = re.compile(
    rf"(?:(?P<h>{_NUMBER})\s*hr?)?\s*(?:(?P<m>{_NUMBER})\s*m(?:in)?)?\s*"
    rf"(?:(?P<s>{_NUMBER})\s*s(?:ec)?)?"
)


class Duration(click.ParamType[float]):
    """A duration in seconds, written as ``90s``, ``2m30s`` or ``2h``: 2 alone may mean minutes."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse, or fail with what is accepted."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        if re.fullmatch(_NUMBER, text) and 0 < float(text) <= _LONGEST:
            told = f"{value!r} has no unit; write {text}s, {text}m or {text}h"
            self.fail(told, param, ctx)
        match = _PARTS.fullmatch(text)
        given = {} if match is None else {k: float(v) for k, v in match.groupdict("0").items()}
        seconds = sum(number * _UNIT_S[unit] for unit, number in given.items())
        if not seconds or max(given.values()) > _LONGEST:
            self.fail(f"{value!r} is no duration; write 90s, 30m, 2h or 2m30s", param, ctx)
        return seconds


DURATION = Duration()
