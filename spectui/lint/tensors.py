"""Rules that compare placements with the tensors of a model."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, left_out
from spectui.lint.overrides import overrides
from spectui.severity import Severity

_EXPERTS = re.compile(r"blk\.(\d+)\.ffn_(up|down|gate|gate_up)_(ch|)exps")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    who: str
    tensors: frozenset[str]
    override: str
    everything: str
    first: str


def rule(command: Command, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on placements that match no tensor."""
    for model in _models(command):
        layers = {int(one[1]) for one in map(_EXPERTS.match, model.tensors) if one is not None}
        for at, item in command.all(model.override):
            yield from _unmatched(at, item, model)
        for at, item in command.all(model.everything, model.first):
            if not layers:
                yield _without_experts(at, item, model)
        found, wanted = command.last(model.first), command.number(model.first)
        if found is not None and wanted is not None and layers and wanted > max(layers) + 1:
            yield _too_many(found, len(layers))


def _models(command: Command) -> Iterator[_Model]:
    known = command.known
    for who, tensors, of_draft in (
        ("the model", known.target_tensors, ""),
        ("the draft", known.draft_tensors, "-draft"),
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
                what=f"{item.given.flag} {one.text} matches no tensor of {model.who}",
                why="a pattern that is part of no name does nothing",
                at=at,
            )


def _without_experts(at: int, item: Item, model: _Model) -> Finding:
    return left_out(
        at,
        item,
        what=f"{' '.join(item.given.words)} does nothing: {model.who} has no experts",
        why="it keeps experts in RAM; -ngl says how many layers of a dense model go to the GPU",
    )


def _too_many(found: tuple[int, Item], n_layers: int) -> Finding:
    at, item = found
    return Finding(
        flag=item.shown,
        severity=Severity.NOTE,
        what=f"{' '.join(item.given.words)}, but {n_layers} layers have experts",
        why="it means all of them, as the option for all of them does",
        at=at,
    )
