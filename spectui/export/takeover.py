"""Reads the user's existing llama-server command into spectui's options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spectui.export.hub import check_local
from spectui.export.old_ngrams import SHARED, told_apart
from spectui.export.placement_order import experts_first
from spectui.export.rewriting.items import Command
from spectui.export.rewriting.lengths import old_lengths
from spectui.export.server_options import canonical
from spectui.export.sources import read_source
from spectui.export.stages import SPEC_DEFAULT, drafting, joined
from spectui.export.starting import Start
from spectui.export.words import FLASH_ATTENTION, Given, divide
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND

_REPEATABLE = frozenset({"override-tensor", "override-kv"})
_EXPERTS = ("cpu-moe", "n-cpu-moe")
_LAYERS = frozenset({"gpu-layers", "gpu-layers-draft"})
"""Options whose number -1 means ``auto`` in llama-server."""
_LOADING = frozenset({"mmap", "load-mode"})
_OLD_LENGTHS = frozenset({"--draft", "--draft-n", "--draft-max", "--draft-min", "--draft-n-min"})
"""Former flags for the draft lengths of every drafter."""
_LOAD_MODES: dict[str, dict[str, tuple[str, ...]]] = {
    "none": {"no-mmap": ()},
    "mlock": {"no-mmap": ()},
    "mmap": {},
    "auto": {},
}
"""Equivalents of ``--load-mode`` in spectui's options, which only turn mapping on or off."""
_LOCKED = "mlock"
"""Part of modes that spectui does not apply but passes on."""
_SWITCHES: dict[str, dict[str, tuple[str, ...]]] = {
    "mmap": {},
    "no-flash-attn": {"flash-attn": ("off",)},
    "spec-default": SPEC_DEFAULT,
}
"""Switches that stand for options of other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A command in spectui's options."""

    options: Mapping[str, tuple[str, ...]]
    """Values by the long name of spectui's option, without dashes; none for a switch."""
    extra: tuple[str, ...]
    """Arguments that an export does not write itself, unchanged and in their order.

    That is what spectui does not know, and sampling, which it knows and an export leaves out.
    """
    elsewhere: tuple[str, ...] = ()
    """Drafting options that only llama-server supports, unchanged; they are in neither of the
    others."""
    start: Start = field(default_factory=Start)
    """The words before its arguments."""

    @property
    def left(self) -> Mapping[str, tuple[str, ...]]:
        """Sizes that the command leaves to the server, and a measurement chooses."""
        return {name: values for name, values in self.options.items() if _is_left(name, values)}

    @property
    def settled(self) -> "Takeover":
        """The command without the sizes that it leaves to the server."""
        kept = {n: v for n, v in self.options.items() if n not in self.left}
        return replace(self, options=kept)

    def default_map(self) -> dict[str, Any]:
        """The options as click's ``default_map`` takes them: by parameter name."""
        return {name.replace("-", "_"): _default(name, v) for name, v in self.options.items()}


def _is_left(name: str, values: tuple[str, ...]) -> bool:
    if name in _LAYERS and values == ("-1",):
        return True
    return (values == ("auto",) and name != "flash-attn") or (name, values) == ("ctx-size", ("0",))


def _default(name: str, values: tuple[str, ...]) -> bool | str | list[str]:
    if not values:
        return True
    # spectui takes several drafts, llama-server one.
    return list(values) if name in _REPEATABLE or name == "model-draft" else values[-1]


def read_command(
    text: str, *, other_drafts: bool = False, through_server: bool = False
) -> Takeover:
    """Read a command from a shell, a file or a running process: all that ``read_source`` takes.

    Args:
        text: the command, or where it is.
        other_drafts: whether other ways to draft are looked for, so that one which only
            llama-server has may be set aside.
        through_server: whether such drafters can be run.

    Raises:
        BadInputError: it is no single command, names no model of this machine, or drafts in a way
            that spectui cannot measure.
    """
    source = read_source(text)
    command = list(divide(source.arguments))
    check_local(command)
    elsewhere = tuple(given for given in command if other_drafts and _is_elsewhere(given))
    if elsewhere:
        # Their draft is none that drafts on its own.
        elsewhere += tuple(given for given in command if _names(given, "model-draft"))
        command = [given for given in command if given not in elsewhere]
    taken = taken_over(command, through_server=through_server)
    # What is set aside leaves no draft whose lengths would matter.
    lengths = {} if elsewhere else old_lengths(Command.of(source))
    written = {name: (value,) for name, value in lengths.items()}
    return replace(
        taken,
        options={**written, **taken.options},
        elsewhere=tuple(word for given in elsewhere for word in given.words),
        start=source.started,
    )


def taken_over(command: Sequence[Given], *, through_server: bool = False) -> Takeover:
    """The takeover of options that are already divided, whatever models they name.

    Args:
        command: the options.
        through_server: as ``read_command``.

    Raises:
        BadInputError: they draft in a way that spectui cannot measure.
    """
    options: dict[str, tuple[str, ...]] = {}
    extra: list[str] = []
    for given in command:
        found = _taken(given, through_server=through_server)
        if found is None or not _is_written(given):
            extra += given.separate
        if given.option is not None and given.option.name in _LOADING:
            options.pop("no-mmap", None)
        for name, values in (found or {}).items():
            options[name] = _joined(options, name, values)
    kinds = [kind for value in options.get("spec-type", ()) for kind in value.split(",")]
    has_old_lengths = any(canonical(given.flag) in _OLD_LENGTHS for given in command)
    options = told_apart(options, kinds, has_old_lengths=has_old_lengths)
    if kinds == [MODEL_KIND]:
        # A draft model is reason enough to draft with it.
        del options["spec-type"]
    return Takeover(options=options, extra=tuple(extra))


def _names(given: Given, name: str) -> bool:
    return given.option is not None and given.option.name == name


def _is_elsewhere(given: Given) -> bool:
    """Whether the option names a drafter that only llama-server has."""
    kinds = ",".join(given.values).split(",")
    return _names(given, "spec-type") and not set(kinds).isdisjoint(HIDDEN_STATE_KINDS)


def _is_all_cores(given: Given) -> bool:
    """Whether ``-tb`` asks for all cores; without ``-tb`` it equals ``-t``."""
    return given.name == "threads-batch" and given.values in {("0",), ("-1",)}


def _is_written(given: Given) -> bool:
    is_locked = given.name == "load-mode" and any(_LOCKED in mode for mode in given.values)
    return given.option is not None and given.option.is_written and not is_locked


def _joined(
    options: dict[str, tuple[str, ...]], name: str, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Values merged with previous ones; options that they override are removed from ``options``."""
    if name == "spec-type":
        return joined(options.pop(name, ()), values)
    if name not in _REPEATABLE:
        return values
    before = options.pop(name, ())
    if name == "override-tensor":
        pattern = experts_first(options, values)
        if pattern is not None:
            for option in _EXPERTS:
                options.pop(option, None)
            before = (*before, pattern)
    return (*before, *values)


def _taken(given: Given, *, through_server: bool) -> dict[str, tuple[str, ...]] | None:
    """The option in spectui's names; None if spectui does not know it."""
    if given.option is None:
        return None
    match given.option.name, given.values:
        case "load-mode", (mode,):
            return _LOAD_MODES.get(mode)
        case "spec-type", (kind,):
            return drafting(kind, through_server=through_server)
        case "flash-attn", values:
            wanted = values[0] if values else "on"
            return {"flash-attn": (FLASH_ATTENTION.get(wanted, wanted),)}
        case name, () if name in _SWITCHES:
            return _SWITCHES[name]
        case "threads" | "seed", ("-1",):
            return {}  # the default, spelled out
        case name, values if (given.option.is_ours or name in SHARED) and not _is_all_cores(given):
            return {name: values}
    return None
