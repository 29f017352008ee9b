"""A target and its drafts by their headers: all there is without a llama.cpp library."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spectui.engine.commands import ComparePair
from spectui.errors import BadInputError
from spectui.models.beside import Header, header_of, inspected
from spectui.models.facts import ModelFacts, check_is_target
from spectui.models.ranking import ModelInspected


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLook:
    """What headers say of a target and its drafts."""

    target: ModelFacts
    drafts: Mapping[str, ModelInspected]
    """By name, beside the target."""


def look_at_headers(target: Path, drafts: Mapping[str, Path]) -> HeaderLook:
    """Look at a target and at drafts for it.

    Raises:
        BadInputError: the target's file is unusable, or is no model that generates.
    """
    header = target_header(target)
    found = {name: _beside(header, path) for name, path in drafts.items()}
    return HeaderLook(target=header.facts, drafts=found)


def compare_headers(command: ComparePair) -> ModelInspected:
    """Look at a draft, or at the target itself, beside a target; as ``Engine.compare``."""
    target, path = command.target, command.draft
    try:
        return _beside(target_header(target), path)
    except BadInputError as error:
        return ModelInspected(target=target, path=path, facts=None, reason=str(error))


def target_header(path: Path) -> Header:
    """Read the header of a target.

    Raises:
        BadInputError: the file is unusable, or is no model that generates.
    """
    header = header_of(path)
    check_is_target(path, header.gguf)
    return header


def _beside(target: Header, path: Path) -> ModelInspected:
    try:
        return inspected(target, header_of(path))
    except BadInputError as error:
        return ModelInspected(target=target.facts.path, path=path, facts=None, reason=str(error))
