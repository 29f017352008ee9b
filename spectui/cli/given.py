"""Options of one command line, who gave each, and where the others' defaults come from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spectui.cli.help import OUTPUT, RAW, WORDS, CommandOption, FromUserOnly
from spectui.cli.removed import reason_of
from spectui.errors import BadInputError, UsageError
from spectui.presets import Options, Preset, find_preset
from spectui.secret import printable_word

if TYPE_CHECKING:
    from spectui.commands.takeover import Takeover

TAKEOVER = "spectui.takeover"
"""Key under which click's context keeps the command that ``--from`` has read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Mapping[str, Any]):
    """Values of a command's options by parameter, and who gave them."""

    parsed: Mapping[str, Any]
    typed: frozenset[str] = frozenset()
    """Parameters that the user has typed."""
    inherited: frozenset[str] = frozenset()
    """Parameters whose value is a preset's, the demo's, or that of the command of ``--from``."""
    takeover: "Takeover | None" = None
    """The command of ``--from``, with what was typed beside it; None without one."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """First flag of each parameter."""
    words: tuple[str, ...] = ()
    """The words behind the command's name."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """Values of the parameters that the user has typed, as they were typed."""

    @classmethod
    def of(cls, context: click.Context) -> "Given":
        """Read the options of a command that was parsed."""
        flags = {one.name or "": one.opts[0] for one in context.command.params if one.opts}
        sources = {name: context.get_parameter_source(name) for name in flags}
        typed = frozenset(n for n, who in sources.items() if who is ParameterSource.COMMANDLINE)
        takeover: Takeover | None = context.meta.get(TAKEOVER)
        if takeover is not None:
            names = frozenset(name.replace("_", "-") for name in typed)
            takeover = replace(takeover, typed=names)
        return cls(
            parsed=context.params,
            words=context.meta.get(WORDS, ()),
            raw=context.meta.get(RAW, {}),
            typed=typed,
            inherited=frozenset(
                n for n, who in sources.items() if who is ParameterSource.DEFAULT_MAP
            ),
            takeover=takeover,
            flags=flags,
        )

    def __getitem__(self, name: str) -> Any:
        """The value of a parameter."""
        return self.parsed[name]

    def __iter__(self) -> Iterator[str]:
        """The parameters."""
        return iter(self.parsed)

    def __len__(self) -> int:
        """Number of parameters."""
        return len(self.parsed)

    @property
    def chosen(self) -> frozenset[str]:
        """Parameters that are not left to their defaults."""
        return self.typed | self.inherited

    def changed(self, **values: object) -> "Given":
        """The same with other values."""
        return replace(self, parsed={**self.parsed, **values})

    def again(self, name: str) -> list[str]:
        """The same command, by its name, without secrets."""
        return ["spectui", name, *map(printable_word, self.words)]

    def words_for(self, name: str) -> list[str]:
        """Another command with the options that were typed, as far as it takes them."""
        found = ["spectui", name]
        for param in import_module(f"spectui.cli.{name}").command.params:
            typed = self.raw.get(param.name)
            if typed is None or not isinstance(param, CommandOption) or param.subject == OUTPUT:
                continue
            values = typed if isinstance(typed, list) else [typed]
            if _takes(param, values):
                flag, words = param.opts[0], ([] if one is True else [one] for one in values)
                found += chain.from_iterable((flag, *map(printable_word, one)) for one in words)
        return found

    @property
    def extra(self) -> tuple[str, ...]:
        """Arguments of the command of ``--from`` that an export does not write itself."""
        return () if self.takeover is None else self.takeover.extra

    @property
    def served_extra(self) -> tuple[str, ...]:
        """Arguments of that command for a server that is started in its place."""
        return () if self.takeover is None else self.takeover.served

    @property
    def is_server(self) -> bool:
        """Whether a llama-server measures."""
        return bool(self["backend"] == "server")

    def is_of_command(self, name: str) -> bool:
        """Whether an option's value, by its long name, is that of the command of ``--from``."""
        found = self.takeover
        return found is not None and name not in found.typed and name in found.options


def _takes(param: click.Option, values: list[Any]) -> bool:
    """Whether an option takes what was typed for one of the same name, such as no list."""
    try:
        for value in values:
            param.type.convert(value, param, None)
    except click.BadParameter:
        return False
    return param.multiple or len(values) == 1


_BESIDE = "spectui.brings-models"
"""Key under which it keeps the option that selects the models."""


def _apply_preset(ctx: click.Context, preset: Preset) -> None:
    """Make the preset's options the command's defaults; what the user types still wins.

    Raises:
        BadInputError: the preset names an option that no command has, or a wrong value.
    """
    ctx.default_map = {**(ctx.default_map or {}), **_defaults(ctx, preset, preset.options)}


@cache
def presettable() -> frozenset[str]:
    """Long names, without dashes, of models, placement, context, sampling, drafting, lengths."""
    # Its options have callbacks of this module.
    from spectui.cli.options import CONTENT_OPTIONS, DRAFTING

    flags = chain.from_iterable(one.opts for one in (*CONTENT_OPTIONS, *DRAFTING))
    return frozenset(name.removeprefix("--") for name in flags if name.startswith("--"))


def _defaults(ctx: click.Context, preset: Preset, options: Options) -> dict[str, Any]:
    """Return values for those ``options`` that the command has, by click's parameter names."""
    by_name = {
        name.lstrip("-"): param
        for param in ctx.command.params
        for name in param.opts
        if name.startswith("--")
    }
    defaults: dict[str, Any] = {}
    for key, value in options.items():
        param = by_name.get(key)
        if key not in presettable():
            reason = reason_of(ctx.command.name or "", f"--{key}")
            raise BadInputError(
                f"{preset.path}: {reason or f'a preset cannot set {key}; take it out'}"
            )
        # A preset serves all commands: bench has a draft-max, tune looks for one.
        if param is not None and not isinstance(param, FromUserOnly):
            defaults[param.name or ""] = _checked(ctx, param, value, f"{preset.path}: option {key}")
    return defaults


def _checked(ctx: click.Context, param: click.Parameter, value: object, where: str) -> object:
    """Return a value that the option takes.

    Raises:
        BadInputError: it takes none such.
    """
    if param.multiple and isinstance(value, str):
        # Of an option that may be repeated, one is a list of one.
        value = [value]
    try:
        param.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise BadInputError(f"{where}: {error.message.rstrip('.')}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise BadInputError(f"{where} cannot be {value!r}; correct it") from error
    return value


def preset_option(ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    """Callback of ``--preset``."""
    if name is not None:
        _check_alone(ctx, "--preset")
        _apply_preset(ctx, find_preset(name))
    return name


def demo_option(
    ctx: click.Context,
    _param: click.Parameter,
    wanted: bool,  # noqa: FBT001 - click passes values by position
) -> bool:
    """Callback of ``--demo``: as ``--preset demo``, unless another preset is named."""
    if wanted:
        _check_alone(ctx, "--demo")
    if wanted and ctx.default_map is None:
        _apply_preset(ctx, find_preset("demo"))
    return wanted


def target_option(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """Callback of ``--target``.

    Raises:
        UsageError: it was typed, and the demo models are not used.
    """
    source = ctx.get_parameter_source(param.name or "")
    if source is ParameterSource.COMMANDLINE and not ctx.params.get("demo"):
        raise UsageError("--target names a demo model; add --demo, or leave --target out")
    return name


def from_option(ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    """Make an existing command's options the defaults; what the user types still wins.

    Raises:
        BadInputError: it cannot be read, or has a value that cannot be.
        UsageError: something else says what is run.
    """
    # A shell that completes an option does not run it.
    if text is None or ctx.resilient_parsing:
        return None
    _check_alone(ctx, "--from")
    # It loads what reads commands.
    from spectui.cli.from_command import read_takeover

    known = {param.name: param for param in ctx.command.params}
    ours = {name: param for name, param in known.items() if not isinstance(param, FromUserOnly)}
    # Those who may draft are looked for where one way to draft cannot be given.
    takeover = read_takeover(
        text,
        other_drafts="spec_type" in known.keys() - ours.keys(),
        through_server={"spec_type", "backend"} <= ours.keys(),
    )
    defaults = {
        name: _checked(ctx, ours[name], value, f"--from: --{name.replace('_', '-')}")
        for name, value in default_map(takeover.settled.options).items()
        if name in ours
    }
    ctx.default_map = {**dict(ctx.default_map or {}), **defaults}
    ctx.meta[TAKEOVER] = takeover
    return text


def default_map(options: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Options of a command as click's ``default_map`` takes them: by parameter name."""
    return {name.replace("-", "_"): _default(name, values) for name, values in options.items()}


def _default(name: str, values: tuple[str, ...]) -> bool | str | list[str]:
    if not values:
        return True
    # spectui takes several drafts, llama-server one.
    is_repeated = name in {"model-draft", "override-tensor", "override-kv"}
    return list(values) if is_repeated else values[-1]


def _check_alone(ctx: click.Context, option: str) -> None:
    """Refuse ``--from`` beside ``--preset`` or ``--demo``.

    Raises:
        UsageError: a preset or the demo says it as well.
    """
    other = ctx.meta.setdefault(_BESIDE, option)
    if "--from" in {option, other} and option != other:
        raise UsageError(f"{other} and {option} both say what is run; leave one of them out")
