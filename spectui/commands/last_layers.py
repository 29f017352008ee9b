"""``-ncmoe`` of ik_llama.cpp in llama.cpp's words: there it counts from the last layer."""

import re
from collections.abc import Iterable
from dataclasses import replace

from spectui.commands.command import ServerCommand
from spectui.commands.items import divide
from spectui.commands.recognition import recognise
from spectui.options.dialect import Dialect
from spectui.options.setup import EXPERTS

_EXPERTS = re.compile(rf"blk\.(\d+)\.{EXPERTS}\.weight")
_PREDICTING = re.compile(r"blk\.(\d+)\.nextn\.")
_OPTIONS = ("cpu-moe", "n-cpu-moe")


def counts_from_last(command: ServerCommand) -> bool:
    """Whether the command keeps experts of the last layers in RAM, as ik_llama.cpp counts."""
    found = command.last(*_OPTIONS)
    is_number = found is not None and found[1].name == "n-cpu-moe" and bool(_number(found[1].value))
    return is_number and recognise(command).dialect is Dialect.IK


def from_first(command: ServerCommand, tensors: Iterable[str]) -> ServerCommand:
    """A command that counts from the last layer, with a pattern for the layers that it means.

    It is right for one GPU, and for ``-sm graph``: with several, ``-sm layer`` spreads as many
    layers over all of them.

    Args:
        command: the command.
        tensors: names of its model's tensors.
    """
    found = command.last(*_OPTIONS)
    assert found is not None  # noqa: S101 - asked before
    layers = _layers(tensors)[-_number(found[1].value) :]
    pattern = rf"blk\.({'|'.join(map(str, layers))})\.{EXPERTS}"
    # The last of them counts there, and behind every -ot.
    items = [item for item in command.items if item.name not in _OPTIONS]
    written = divide(("-ot", f"{pattern}=CPU")) if layers else ()
    return replace(command, items=(*items, *written))


def _number(value: str) -> int:
    return int(value) if value.isascii() and value.isdigit() else 0


def _layers(tensors: Iterable[str]) -> list[int]:
    """Layers with experts, without those that predict several tokens."""
    names = tuple(tensors)
    predicting = {found[1] for found in map(_PREDICTING.match, names) if found is not None}
    layers = {found[1] for found in map(_EXPERTS.fullmatch, names) if found is not None}
    return sorted(map(int, layers - predicting))
