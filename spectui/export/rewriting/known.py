"""Facts about a command's models, for rules that read no files themselves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts from headers, as far as rules need them; None if the file was not read."""

    target_tensors: frozenset[str] | None = None
    """Names of the target's tensors."""
    draft_tensors: frozenset[str] | None = None
    draft_kind: str | None = None
    """Name of the draft's kind in ``--spec-type``; None also for an ordinary draft model."""
