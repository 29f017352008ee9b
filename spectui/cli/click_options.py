"""Converts options of ``spectui.options`` into click options."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from spectui.cli.given import WORDS
from spectui.cli.help import Command
from spectui.cli.removed import removed_refused
from spectui.cli.values import ListOf, Value
from spectui.options.number import Number
from spectui.options.option import Decimal, File, Option, Switch, Text, Values, Whole, Words

HELP_NAMES = ["-h", "--help"]
"""Names of the help option; click remembers those of a command's first context."""
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


class Repeatable(Command):
    """A command whose options another one can repeat: it keeps their words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words, and parse them."""
        with removed_refused(ctx):
            ctx.meta[WORDS], _, _ = self.make_parser(ctx).parse_args(args=list(args))
        return super().parse_args(ctx, args)

    def words(self, given: Mapping[str, Any]) -> list[str]:
        """Command line that gives ``given``, as ``Given.words`` has it; the rest is passed over."""
        found: list[str] = []
        for parameter in self.params:
            value = given.get(parameter.name or "")
            if not isinstance(parameter, click.Option) or value is None:
                continue
            if parameter.is_flag:
                names = parameter.opts if value is True else parameter.secondary_opts
                found += names[-1:]
                continue
            for one in value if isinstance(value, list) else [value]:
                found += [parameter.opts[0], str(one)]
        return found
