"""Rules for placements of weights: without effect, of several GPUs, or matching no tensor."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spectui.commands.arguments import EXPERTS
from spectui.commands.command import ServerCommand
from spectui.commands.finding import (
    Finding,
    error,
    note,
    warning,
)
from spectui.commands.items import Item
from spectui.commands.measured import IGNORED
from spectui.commands.reader import Reader
from spectui.errors import UsageError
from spectui.options.context import CPU
from spectui.options.dialect import Dialect
from spectui.options.reading import endpoints, tensor_pattern
from spectui.severity import Severity

_PARTS = ("up", "down", "gate")
_MOST_LAYERS = 128
_EXPERTS = tuple(f"blk.{n}.ffn_{p}_exps.weight" for n in range(_MOST_LAYERS) for p in _PARTS)
_OF_LAYERS = ("attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_gate_inp", "ffn_norm")
_OF_FFN = tuple(f"ffn_{part}{end}" for part in _PARTS for end in ("", "_shexp"))
_NAMES = (
    *_EXPERTS,
    *(f"blk.{n}.{part}.weight" for n in range(_MOST_LAYERS) for part in (*_OF_LAYERS, *_OF_FFN)),
    *("token_embd.weight", "output.weight", "output_norm.weight"),
)
"""Names of tensors that models usually have."""
_IN_RAM = ("cpu-moe", "n-cpu-moe", "override-tensor")
_CPU = "CPU"
_PLACED = ("device", "device-draft", "override-tensor", "override-tensor-draft")
_REMOTE = re.compile(r"\bRPC\d")
_EXPERT = re.compile(rf"blk\.(\d+)\.{EXPERTS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One placement of an ``-ot`` option."""

    text: str
    """The text as given."""
    pattern: str
    buffer: str

    @property
    def is_readable(self) -> bool:
        """Whether the pattern can be searched: llama-server's dialect is another one."""
        return tensor_pattern(self.pattern) is not None

    def matches_all(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches every one of these tensors."""
        compiled = tensor_pattern(self.pattern)
        return compiled is not None and all(map(compiled.search, names))

    def matches_any(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches one of these tensors."""
        compiled = tensor_pattern(self.pattern)
        return compiled is not None and any(map(compiled.search, names))


def overrides(item: Item) -> Iterator[Override]:
    """Yield the placements of an option, in its order."""
    for text in (part for value in item.values for part in value.split(",")):
        pattern, _, buffer = text.partition("=")
        yield Override(text=text, pattern=pattern, buffer=buffer)


def placement_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on placements that conflict."""
    if command.value("gpu-layers") == "0":
        yield from _without_gpu(command)
    else:
        yield from _experts(command)
    if not command.has("gpu-layers") and not reader.is_current:
        yield from _no_layers(command, reader)
    yield from _draft_in_ram(command, reader)
    yield from _dead_patterns(command)
    yield from _several_gpus(command)
    yield from _idle_threads(command)
    yield from _no_endpoint(command)
    yield from _before_rpc(command)


def _draft_in_ram(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a draft that is kept off the GPU which has the target."""
    found, layers = command.last("gpu-layers-draft"), command.value("gpu-layers")
    is_apart = found is not None and found[1].value == "0" and command.drafts_with_model
    if found is None or not is_apart or layers == "0" or (layers is None and not reader.is_current):
        return
    yield warning(
        found,
        f"{found[1].text} keeps the draft in RAM, while the target has layers on the GPU",
        "the draft is computed by the CPU then, and the GPU waits for each of its tokens; a draft "
        "takes little of a GPU's memory",
        write=(found[1].flag, "99"),
    )


def _dead_patterns(command: ServerCommand) -> Iterator[Finding]:
    """Find placements that match nothing because of a blank, or what earlier ones have taken."""
    for suffix, tensors in (("", command.target_tensors), ("-draft", command.draft_tensors)):
        earlier: list[Override] = []
        for at, item in command.all(f"override-tensor{suffix}"):
            for one in overrides(item):
                if one.pattern != one.pattern.strip():
                    words = (item.flag, ",".join(part.strip() for part in item.value.split(",")))
                    yield warning(
                        (at, item),
                        f"the pattern {one.pattern!r} has a blank at its {_end_of(one.pattern)}",
                        "llama-server takes blanks as they are, and no tensor's name has one: it "
                        "matches nothing",
                        write=words,
                    )
                elif (first := _taken_by(one, earlier, tensors or _NAMES)) is not None:
                    yield warning(
                        (at, item),
                        f"{item.flag} {one.text} comes too late",
                        f"the first pattern that matches a tensor counts, and {first.text} has "
                        "taken all that it matches",
                    )
                earlier.append(one)


def _end_of(pattern: str) -> str:
    return "beginning" if pattern[:1].isspace() else "end"


def _taken_by(
    late: Override, earlier: Iterable[Override], tensors: Iterable[str]
) -> Override | None:
    """The one of the earlier placements that matches all that the late one does; None if none."""
    compiled = tensor_pattern(late.pattern)
    own = [name for name in tensors if compiled is not None and compiled.search(name)]
    same = (one for one in earlier if one.matches_all(own))
    return next(same, None) if own else None


def _experts(command: ServerCommand) -> Iterator[Finding]:
    """Find experts that are sent to RAM more than once, or to a GPU too late."""
    everything = command.last("cpu-moe")
    patterns = list(command.all("override-tensor"))
    sending = [(at, item) for at, item in patterns if _sends_all(item)]
    cause = sending[0] if sending else everything
    if cause is not None:
        yield from _sent_again(command, cause, everything)
    if everything is not None:
        yield from _too_late(everything, patterns)


def _sent_again(
    command: ServerCommand, cause: tuple[int, Item], everything: tuple[int, Item] | None
) -> Iterator[Finding]:
    others = list(command.all("n-cpu-moe"))
    others += [everything] if everything is not None and everything[0] != cause[0] else []
    shown = cause[1].text
    for at, item in others:
        yield warning(
            (at, item),
            f"{item.text} does nothing beside {shown}",
            "that keeps the experts of all layers in RAM already; take out the one that you "
            "do not mean",
            write=(),
        )


def _sends_all(item: Item) -> bool:
    return any(one.matches_all(_EXPERTS) for one in overrides(item) if one.buffer == _CPU)


def _too_late(everything: tuple[int, Item], patterns: list[tuple[int, Item]]) -> Iterator[Finding]:
    for at, item in patterns:
        late = [
            f"{one.pattern}={one.buffer}"
            for one in overrides(item)
            if one.buffer != _CPU and one.matches_any(_EXPERTS)
        ]
        if at > everything[0] and late:
            first = everything[1].words
            yield warning(
                (at, item),
                f"{item.flag} {','.join(late)} comes after {first[0]}",
                "the first placement that matches a tensor counts, so that the experts stay in RAM",
                write=(*item.words, *first),
            )


def _without_gpu(command: ServerCommand) -> Iterator[Finding]:
    for at, item in command.all(*_IN_RAM):
        to_gpu = any(one.buffer != _CPU for one in overrides(item))
        if item.name == "override-tensor" and to_gpu:
            yield warning(
                (at, item),
                f"{item.text}, beside -ngl 0",
                "one sends weights to a GPU, the other keeps all layers in RAM",
                write=("-ngl", "99"),
            )
        else:
            yield warning(
                (at, item),
                f"{item.text} does nothing beside -ngl 0",
                "all weights are in RAM anyway; -ngl 99 sends the others to the GPU, if that "
                "was meant",
                write=(),
            )


def _no_layers(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found = command.last(*_IN_RAM, "split-mode", "tensor-split", "main-gpu")
    if found is None:
        return
    at, item = found
    many = "999" if reader.dialect is Dialect.IK else "99"
    yield Finding(
        flag="-ngl",
        severity=Severity.WARNING,
        what=f"-ngl is not given, but {item.shown} is",
        why=f"most builds of {reader.name} keep all layers in RAM unless told",
        replacement=f"-ngl {many}",
        at=at,
    )


def _several_gpus(command: ServerCommand) -> Iterator[Finding]:
    mode = command.value("split-mode")
    split, main = command.last("tensor-split"), command.last("main-gpu")
    if mode == "none" and split is not None:
        yield _idle_gpu(split, "with -sm none one GPU has everything, and nothing is split")
    if mode == "layer" and main is not None:
        yield _idle_gpu(main, "with -sm layer no GPU is the main one")


def _idle_threads(command: ServerCommand) -> Iterator[Finding]:
    """Find options of threads that llama-server reads and does not apply."""
    for at, item in enumerate(command.items):
        if item.server is not None and item.server.long_flag in IGNORED:
            why = "llama-server takes the number of a draft's threads (-td, -tbd), and no more"
            yield warning((at, item), f"{item.text} does nothing", why, write=())
    if command.has("threads-batch"):
        return
    for at, item in command.all(*(option.name for option in CPU if "batch" in option.name)):
        yield warning(
            (at, item),
            f"{item.text} does nothing without -tb",
            "batches take the threads of -t then, with all that is said of them",
            write=(),
        )


def _no_endpoint(command: ServerCommand) -> Iterator[Finding]:
    for at, item in command.all("rpc"):
        try:
            endpoints(",".join(item.values))
        except UsageError as wrong:
            _option, _, why = str(wrong).partition(": ")
            yield error((at, item), f"{item.text} names no server", why)


def _before_rpc(command: ServerCommand) -> Iterator[Finding]:
    """Find devices of RPC servers that are named before the servers are: nobody knows them yet."""
    servers = command.last("rpc")
    for at, item in command.all(*_PLACED):
        is_remote = any(_REMOTE.search(value) for value in item.values)
        if is_remote and (servers is None or at < servers[0]):
            missing = "there is no --rpc" if servers is None else "--rpc comes behind it"
            yield error(
                (at, item),
                f"{item.text} names a device of an RPC server, and {missing}",
                "options are read in their order, and --rpc makes its servers' devices known: "
                "write it first",
            )


def _idle_gpu(found: tuple[int, Item], why: str) -> Finding:
    return warning(found, f"{found[1].text} does nothing", why, write=())


def tensors_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on placements that match no tensor."""
    if command.target_tensors is not None:
        yield from _unmatched(command, "the model", command.target_tensors, "")
    if command.draft_tensors is not None:
        yield from _unmatched(command, "the draft", command.draft_tensors, "-draft")


def _unmatched(
    command: ServerCommand, who: str, tensors: frozenset[str], suffix: str
) -> Iterator[Finding]:
    """Find placements of a model without effect; ``suffix`` ends the names of their options."""
    layers = {int(one[1]) for one in map(_EXPERT.match, tensors) if one is not None}
    for at, item in command.all(f"override-tensor{suffix}"):
        for one in overrides(item):
            if one.is_readable and not one.matches_any(tensors):
                yield warning(
                    (at, item),
                    f"{item.flag} {one.text} matches no tensor of {who}",
                    "a pattern that is part of no name does nothing",
                )
    first = f"n-cpu-moe{suffix}"
    for at, item in command.all(f"cpu-moe{suffix}", first):
        if not layers:
            yield warning(
                (at, item),
                f"{item.text} does nothing: {who} has no experts",
                "it keeps experts in RAM; -ngl says how many layers of a dense model go to the GPU",
                write=(),
            )
    found, wanted = command.last(first), command.number(first)
    if found is not None and wanted is not None and layers and wanted > max(layers) + 1:
        yield note(
            found,
            f"{found[1].text}, but {len(layers)} layers have experts",
            "it means all of them, as the option for all of them does",
        )
