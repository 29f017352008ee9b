"""What is known of a loaded model. A module of its own: a screen need not load llama.cpp."""

from dataclasses import dataclass
from pathlib import Path


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
