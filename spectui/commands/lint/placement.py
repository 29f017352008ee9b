"""Rules for placements of weights: without effect, of several GPUs, or matching no tensor."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.lint.finding import Finding, left_out, quoted
from spectui.commands.reader import Reader
from spectui.options.dialect import Dialect
from spectui.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One placement of an ``-ot`` option."""

    text: str
    """The text as given."""
    pattern: str
    buffer: str

    @property
    def is_readable(self) -> bool:
        """Whether Python accepts the pattern: llama-server's dialect is another one."""
        try:
            re.compile(self.pattern)
        except re.error:
            return False
        return True

    def matches_all(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches every one of these tensors."""
        return self.is_readable and all(re.search(self.pattern, name) for name in names)

    def matches_any(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches one of these tensors."""
        return self.is_readable and any(re.search(self.pattern, name) for name in names)


def overrides(item: Item) -> Iterator[Override]:
    """Yield the placements of an option, in its order."""
    for text in (part for value in item.values for part in value.split(",")):
        pattern, _, buffer = text.partition("=")
        yield Override(text=text, pattern=pattern, buffer=buffer)


_PARTS = ("up", "down", "gate")
_MOST_LAYERS = 128
_EXPERTS = tuple(f"blk.{n}.ffn_{p}_exps.weight" for n in range(_MOST_LAYERS) for p in _PARTS)
_IN_RAM = ("cpu-moe", "n-cpu-moe", "override-tensor")
_CPU = "CPU"


def placement_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on placements that conflict."""
    if command.value("gpu-layers") == "0":
        yield from _without_gpu(command)
    else:
        yield from _experts(command)
    if not command.has("gpu-layers") and not reader.is_current:
        yield from _no_layers(command, reader)
    yield from _several_gpus(command)


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
    shown = " ".join(cause[1].words)
    for at, item in others:
        yield left_out(
            at,
            item,
            what=f"{' '.join(item.words)} does nothing beside {shown}",
            why="that keeps the experts of all layers in RAM already; take out the one that you "
            "do not mean",
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
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{item.flag} {','.join(late)} comes after {first[0]}",
                why="the first placement that matches a tensor counts, so that the experts stay "
                "in RAM",
                replacement=quoted(*item.words, *first),
                at=at,
            )


def _without_gpu(command: ServerCommand) -> Iterator[Finding]:
    for at, item in command.all(*_IN_RAM):
        to_gpu = any(one.buffer != _CPU for one in overrides(item))
        if item.name == "override-tensor" and to_gpu:
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{' '.join(item.words)}, beside -ngl 0",
                why="one sends weights to a GPU, the other keeps all layers in RAM",
                replacement=quoted("-ngl", "99"),
                at=at,
            )
        else:
            yield left_out(
                at,
                item,
                what=f"{' '.join(item.words)} does nothing beside -ngl 0",
                why="all weights are in RAM anyway; -ngl 99 sends the others to the GPU, if that "
                "was meant",
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
        replacement=quoted("-ngl", many),
        at=at,
    )


def _several_gpus(command: ServerCommand) -> Iterator[Finding]:
    mode = command.value("split-mode")
    split, main = command.last("tensor-split"), command.last("main-gpu")
    if mode == "none" and split is not None:
        yield _idle_gpu(split, "with -sm none one GPU has everything, and nothing is split")
    if mode == "layer" and main is not None:
        yield _idle_gpu(main, "with -sm layer no GPU is the main one")


def _idle_gpu(found: tuple[int, Item], why: str) -> Finding:
    return left_out(*found, what=f"{' '.join(found[1].words)} does nothing", why=why)


_EXPERT = re.compile(r"blk\.(\d+)\.ffn_(up|down|gate|gate_up)_(ch|)exps")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    who: str
    tensors: frozenset[str]
    override: str
    everything: str
    first: str


def tensors_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on placements that match no tensor."""
    for model in _models(command):
        layers = {int(one[1]) for one in map(_EXPERT.match, model.tensors) if one is not None}
        for at, item in command.all(model.override):
            yield from _unmatched(at, item, model)
        for at, item in command.all(model.everything, model.first):
            if not layers:
                yield _without_experts(at, item, model)
        found, wanted = command.last(model.first), command.number(model.first)
        if found is not None and wanted is not None and layers and wanted > max(layers) + 1:
            yield _too_many(found, len(layers))


def _models(command: ServerCommand) -> Iterator[_Model]:
    for who, tensors, of_draft in (
        ("the model", command.target_tensors, ""),
        ("the draft", command.draft_tensors, "-draft"),
    ):
        if tensors is not None:
            yield _Model(
                who=who,
                tensors=tensors,
                override=f"override-tensor{of_draft}",
                everything=f"cpu-moe{of_draft}",
                first=f"n-cpu-moe{of_draft}",
            )


def _unmatched(at: int, item: Item, model: _Model) -> Iterator[Finding]:
    for one in overrides(item):
        if one.is_readable and not one.matches_any(model.tensors):
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{item.flag} {one.text} matches no tensor of {model.who}",
                why="a pattern that is part of no name does nothing",
                at=at,
            )


def _without_experts(at: int, item: Item, model: _Model) -> Finding:
    return left_out(
        at,
        item,
        what=f"{' '.join(item.words)} does nothing: {model.who} has no experts",
        why="it keeps experts in RAM; -ngl says how many layers of a dense model go to the GPU",
    )


def _too_many(found: tuple[int, Item], n_layers: int) -> Finding:
    at, item = found
    return Finding(
        flag=item.shown,
        severity=Severity.NOTE,
        what=f"{' '.join(item.words)}, but {n_layers} layers have experts",
        why="it means all of them, as the option for all of them does",
        at=at,
    )
