"""Rules for where a draft is, and for placements of weights that match no tensor."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, note, warning
from spectui.commands.reader import Reader
from spectui.options.reading import tensor_pattern
from spectui.options.setup import EXPERTS

_EXPERT = re.compile(rf"blk\.(\d+)\.{EXPERTS}")


def placement_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on a draft that is kept apart, and on placements without effect."""
    yield from _draft_in_ram(command, reader)
    if reader.is_current:
        yield from _locked_and_direct(command)
    if command.target_tensors is not None:
        yield from _unmatched(command, "the model", command.target_tensors, "")
    if command.draft_tensors is not None:
        yield from _unmatched(command, "the draft", command.draft_tensors, "-draft")


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


def _locked_and_direct(command: ServerCommand) -> Iterator[Finding]:
    """Find two former switches of which ``--load-mode`` takes one."""
    locked, direct = command.last("mlock"), command.last("direct-io")
    if locked is not None and direct is not None:
        yield warning(
            direct,
            f"{direct[1].shown} is lost beside {locked[1].shown}",
            "--load-mode has no mode for both; --load-mode dio is the other one",
        )


def _unmatched(
    command: ServerCommand, who: str, tensors: frozenset[str], suffix: str
) -> Iterator[Finding]:
    """Find placements of a model without effect; ``suffix`` ends the names of their options."""
    for at, item in command.all(f"override-tensor{suffix}"):
        for text in (part for value in item.values for part in value.split(",")):
            # None where llama-server's dialect of regular expressions is another one.
            pattern = tensor_pattern(text.partition("=")[0])
            if pattern is not None and not any(map(pattern.search, tensors)):
                yield warning(
                    (at, item),
                    f"{item.flag} {text} matches no tensor of {who}",
                    "a pattern that is part of no name does nothing",
                )
    layers = {int(one[1]) for one in map(_EXPERT.match, tensors) if one is not None}
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
