"""What somebody who may read files knows of a command's models."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Headers, as far as rules ask for them; None for what nobody has looked at."""

    target_tensors: frozenset[str] | None = None
    """Names of the target's tensors."""
    draft_tensors: frozenset[str] | None = None
    draft_kind: str | None = None
    """What ``--spec-type`` calls the draft's file; None, too, for a model of its own."""
