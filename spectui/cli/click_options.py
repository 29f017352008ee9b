"""Options of click: from ``spectui.options``, and from the fields of a command's request."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

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
        show_default=option.shows_default and option.default is not None,
        multiple=option.repeats,
        metavar=option.metavar or _metavar(option.values),
        help=option.help or None,
    )


def number_option(number: Number) -> Decorator:
    """The option of a drafter's number."""
    return click.option(
        *number.flags,
        number.parameter,
        type=click_type(number.values),
        default=number.default,
        show_default=True,
        metavar=_metavar(number.values),
        help=number.help,
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
    """An option or an argument in the annotation of a request's field."""

    flags: tuple[str, ...]
    """None for an argument."""
    attributes: Mapping[str, Any]
    """As click takes them, without the default, which is the field's."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Add an option, under the name of its flag, to a command that has no request."""
        return click.option(*self.flags, **self.attributes)(function)

    def named(self, name: str, default: object) -> Decorator:
        """The option or argument of a field; the default is ``MISSING`` where one has to be given.

        Args:
            name: the field's.
            default: the field's.
        """
        given = {} if default is MISSING else {"default": default, "required": False}
        if not self.flags:
            return click.argument(name, **{**given, **self.attributes})
        return click.option(*self.flags, name, **{**given, **self.attributes})


def option(*flags: str, **attributes: Any) -> Described:
    """Describe an option, as ``click.option`` does, without its name and default."""
    return Described(flags, attributes)


def argument(**attributes: Any) -> Described:
    """Describe an argument, as ``click.argument`` does, without its name and default."""
    return Described((), attributes)


def options_of(request: type) -> tuple[Decorator, ...]:
    """The options of a request's fields, in their order; fields without one are passed over."""
    hints = get_type_hints(request, include_extras=True)
    return tuple(
        described.named(field.name, field.default)
        for field in fields(request)
        for described in get_args(hints[field.name])
        if isinstance(described, Described)
    )


def request_of(request: type[_T], context: click.Context) -> _T:
    """The request of a command that was parsed."""
    values = {**context.params, "given": Given.of(context)}
    return request(**{field.name: values[field.name] for field in fields(request)})  # type: ignore[arg-type]


def request_command(
    request: type,
    name: str,
    run: str,
    *,
    shared: tuple[Decorator, ...] = (),
    cls: type[Command] = Command,
    examples: Examples = (),
) -> Command:
    """The command of a request: fields are its options, the docstring is its help.

    Args:
        request: a dataclass. What a field ``given`` has is all that the command was given.
        name: the command's.
        run: ``module:function`` of ``spectui.cli`` that takes the request; imported when it runs.
        shared: options that stand before its own, and are in ``given`` alone.
        cls: class of the command.
        examples: for its help.
    """

    @click.pass_context
    def command(context: click.Context, /, **_parsed: Any) -> None:
        module, _, function = run.partition(":")
        getattr(import_module(f"spectui.cli.{module}"), function)(request_of(request, context))

    command.__doc__ = request.__doc__
    made = add_options(*shared, *options_of(request))(command)
    found: Command = click.command(name=name, cls=cls, examples=examples)(made)
    return found


def add_options(*options: Decorator) -> Decorator:
    """Add ``options`` in the order in which ``--help`` lists them."""
    return lambda function: reduce(lambda f, one: one(f), reversed(options), function)
