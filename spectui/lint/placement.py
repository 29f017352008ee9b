"""Where weights go: placements that another one makes idle, and options of several GPUs."""

import re
from collections.abc import Iterator

from spectui.export.dialects import Dialect
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, quoted, replaced
from spectui.severity import Severity

_PARTS = ("up", "down", "gate")
_MOST_LAYERS = 128
_EXPERTS = tuple(f"blk.{n}.ffn_{p}_exps.weight" for n in range(_MOST_LAYERS) for p in _PARTS)
_IN_RAM = ("cpu-moe", "n-cpu-moe", "override-tensor")
_CPU = "CPU"


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield what stands in another's way."""
    if command.value("gpu-layers") == "0":
        yield from _without_gpu(command)
    else:
        yield from _experts(command)
    if not command.has("gpu-layers") and not reader.is_current:
        yield from _no_layers(command, reader)
    yield from _several_gpus(command)


def _experts(command: Command) -> Iterator[Finding]:
    """Experts that are sent to RAM more than once, or to a GPU too late."""
    everything = command.last("cpu-moe")
    patterns = list(command.all("override-tensor"))
    sending = [(at, item) for at, item in patterns if _sends_all(item)]
    cause = sending[0] if sending else everything
    if cause is None:
        idle: list[tuple[int, Item]] = []
    else:
        idle = [*command.all("n-cpu-moe")]
        idle += [everything] if everything is not None and everything[0] != cause[0] else []
    for at, item in idle:
        assert cause is not None  # noqa: S101 - said above
        shown = " ".join(cause[1].given.words)
        yield Finding(
            flag=item.shown,
            severity=Severity.WARNING,
            what=f"{' '.join(item.given.words)} does nothing beside {shown}",
            why="that keeps the experts of all layers in RAM already; take out the one that you "
            "do not mean",
            replacement="",
            edits=replaced(at),
            at=at,
        )
    if everything is not None:
        yield from _too_late(everything, patterns)


def _sends_all(item: Item) -> bool:
    return any(
        all(_matches(pattern, name) for name in _EXPERTS)
        for pattern, _, buffer in _overrides(item)
        if buffer == _CPU
    )


def _too_late(everything: tuple[int, Item], patterns: list[tuple[int, Item]]) -> Iterator[Finding]:
    for at, item in patterns:
        late = [
            f"{pattern}={buffer}"
            for pattern, _, buffer in _overrides(item)
            if buffer != _CPU and any(_matches(pattern, name) for name in _EXPERTS)
        ]
        if at > everything[0] and late:
            first = everything[1].given.words
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{item.given.flag} {','.join(late)} comes after {first[0]}",
                why="the first placement that matches a tensor counts, so that the experts stay "
                "in RAM",
                replacement=quoted(*item.given.words, *first),
                at=at,
            )


def _overrides(item: Item) -> Iterator[tuple[str, str, str]]:
    return (part.partition("=") for value in item.given.values for part in value.split(","))


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        # llama-server's dialect of regular expressions is another one.
        return False


def _without_gpu(command: Command) -> Iterator[Finding]:
    for at, item in command.all(*_IN_RAM):
        to_gpu = [part for part in _overrides(item) if part[2] != _CPU and item.given.values]
        if item.name == "override-tensor" and to_gpu:
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{' '.join(item.given.words)}, beside -ngl 0",
                why="one sends weights to a GPU, the other keeps all layers in RAM",
                replacement=quoted("-ngl", "99"),
                at=at,
            )
        else:
            yield Finding(
                flag=item.shown,
                severity=Severity.WARNING,
                what=f"{' '.join(item.given.words)} does nothing beside -ngl 0",
                why="all weights are in RAM anyway; -ngl 99 sends the others to the GPU, if that "
                "was meant",
                replacement="",
                edits=replaced(at),
                at=at,
            )


def _no_layers(command: Command, reader: Reader) -> Iterator[Finding]:
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


def _several_gpus(command: Command) -> Iterator[Finding]:
    mode = command.value("split-mode")
    split, main = command.last("tensor-split"), command.last("main-gpu")
    if mode == "none" and split is not None:
        yield _idle_gpu(split, "with -sm none one GPU has everything, and nothing is split")
    if mode == "layer" and main is not None:
        yield _idle_gpu(main, "with -sm layer no GPU is the main one")


def _idle_gpu(found: tuple[int, Item], why: str) -> Finding:
    at, item = found
    return Finding(
        flag=item.shown,
        severity=Severity.WARNING,
        what=f"{' '.join(item.given.words)} does nothing",
        why=why,
        replacement="",
        edits=replaced(at),
        at=at,
    )
