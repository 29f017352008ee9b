"""Translates an existing llama-server command into spectui's options, and reads its template."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from spectui.commands.arguments import puts_elsewhere
from spectui.commands.command import LAYERS, ServerCommand, Start
from spectui.commands.items import FLASH_ATTENTION, Item, divide, words_of
from spectui.commands.measured import is_made_up
from spectui.commands.renames import LOADING, SERVED
from spectui.commands.rewriting import (
    SPEC_DEFAULT,
    drafting,
    is_ngram_number,
    old_lengths,
    own_words,
)
from spectui.commands.server_options import FALSE, TRUE, canonical, new_names
from spectui.errors import BadInputError
from spectui.files import SMALL_BYTES, read_file
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, NGRAMS, numbers_of
from spectui.options.placement import LOAD_MODE, LOAD_MODES
from spectui.options.reading import read_setup
from spectui.options.setup import Rendering, Setup, SplitMode

_HUB = {"hf-repo": "-m", "docker-repo": "-m", "spec-draft-hf": "-md"}
"""Options that name a model of the hub, and what names a file instead."""
_PRINTING = frozenset(
    {"help", "version", "license", "list-devices", "cache-list", "completion-bash"}
)
_BUNDLES = ("--fim-qwen-", "--gpt-oss-", "--vision-gemma-", "--embd-gemma-")
"""Prefixes of switches that stand for a model of the hub and its settings."""
_OVERRIDES = {"override-tensor": "", "override-tensor-draft": "-draft"}
"""Suffix of the names of the other placements of the same model."""
_REPEATABLE = frozenset({*_OVERRIDES, "override-kv", "cpu-mask", "cpu-range"})
_BELOW = re.compile(r"0|-\d*\.?\d+")
"""Numbers that llama-server replaces by another one."""
_AT_LEAST = ("threads", "temp", "top-k", "min-p")
_LAYER_FLAGS = {"gpu-layers": "-ngl", "gpu-layers-draft": "-ngld"}
_NGRAM_OPTIONS = frozenset(one.option for drafter in NGRAMS for one in numbers_of(drafter))
_STANDS_FOR: dict[tuple[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = {
    **{(name, ()): {} for name in ("mmap", "no-direct-io", "kv-offload", "op-offload", "repack")},
    ("seed", ("-1",)): {},
    ("numa", ("",)): {"numa": ("distribute",)},
    ("no-flash-attn", ()): {"flash-attn": ("off",)},
    ("spec-default", ()): SPEC_DEFAULT,
}
"""Options with values that spell a default out, or stand for options of other names."""


def names_model(items: Sequence[Item]) -> bool:
    """Whether options name a model, wherever it is, or where models are."""
    return any(item.name in SERVED or item.spelling.startswith(_BUNDLES) for item in items)


def prints_and_ends(items: Sequence[Item]) -> Item | None:
    """The option with which llama-server prints something and ends; None without one."""
    return next((item for item in items if item.name in _PRINTING), None)


def _check_local(items: Sequence[Item]) -> None:
    """Make sure that the models are local files.

    Raises:
        BadInputError: one comes from the hub, the server is a router, or there is no model.
    """
    found = next((item for item in items if item.name in _HUB), None)
    if found is None and any(item.name == "model" for item in items):
        return
    names, flag = "names no model file, as that of a router", "-m"
    if found is not None:
        names, flag = f"takes a model from the hub ({found.text})", _HUB[found.name]
    raise BadInputError(
        f"the command {names}, and spectui reads local GGUF files; write {flag} FILE, as "
        "llama-server keeps them in the Hugging Face cache"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A command in spectui's options."""

    options: Mapping[str, tuple[str, ...]]
    """Values by the long name of spectui's option, without dashes; none for a switch."""
    extra: tuple[str, ...]
    """Arguments that an export does not write itself, unchanged and in their order.

    These are options that spectui does not know, and those of sampling, which exports leave out.
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

        Sizes that the command leaves open stay open. Options that fake acceptance are left out.
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
    _check_local(items)
    elsewhere = tuple(item for item in items if other_drafts and _is_elsewhere(item))
    if elsewhere:
        # Their draft file cannot draft as a model of its own.
        elsewhere += tuple(item for item in items if item.name == "model-draft")
        items = tuple(item for item in items if item not in elsewhere)
    options, extra = own_options(items, through_server=through_server)
    # Drafters that only llama-server has need no lengths here.
    lengths = {} if elsewhere else old_lengths(command)
    return Takeover(
        options={**{name: (value,) for name, value in lengths.items()}, **options},
        extra=extra,
        elsewhere=words_of(elsewhere),
        # A container's variables are none of the host's.
        start=command.start if command.inside is None else Start(program=command.start.program),
    )


def _is_elsewhere(item: Item) -> bool:
    """Whether the option names a drafter that only llama-server has."""
    kinds = ",".join(item.values).split(",")
    return item.name == "spec-type" and not set(kinds).isdisjoint(HIDDEN_STATE_KINDS)


def own_options(
    given: Iterable[Item], *, through_server: bool = False
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The items in spectui's options, whatever models they name, and the words of the others.

    Args:
        given: options of a command.
        through_server: as ``take_over``.

    Raises:
        BadInputError: they draft in a way that spectui cannot measure.
    """
    options: dict[str, tuple[str, ...]] = {}
    extra: list[str] = []
    command = ServerCommand(items=tuple(given))
    for item in (own for one in command.items for own in _by_drafter(one, command)):
        found = _translated(item, through_server=through_server)
        if found is None or item.option is None or not item.option.is_written:
            extra += item.separate
        # A switch takes its opposite back, and the mode of loading its switches.
        is_off = item.name.startswith("no-")
        opposite = item.name.removeprefix("no-") if is_off else f"no-{item.name}"
        for undone in LOADING if item.name == LOAD_MODE.name else (opposite,):
            options.pop(undone, None)
        for name, values in (found or {}).items():
            _add(options, name, values)
    if options.get("spec-type") == (MODEL_KIND,):
        # A draft model is reason enough to draft with it.
        del options["spec-type"]
    return options, tuple(extra)


def _by_drafter(item: Item, command: ServerCommand) -> Iterable[Item]:
    """The item, or options of each n-gram drafter in place of one that they once shared."""
    is_former = item.spelling not in new_names()
    is_shared = is_former and is_ngram_number(item, command)
    return divide(own_words(item, command)) if is_shared else (item,)


def _add(options: dict[str, tuple[str, ...]], name: str, values: tuple[str, ...]) -> None:
    """Add an option to others, some of which it joins or overrides."""
    if name not in {*_REPEATABLE, "spec-type"}:
        options[name] = values
        return
    joined = (*options.pop(name, ()), *values)
    if name == "spec-type":
        joined = (",".join(dict.fromkeys(",".join(joined).split(","))),)
    elif name in _OVERRIDES and any(map(puts_elsewhere, values)):
        suffix = _OVERRIDES[name]
        others = (f"cpu-moe{suffix}", f"n-cpu-moe{suffix}", f"n-cpu-ffn{suffix}")
        if any(options.get(other, ("0",)) != ("0",) for other in others):
            # llama-server takes the first placement that matches a tensor, and spectui writes -ot
            # before these options.
            raise BadInputError(
                f"-ot {' '.join(values)} stands behind options that keep weights in RAM, and these "
                "count first; write -ot in front of them, if that means the same"
            )
    options[name] = joined


def _translated(item: Item, *, through_server: bool) -> dict[str, tuple[str, ...]] | None:
    """The option in spectui's names; None if spectui does not know it."""
    # Only llama-server can split a model in other ways.
    is_beyond = item.name == "split-mode" and not set(item.values) <= set(SplitMode)
    if item.option is None or is_beyond:
        return None
    match item.name, item.values:
        case LOAD_MODE.name, (mode,):
            switches = LOAD_MODES.get(mode)
            return {item.name: item.values} if switches is None else dict.fromkeys(switches, ())
        case "spec-type", (kind,):
            return drafting(kind, through_server=through_server)
        case ("fit" | "flash-attn") as name, values:
            wanted = values[0] if values else "on"
            return {name: (FLASH_ATTENTION.get(wanted, wanted),)}
        case given if given in _STANDS_FOR:
            return _STANDS_FOR[given]
        case name, (value,) if _BELOW.fullmatch(value) and name.startswith(_AT_LEAST):
            # All logical cores, as llama-server takes for such a number: more than its default.
            return {name: (str(os.cpu_count() or 1) if name.startswith("threads") else "0",)}
        case name, values if item.option.is_ours:
            return {name: values}
    return None


def rendering_of(words: Sequence[str]) -> Rendering:
    """The chat template of a server with these arguments, and what it gets.

    Raises:
        BadInputError: a template cannot be read, or its arguments are no JSON object.
    """
    items = [*divide(words)]
    return Rendering(template=_template(items), arguments=json.dumps(_arguments(items)))


def _template(items: Sequence[Item]) -> str | None:
    template, is_jinja = None, True
    for item in items:
        match item.name:
            case "chat-template":
                template = item.value
            case "chat-template-file":
                template = _content(item)
            case "jinja":
                is_jinja = canonical(item.flag) == "--jinja"
    # A name of llama.cpp's own list is looked up without Jinja alone.
    return template if is_jinja or "{" in (template or "") else None


def _arguments(items: Sequence[Item]) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in items:
        match item.name, item.value:
            case "chat-template-kwargs", _:
                found |= _object(item)
            case "reasoning", value if value in TRUE | FALSE:
                found["enable_thinking"] = value in TRUE
            case "reasoning-effort", "default":
                found.pop("reasoning_effort", None)
            case "reasoning-effort", value:
                found["reasoning_effort"] = value
            case "reasoning-preserve", _:
                found["preserve_reasoning"] = canonical(item.flag) == "--reasoning-preserve"
    return found


def _content(item: Item) -> str:
    try:
        return read_file(Path(item.value), SMALL_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"cannot read the chat template of {item.text} ({error}); check the path and its text"
        ) from error


def _object(item: Item) -> dict[str, object]:
    try:
        return msgspec.json.decode(item.value, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        what = f"{item.text} is no JSON object ({error})"
        raise BadInputError(f"{what}; write one in braces") from error
