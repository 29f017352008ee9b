"""Options of click: from ``spectui.options``, and from the fields of a command's request."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import click

from spectui.cli.given import Given
from spectui.cli.help import Command, CommandOption, Examples
from spectui.options.number import Number
from spectui.options.option import (
    INT_MAX,
    Decimal,
    File,
    Lengths,
    Option,
    Seconds,
    Switch,
    Text,
    Values,
    Whole,
    Words,
)
from spectui.options.reading import read_value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

HELP_NAMES = ["-h", "--help"]
"""Names of the help option; click remembers those of a command's first context."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Described:
    """An option or an argument of a command."""

    flags: tuple[str, ...]
    """Empty for an argument."""
    attributes: Mapping[str, Any]
    """As click takes them."""
    name: str | None = None
    """Of its parameter; None for the name of its flag."""

    def named(self, name: str) -> "Described":
        """The same with the name of a field."""
        return replace(self, name=name)

    def under(self, subject: str) -> "Described":
        """The same under a subject of the help."""
        return replace(self, attributes={**self.attributes, "subject": subject})

    def parameter(self) -> click.Parameter:
        """The parameter of a new command."""
        attributes = dict(self.attributes)
        names = [*self.flags, *([] if self.name is None else [self.name])]
        kind = attributes.pop("cls", CommandOption if self.flags else click.Argument)
        made: click.Parameter = kind(names, **attributes)
        return made


def click_type(values: Values) -> click.ParamType[Any] | None:
    """The click type that parses a value; None for a switch."""
    match values:
        case Words(words=words):
            return click.Choice(words)
        case File():
            return click.Path(path_type=Path)
        case Text():
            return click.STRING
        case Switch():
            return None
        case _:
            return Value(values)


def click_option(option: Option) -> Described:
    """The option, under all of its names."""
    attributes: dict[str, Any] = {"help": option.help or None}
    if option.is_switch:
        return Described(option.flags, {**attributes, "is_flag": True}, option.parameter)
    is_shown = option.shows_default and option.default is not None
    attributes |= {
        "type": click_type(option.values),
        # Click offers the names of an enumeration's members, not what they stand for.
        "default": str(option.default) if isinstance(option.default, StrEnum) else option.default,
        "show_default": is_shown and not _says_default(option.help),
        "multiple": option.repeats,
        "metavar": option.metavar or _metavar(option.values),
    }
    return Described(option.flags, attributes, option.parameter)


def listed(described: Option | Number, *, means: str = "", help_text: str = "") -> Described:
    """The option with a list of values.

    Args:
        described: an option that takes a number.
        means: meaning of the default; empty for llama-server's default.
        help_text: help in place of the option's own.
    """
    stands_for = means or f"{described.default:g}"
    attributes = {
        "type": ListOf(Value(described.values)),
        "default": (),
        "metavar": f"{_metavar(described.values)},...",
        "help": f"{(help_text or described.help)[:-1]} (default: {stands_for}).",
    }
    return Described(described.flags, attributes, described.parameter)


def _says_default(help_text: str) -> bool:
    return "(default" in help_text


def _metavar(values: Values) -> str | None:
    """Name of a number; None for what click names itself."""
    match values:
        case Whole():
            return "N"
        case Decimal(high=1):
            return "P"
        case Decimal():
            return "X"
        case Seconds():
            return "TIME"
        case Lengths():
            return "PROMPT+ANSWER"
        case _:
            return None


def option(
    *flags: str,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    default: object = None,
    help: str = "",  # noqa: A002 - as above
    **attributes: Any,
) -> Any:
    """Describe an option; more as ``click.option`` takes it.

    The help shows the default where it says nothing of one itself.
    """
    if default is not None:
        is_shown = default != () and not _says_default(help)
        attributes |= {"default": default, "show_default": is_shown}
    return Described(flags, {"type": _parsed(type), "help": help, **attributes})


def switch(
    *flags: str,
    default: bool | None = False,
    help: str,  # noqa: A002 - click's name
    **attributes: Any,
) -> Any:
    """Describe an option without a value."""
    shown = {"is_flag": True, "default": default, "show_default": bool(default), "help": help}
    return Described(flags, {**shown, **attributes})


def argument(
    *,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    **attributes: Any,
) -> Any:
    """Describe an argument; more as ``click.argument`` takes it."""
    return Described((), {"type": _parsed(type), **attributes})


def files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem[Any]]":
    """Complete a value that may be a path; the shell finds the files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _parsed(given: Values | click.ParamType[Any] | None) -> click.ParamType[Any] | None:
    return given if isinstance(given, click.ParamType | None) else click_type(given)


_OPTION = "option"


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, switch, argument)
)
def request(kind: type[_T]) -> type[_T]:
    """Make a class a command's request: its fields are the options, its docstring the help.

    A field ``given`` has all that the command was given.
    """
    for name, described in [*vars(kind).items()]:
        if isinstance(described, Described):
            setattr(kind, name, field(metadata={_OPTION: described.named(name)}))
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)


def request_of(kind: type[_T], context: click.Context) -> _T:
    """The request of a command that was parsed."""
    values = {**context.params, "given": Given.of(context)}
    return kind(**{one.name: values[one.name] for one in fields(kind)})  # type: ignore[arg-type]


def request_command(
    kind: type,
    name: str,
    run: str,
    *,
    shared: tuple[Described, ...] = (),
    cls: type[Command] = Command,
    examples: Examples = (),
) -> Command:
    """The command of a request.

    Args:
        kind: class of the request.
        name: the command's.
        run: ``module:function`` of ``spectui.cli`` that takes the request; imported when it runs.
        shared: options that stand before the request's own, and are in ``given`` alone.
        cls: class of the command.
        examples: for its help.
    """

    @click.pass_context
    def command(context: click.Context, /, **_parsed: Any) -> None:
        module, _, function = run.partition(":")
        getattr(import_module(f"spectui.cli.{module}"), function)(request_of(kind, context))

    own = [one.metadata[_OPTION] for one in fields(kind) if one.metadata]
    return cls(
        name=name,
        callback=command,
        params=[one.parameter() for one in (*shared, *own)],
        help=kind.__doc__,
        examples=examples,
    )


class Value(click.ParamType[Any]):
    """A value of an option, parsed as in the commands of llama-server."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.name = _metavar(values) or "N"

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
        parts = (part.strip() for part in str(value).split(","))
        return tuple(dict.fromkeys(self._item.convert(part, param, ctx) for part in parts))
