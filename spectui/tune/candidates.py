"""Candidates for drafting in a study: draft models, and the target's own MTP layers."""

from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.engine.events import ModelLoaded, Role
from spectui.errors import SpectuiError
from spectui.measure.served_models import NOT_LOADED
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ModelOptions


def draft_name(stem: str) -> str:
    """Name of the draft model whose file has this stem; never the name of the MTP layers."""
    return f"{stem}#1" if stem == MTP_KIND else stem


def drafter_name(loaded: ModelLoaded) -> str:
    """Name of the drafter: a loaded draft, or a target that was loaded to draft for itself."""
    return MTP_KIND if loaded.role is Role.TARGET else draft_name(loaded.info.path.stem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A draft that may be tried. ``MTP_KIND`` is the name of the target's own MTP layers alone."""

    name: str
    options: ModelOptions
    loaded: ModelLoaded | None
    """Facts of the loaded model; None if it could not be loaded."""
    error: SpectuiError | None = None
    """Why it cannot be used."""
    is_mtp_file: bool = False
    """Whether it is a file of MTP layers alone."""

    @property
    def is_mtp(self) -> bool:
        """Whether it is the target's own MTP layers, which are loaded with it.

        Then ``options`` and ``loaded`` are the target's.
        """
        return self.name == MTP_KIND

    @property
    def mtp_file(self) -> tuple[tuple[str, int], ...]:
        """Name with the number of layers, if it is a file of MTP layers that was loaded."""
        if self.loaded is None or not self.is_mtp_file:
            return ()
        return ((self.name, self.loaded.mtp_layers),)

    @property
    def is_short(self) -> bool:
        """Whether it drafts a few tokens at most: several MTP layers, which draft one each."""
        return self.loaded is not None and self.loaded.mtp_layers > 1

    @property
    def reason(self) -> str | None:
        """The error as a sentence."""
        return None if self.error is None else str(self.error)

    def document(self) -> Json:
        """A candidate with its memory as JSON, where it was loaded."""
        loaded, memory_bytes = self.loaded, None
        unknown = "it could not be loaded" if self.error else NOT_LOADED
        if self.is_mtp:
            unknown = "its layers are part of the target"
        elif loaded is not None:
            memory_bytes = sum(buffer.size_bytes for buffer in loaded.memory.buffers)
        known = {"path": str(self.options.path)}
        return {
            **(known if self.loaded is None else self.loaded.document()),
            # As trials call it, not as its file does.
            "name": self.name,
            **or_reason("memory_bytes", memory_bytes, unknown),
            "compatible": self.reason is None,
            "reason": self.reason,
        }
