"""What the header of a file tells of a model that a llama-server runs."""

from dataclasses import dataclass
from pathlib import Path

from spectui.config import ModelOptions
from spectui.errors import BadInputError
from spectui.llama.architectures import architecture
from spectui.models.draft_files import reader_kind
from spectui.models.facts import facts_of
from spectui.models.gguf import read_gguf
from spectui.served.room import size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that was not loaded here. What its header does not tell is None."""

    options: ModelOptions
    arch: str | None
    name: str | None
    size_bytes: int | None
    """Of its tensors, as of a model that is loaded here."""
    file_bytes: int
    """Of its files, headers included."""
    reader: str | None
    """Of ``HIDDEN_STATE_KINDS``, for a draft that reads the target's hidden states."""
    mtp_layers: int
    redoes_rounds: bool
    """Whether llama-server has to redo rounds that reject something; True where it is unknown."""

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.options.path

    @property
    def alteration(self) -> str | None:
        """What ``--override-kv`` means for its output, in a sentence; None for as it is."""
        if not self.options.override_kv:
            return None
        told = ", ".join(one.text for one in self.options.override_kv)
        return f"{self.path.name} runs with {told}: its output is not that of the model as it is"


def look_at(options: ModelOptions) -> ServedModel:
    """Read what can be read: the server may run files that the engine does not understand."""
    file_bytes = size_bytes(options.path)
    try:
        gguf = read_gguf(options.path)
    except BadInputError:
        return ServedModel(
            options=options,
            arch=None,
            name=None,
            size_bytes=None,
            file_bytes=file_bytes,
            reader=None,
            mtp_layers=0,
            redoes_rounds=True,
        )
    facts = facts_of(options.path, gguf)
    known = architecture(facts.arch)
    return ServedModel(
        options=options,
        arch=facts.arch,
        name=facts.name,
        size_bytes=facts.size_bytes,
        file_bytes=file_bytes,
        reader=reader_kind(gguf),
        mtp_layers=facts.mtp_layers,
        redoes_rounds=known.has_state or not known.is_known,
    )
