"""Options of click: from ``spectui.options``, and from the fields of a command's request."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import click

from spectui.cli.given import Given
from spectui.cli.help import OWN, Command, CommandOption, Examples
from spectui.options.option import INT_MAX, Decimal, Form, Number, Option, Values, Whole
from spectui.options.reading import read_value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

HELP_NAMES = ["-h", "--help"]
"""Names of the help option; click remembers those of a command's first context."""
_T = TypeVar("_T")


def click_type(values: Values) -> click.ParamType[Any] | None:
    """The click type that parses a value; None for a switch."""
    match values:
        case tuple() as words:
            return click.Choice(words)
        case Form.FILE:
            return click.Path(path_type=Path)
        case Form.TEXT:
            return click.STRING
        case Form.SWITCH:
            return None
        case _:
            return Value(values)


def click_option(option: Option, subject: str) -> CommandOption:
    """The option, under all of its names and a subject of the help."""
    names = (*option.flags, option.parameter)
    if option.is_switch:
        return CommandOption(names, help=option.help, is_flag=True, subject=subject)
    is_shown = option.shows_default and option.default is not None
    return CommandOption(
        names,
        type=click_type(option.values),
        # Click offers the names of an enumeration's members, not what they stand for.
        default=str(option.default) if isinstance(option.default, StrEnum) else option.default,
        show_default=is_shown and not _says_default(option.help),
        multiple=option.repeats,
        metavar=option.metavar or _metavar(option.values),
        help=option.help,
        subject=subject,
    )


def listed(
    described: Option | Number, *, subject: str = OWN, means: str = "", help_text: str = ""
) -> CommandOption:
    """The option with a list of values.

    Args:
        described: an option that takes a number.
        subject: of the help.
        means: meaning of the default; empty for llama-server's default.
        help_text: help in place of the option's own.
    """
    stands_for = means or f"{described.default:g}"
    return CommandOption(
        (*described.flags, described.parameter),
        type=ListOf(Value(described.values)),
        default=(),
        metavar=f"{_metavar(described.values)},...",
        help=f"{(help_text or described.help)[:-1]} (default: {stands_for}).",
        subject=subject,
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
        case Form.SECONDS:
            return "TIME"
        case Form.LENGTHS:
            return "PROMPT+ANSWER"
        case _:
            return None


def option(
    *flags: str,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    default: object = None,
    help: str = "",  # noqa: A002 - as above
    cls: type[CommandOption] = CommandOption,
    **attributes: Any,
) -> Any:
    """Describe an option; more as ``CommandOption`` takes it.

    The help shows the default where it says nothing of one itself.
    """
    if default is not None:
        is_shown = default != () and not _says_default(help)
        attributes |= {"default": default, "show_default": is_shown}
    return cls(flags, type=_parsed(type), help=help, **attributes)


def switch(*flags: str, default: bool = False, **attributes: Any) -> Any:
    """Describe an option without a value; more as ``CommandOption`` takes it."""
    return CommandOption(flags, is_flag=True, default=default, show_default=default, **attributes)


def argument(
    *,
    type: Values | click.ParamType[Any] | None = None,  # noqa: A002 - click's name
    **attributes: Any,
) -> Any:
    """Describe an argument; more as ``click.Argument`` takes it. Its field gives its name."""
    return click.Argument(["argument"], type=_parsed(type), **attributes)


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
        if isinstance(described, click.Parameter):
            described.name = name
            if isinstance(described, click.Argument):
                described.opts = [name]
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
    shared: tuple[click.Option, ...] = (),
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
        params=[*shared, *own],
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
