"""A live session's setup, and its events besides the engine's own."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from spectui.commands.takeover import rendering_of
from spectui.errors import EngineDiedError
from spectui.live.sessions import LoadOptions
from spectui.models.facts import is_mtp_file
from spectui.options.setup import OWN_TEMPLATE, Rendering, SamplingConfig, Setup
from spectui.options.speculation import Speculation

if TYPE_CHECKING:
    # They load numpy, or the tables of options; a screen that only waits for events need not.
    from spectui.commands.takeover import Takeover
    from spectui.live.recording import ChatRecording


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetup(Setup):
    """One pair with all its options."""

    speculation: Speculation | None = field(default_factory=Speculation)
    """None leaves the draft unused."""
    resting: Speculation | None = None
    """Drafting as it was before it was switched off."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    n_predict: int = -1
    """Most tokens per answer, -1 for as many as the context holds."""
    system: str = ""
    """The system message, empty for none."""
    rendering: Rendering = OWN_TEMPLATE
    """How conversations are made prompts."""
    taken: "Takeover | None" = None
    """The command that ``--from`` has read, in whose form commands are handed over."""

    @property
    def drafting(self) -> Speculation | None:
        """Drafting as far as there is a draft for it; None for none."""
        speculation = self.speculation
        if speculation is None or (speculation.needs_draft and self.draft is None):
            return None
        return speculation

    @property
    def has_mtp_file(self) -> bool:
        """Whether its draft is a file of MTP layers alone."""
        return self.draft is not None and is_mtp_file(self.draft.path)

    @property
    def wanted(self) -> Speculation:
        """Speculation in use, or the one that would be used if it were switched on."""
        return self.speculation or self.resting or Speculation()

    @property
    def can_draft(self) -> bool:
        """Whether there is anything to switch on and off."""
        return self.draft is not None or not self.wanted.needs_draft

    def loaded_as(self, load: LoadOptions) -> "LiveSetup":
        """A copy with the models placed as in an earlier session.

        Raises:
            BadInputError: its chat template cannot be read any more.
        """
        kept = msgspec.structs.asdict(load) | {"sampling": load.sampling or self.sampling}
        return replace(self, taken=None, rendering=rendering_of(load.extra), **kept)


class Activity(StrEnum):
    """State of a live session's pair."""

    STARTING = "starting: loading llama.cpp"
    NO_MODEL = "no model"
    LOADING = "loading"
    READY = "ready"
    ANSWERING = "answering"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMeasured:
    """The target was measured alone."""

    tokens_per_s: float
    step_s: float
    """Seconds of one decode of one token: V(1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RamMeasured:
    """The limit of the machine's RAM was measured, now or at an earlier start."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsLost:
    """The process with the models has ended idly: the next turn loads them again."""

    error: EngineDiedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecorded:
    """Recording has begun, more is known of the answers, or another pair is being loaded."""

    recording: "ChatRecording | None"
