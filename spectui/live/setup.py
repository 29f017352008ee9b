"""What a live session runs: a pair, how it drafts, how it samples."""

from dataclasses import dataclass, field, replace

from spectui.options.setup import SamplingConfig, Schedule, Setup
from spectui.options.speculation import Speculation
from spectui.sessions import LoadOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetup(Setup):
    """One pair with all its options."""

    server_threads: int = 0
    """Threads that an exported command asks for, 0 for the server's own choice: here one core may
    be left to the screen."""
    speculation: Speculation | None = field(default_factory=Speculation)
    """None leaves the draft unused."""
    resting: Speculation | None = None
    """How it drafted before that was switched off."""
    schedule: Schedule = Schedule.FAST
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    n_predict: int = -1
    """Most tokens per answer, -1 for as many as the context holds."""
    system: str = ""
    """The system message, empty for none."""

    @property
    def drafting(self) -> Speculation | None:
        """How to draft, as far as there is a draft for it; None for not at all."""
        speculation = self.speculation
        if speculation is None or (speculation.needs_draft and self.draft is None):
            return None
        return speculation

    @property
    def wanted(self) -> Speculation:
        """How it drafts, or would if it were switched on."""
        return self.speculation or self.resting or Speculation()

    @property
    def can_draft(self) -> bool:
        """Whether there is anything to switch on and off."""
        return self.draft is not None or not self.wanted.needs_draft

    def loaded_as(self, load: LoadOptions) -> "LiveSetup":
        """The same, with the models placed as in an earlier session."""
        return replace(
            self,
            target=load.target,
            draft=load.draft,
            context=load.context,
            server_threads=load.server_threads,
            extra=load.extra,
        )
