"""What is known of a loaded model. A module of its own: a screen need not load llama.cpp."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Rollback(StrEnum):
    """How a context forgets rejected tokens."""

    TRUNCATE = "truncate"
    """``llama_memory_seq_rm`` forgets a suffix: attention-only models."""
    SNAPSHOT = "snapshot"
    """The same, as far as the snapshots of a recurrent state reach: ``n_rs_seq``."""
    CHECKPOINT = "checkpoint"
    """A recurrent state is saved before a batch and restored; what counts is decoded again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Metadata of a loaded model."""

    path: Path
    arch: str
    name: str
    n_params: int
    size_bytes: int
    n_layers: int
    n_ctx_train: int
    n_vocab: int
    has_chat_template: bool
    overridden: tuple[str, ...] = ()
    """Metadata that ``--override-kv`` has changed, as ``KEY=TYPE:VALUE``."""

    @property
    def alteration(self) -> str | None:
        """What the overrides mean for the output, in a sentence; None for the model as it is."""
        if not self.overridden:
            return None
        return (
            f"{self.path.name} runs with {', '.join(self.overridden)}: its output is not that of "
            "the model as it is"
        )
