"""Reads the user's existing llama-server command into spectui's options."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spectui.commands.arguments import first_dense, first_experts, puts_elsewhere
from spectui.commands.command import LAYERS, ServerCommand, Start
from spectui.commands.drafting import (
    SPEC_DEFAULT,
    drafting,
    joined,
    old_lengths,
    told_apart,
)
from spectui.commands.items import FLASH_ATTENTION, Item, divide, words_of
from spectui.commands.measured import is_made_up
from spectui.commands.renames import LENGTHS, SERVED
from spectui.commands.server_options import new_names
from spectui.errors import BadInputError
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, NGRAMS, numbers_of
from spectui.options.placement import LOAD_MODES
from spectui.options.reading import read_setup
from spectui.options.setup import EXPERTS, Setup, SplitMode

_ROUTER = ("models-dir", "models-preset")
_HUB = {"hf-repo": "-m FILE", "docker-repo": "-m FILE", "spec-draft-hf": "-md FILE"}
"""Options that name a model of the hub, and what names a file instead."""
_PRINTING = frozenset(
    {"help", "version", "license", "list-devices", "cache-list", "completion-bash"}
)
_BUNDLES = ("--fim-qwen-", "--gpt-oss-", "--vision-gemma-", "--embd-gemma-")
"""Prefixes of switches that stand for a model of the hub and its settings."""
_MOST_LAYERS = 256
_OVERRIDES = {"override-tensor": "", "override-tensor-draft": "-draft"}
"""Suffix of the names of the other placements of the same model."""
_CPUS = frozenset(f"cpu-{one}{which}" for one in ("mask", "range") for which in ("", "-batch"))
_REPEATABLE = frozenset({*_OVERRIDES, "override-kv", *_CPUS})
_LAYER_FLAGS = {"gpu-layers": "-ngl", "gpu-layers-draft": "-ngld"}
_NGRAM_OPTIONS = frozenset(one.option for drafter in NGRAMS for one in numbers_of(drafter))
_THREADS = frozenset({"threads", "threads-batch", "threads-draft", "threads-batch-draft"})
_UNDOES = {
    "mmap": ("no-mmap",),
    "no-direct-io": ("direct-io",),
    "load-mode": ("no-mmap", "mlock", "direct-io"),
    "kv-offload": ("no-kv-offload",),
    "op-offload": ("no-op-offload",),
    "repack": ("no-repack",),
}
"""Options that take others back."""
_SWITCHES: dict[str, dict[str, tuple[str, ...]]] = {
    **{name: {} for name in ("mmap", "no-direct-io", "kv-offload", "op-offload", "repack")},
    "no-flash-attn": {"flash-attn": ("off",)},
    "spec-default": SPEC_DEFAULT,
}
"""Switches that stand for options of other names."""


def names_model(items: Sequence[Item]) -> bool:
    """Whether options name a model, wherever it is, or where models are."""
    return any(item.name in SERVED or item.spelling.startswith(_BUNDLES) for item in items)


def prints_and_ends(items: Sequence[Item]) -> Item | None:
    """The option with which llama-server prints something and ends; None without one."""
    return next((item for item in items if item.name in _PRINTING), None)


def check_local(items: Sequence[Item]) -> None:
    """Make sure that the models are local files.

    Raises:
        BadInputError: one comes from the hub, the server is a router, or there is no model.
    """
    has_model = False
    for item in items:
        flag, shown = item.spelling, item.text
        needed = _HUB.get(item.name)
        if needed is not None:
            raise BadInputError(
                f"the command takes a model from the hub ({shown}), and spectui reads local GGUF "
                f"files; write {needed} instead, with the file that llama-server keeps in the "
                f"Hugging Face cache"
            )
        if flag.startswith(_BUNDLES) and not item.values:
            raise BadInputError(
                f"{flag} stands for a model of the hub and its settings; write them out, with "
                f"-m FILE"
            )
        has_model = has_model or (item.option is not None and item.option.name == "model")
    if has_model:
        return
    router = next((item for item in items if item.name in _ROUTER), None)
    if router is not None:
        raise BadInputError(
            f"the command starts a router ({router.text}), which has several models; "
            f"give one of them: its own command, or FILE:SECTION of a models preset file"
        )
    raise BadInputError(
        "the command names no model file; spectui reads local GGUF files, so add -m FILE"
    )


def _patterns_first(options: dict[str, tuple[str, ...]], suffix: str) -> tuple[str, ...]:
    """Patterns in place of the options for experts and FFN weights, which are removed.

    llama-server takes the first placement that matches a tensor. spectui, as its export, writes
    ``-ot`` before these options; so where an ``-ot`` behind them puts weights elsewhere, they have
    to become patterns before it.

    Args:
        options: options taken over so far.
        suffix: end of the names of the model's options.
    """
    experts = _number_of_layers(options, f"n-cpu-moe{suffix}")
    dense = 0 if suffix else _number_of_layers(options, "n-cpu-ffn")
    found = []
    if f"cpu-moe{suffix}" in options:
        found.append(rf"\.{EXPERTS}")
    elif experts:
        found.append(first_experts(experts).pattern)
    if dense:
        found.append(first_dense(dense).pattern)
    for name in (f"cpu-moe{suffix}", f"n-cpu-moe{suffix}", *(("n-cpu-ffn",) if dense else ())):
        options.pop(name, None)
    return tuple(f"{pattern}=CPU" for pattern in found)


def _number_of_layers(options: Mapping[str, tuple[str, ...]], name: str) -> int:
    given = options.get(name, ("0",))[-1]
    return min(int(given), _MOST_LAYERS) if given.isascii() and given.isdigit() else 0


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
    typed: frozenset[str] = frozenset()
    """Names of the options that were typed beside the command, which override its own."""

    @property
    def left(self) -> Mapping[str, tuple[str, ...]]:
        """Sizes that the command leaves to the server, and a measurement chooses."""
        return {name: values for name, values in self.options.items() if _is_left(name, values)}

    @property
    def settled(self) -> "Takeover":
        """The command without the sizes that it leaves to the server."""
        kept = {n: v for n, v in self.options.items() if n not in self.left}
        return replace(self, options=kept)

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that are written back; drafting options always are."""
        return _NGRAM_OPTIONS | self.typed | self.settled.options.keys()

    @property
    def kept(self) -> tuple[str, ...]:
        """Arguments written back unchanged: unknown options, and sizes left to the server."""
        left = ((n, v) for n, v in self.left.items() if n not in self.typed)
        return (*(w for name, values in left for w in (f"--{name}", *values)), *self.extra)

    @property
    def served(self) -> tuple[str, ...]:
        """Arguments of the command for a server that is started in its place.

        What it leaves to its server is left to that one as well; the target judges drafts there.
        """
        settled = self.typed | self.settled.options.keys()
        left = (flag for name, flag in _LAYER_FLAGS.items() if name not in settled)
        own = words_of(item for item in divide(self.extra) if not is_made_up(item))
        return (*own, *(word for flag in left for word in (flag, "auto")))

    def to_setup(self) -> Setup:
        """The setup that the command runs, as far as spectui measures it.

        Raises:
            UsageError: an option has a value that it cannot have, or options contradict each other.
        """
        return replace(read_setup(self.options), extra=self.extra)


def _is_left(name: str, values: tuple[str, ...]) -> bool:
    # Its number -1 means auto in llama-server.
    if name in LAYERS and values == ("-1",):
        return True
    return (values == ("auto",) and name != "flash-attn") or (name, values) == ("ctx-size", ("0",))


def take_over(
    command: ServerCommand, *, other_drafts: bool = False, through_server: bool = False
) -> Takeover:
    """Translate a command into spectui's options.

    Args:
        command: the command.
        other_drafts: whether other ways to draft are looked for, so that one which only
            llama-server has may be set aside.
        through_server: whether such drafters can be run.

    Raises:
        BadInputError: it names no model of this machine, or drafts in a way that spectui cannot
            measure.
    """
    items = command.items
    check_local(items)
    elsewhere = tuple(item for item in items if other_drafts and _is_elsewhere(item))
    if elsewhere:
        # Their draft is none that drafts on its own.
        elsewhere += tuple(item for item in items if _names(item, "model-draft"))
        items = tuple(item for item in items if item not in elsewhere)
    options, extra = taken_options(items, through_server=through_server)
    # What is set aside leaves no draft whose lengths would matter.
    lengths = {} if elsewhere else old_lengths(command)
    return Takeover(
        options={**{name: (value,) for name, value in lengths.items()}, **options},
        extra=extra,
        elsewhere=words_of(elsewhere),
        # A container's variables are none of the host's.
        start=command.start if command.inside is None else Start(program=command.start.program),
    )


def taken_options(
    items: Iterable[Item], *, through_server: bool = False
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The items in spectui's options, whatever models they name, and the words of the others.

    Args:
        items: options of a command.
        through_server: as ``take_over``.

    Raises:
        BadInputError: they draft in a way that spectui cannot measure.
    """
    options: dict[str, tuple[str, ...]] = {}
    extra: list[str] = []
    has_old_lengths = False
    for item in items:
        is_former = item.name in LENGTHS and item.spelling not in new_names()
        has_old_lengths = has_old_lengths or is_former
        found = _taken(item, through_server=through_server)
        if found is None or not _is_written(item):
            extra += item.separate
        for undone in _UNDOES.get(item.name, ()):
            options.pop(undone, None)
        for name, values in (found or {}).items():
            options[name] = _joined(options, name, values)
    kinds = [kind for value in options.get("spec-type", ()) for kind in value.split(",")]
    options = told_apart(options, kinds, has_old_lengths=has_old_lengths)
    if kinds == [MODEL_KIND]:
        # A draft model is reason enough to draft with it.
        del options["spec-type"]
    return options, tuple(extra)


def _names(item: Item, name: str) -> bool:
    return item.option is not None and item.option.name == name


def _is_elsewhere(item: Item) -> bool:
    """Whether the option names a drafter that only llama-server has."""
    kinds = ",".join(item.values).split(",")
    return _names(item, "spec-type") and not set(kinds).isdisjoint(HIDDEN_STATE_KINDS)


def _counted(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """Values of an option; of threads a number, where the machine is to use all it has.

    That is every core's second thread too: more than what llama-server takes unless told.
    """
    is_all = name in _THREADS and values in {("0",), ("-1",)}
    return (str(os.cpu_count() or 1),) if is_all else values


def _is_written(item: Item) -> bool:
    return item.option is not None and item.option.is_written


def _joined(
    options: dict[str, tuple[str, ...]], name: str, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Values merged with previous ones; options that they override are removed from ``options``."""
    if name == "spec-type":
        return joined(options.pop(name, ()), values)
    if name not in _REPEATABLE:
        return values
    before = options.pop(name, ())
    if name in _OVERRIDES and any(map(puts_elsewhere, values)):
        before += _patterns_first(options, _OVERRIDES[name])
    return (*before, *values)


def _is_beyond(item: Item) -> bool:
    """Whether only llama-server can split a model so."""
    return item.name == "split-mode" and not set(item.values) <= set(SplitMode)


def _taken(item: Item, *, through_server: bool) -> dict[str, tuple[str, ...]] | None:
    """The option in spectui's names; None if spectui does not know it."""
    if item.option is None or _is_beyond(item):
        return None
    match item.option.name, item.values:
        case "load-mode", (mode,):
            switches = LOAD_MODES.get(mode)
            return {item.name: item.values} if switches is None else dict.fromkeys(switches, ())
        case "spec-type", (kind,):
            return drafting(kind, through_server=through_server)
        case ("fit" | "flash-attn") as name, values:
            wanted = values[0] if values else "on"
            return {name: (FLASH_ATTENTION.get(wanted, wanted),)}
        case name, () if name in _SWITCHES:
            return _SWITCHES[name]
        case "seed", ("-1",):
            return {}  # the default, spelled out
        case name, values if item.option.is_ours or name in SHARED_BY_NGRAMS:
            return {name: _counted(name, values)}
    return None
