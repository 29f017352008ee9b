"""Options of click: from ``spectui.options``, and from the fields of a command's request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import click

from spectui.cli.given import Given
from spectui.cli.help import Command, Examples
from spectui.cli.values import ListOf, Value
from spectui.options.number import Number
from spectui.options.option import Decimal, File, Option, Switch, Text, Values, Whole, Words

HELP_NAMES = ["-h", "--help"]
"""Names of the help option; click remembers those of a command's first context."""
_T = TypeVar("_T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


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


def click_option(option: Option) -> Decorator:
    """The option, under all of its names."""
    if option.is_switch:
        return click.option(*option.flags, option.parameter, is_flag=True, help=option.help)
    return click.option(
        *option.flags,
        option.parameter,
        type=click_type(option.values),
        # Click offers the names of an enumeration's members, not what they stand for.
        default=str(option.default) if isinstance(option.default, StrEnum) else option.default,
        show_default=option.shows_default
        and option.default is not None
        and not _says_default(option.help),
        multiple=option.repeats,
        metavar=option.metavar or _metavar(option.values),
        help=option.help or None,
    )


def listed(
    described: Option | Number,
    *,
    default: tuple[float, ...] | None = (),
    means: str = "",
    help_text: str = "",
) -> Decorator:
    """The option with a list of values.

    Args:
        described: an option that takes a number.
        default: values where the option is not given.
        means: meaning of the default; empty for llama-server's default.
        help_text: help in place of the option's own.
    """
    parse = click_type(described.values)
    assert parse is not None  # noqa: S101 - a switch is no list
    stands_for = means or f"{described.default:g}"
    return click.option(
        *described.flags,
        described.parameter,
        type=ListOf(parse),
        default=default,
        metavar=f"{_metavar(described.values)},...",
        help=f"{(help_text or described.help)[:-1]} (default: {stands_for}).",
    )


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
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Described:
    """An option or an argument of a request's field."""

    flags: tuple[str, ...]
    """None for an argument."""
    attributes: Mapping[str, Any]
    """As click takes them."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Add an option to a command, under the name of its flag."""
        return click.option(*self.flags, **self.attributes)(function)

    def named(self, name: str) -> Decorator:
        """The option or argument of a field."""
        if self.flags:
            return click.option(*self.flags, name, **self.attributes)
        return click.argument(name, **self.attributes)


def option(
    *flags: str,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    default: object = None,
    help: str = "",  # noqa: A002 - as above
    **attributes: Any,
) -> Any:
    """Describe an option of a request's field; more as ``click.option`` takes it.

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
) -> Any:
    """Describe an option without a value."""
    attributes = {"is_flag": True, "default": default, "show_default": bool(default)}
    return Described(flags, {"help": help, **attributes})


def argument(
    *,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    **attributes: Any,
) -> Any:
    """Describe an argument of a request's field; more as ``click.argument`` takes it."""
    return Described((), {"type": _parsed(type), **attributes})


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
            setattr(kind, name, field(metadata={_OPTION: described}))
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
    shared: tuple[Decorator, ...] = (),
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

    command.__doc__ = kind.__doc__
    own = [one.metadata[_OPTION].named(one.name) for one in fields(kind) if one.metadata]
    found: Command = click.command(name=name, cls=cls, examples=examples)(
        add_options(*shared, *own)(command)
    )
    return found


def add_options(*options: Decorator) -> Decorator:
    """Add ``options`` in the order in which ``--help`` lists them."""
    return lambda function: reduce(lambda f, one: one(f), reversed(options), function)
