"""A setting that is measured: a drafter with its numbers, or the target alone."""

from dataclasses import dataclass

from spectui.documents import Json
from spectui.options.drafters import NgramDrafter
from spectui.options.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Settings of a trial: a drafter with its options, or none (the off arm)."""

    draft: str | None
    """Name of the candidate; None for off and for an n-gram drafter, which need no draft model."""
    speculation: Speculation | None
    layout: str | None = None
    """How the target lies beside the draft, in words, where that differs by draft."""

    @property
    def is_off(self) -> bool:
        """Whether nothing drafts."""
        return self.speculation is None

    @property
    def reader(self) -> str | None:
        """The candidate that reads prompts beside the target; None where no model drafts."""
        reads = self.speculation is not None and self.speculation.model is not None
        return self.draft if reads else None

    @property
    def drafter(self) -> str:
        """Name of the drafter: the candidate, kinds of n-gram drafters, or off."""
        if self.speculation is None:
            return "off"
        return " + ".join(
            one.kind if isinstance(one, NgramDrafter) else str(self.draft)
            for one in self.speculation.chain
        )

    @property
    def label(self) -> str:
        """Name of the settings in tables and sentences."""
        chain = () if self.speculation is None else self.speculation.chain
        settings = [one.summary for one in chain]
        if self.layout is not None:
            settings.append(self.layout)
        text = "; ".join(filter(None, settings))
        return f"{self.drafter}: {text}" if text else self.drafter

    def document(self) -> Json:
        """Drafter and setting in documents; ``draft`` is null where no draft model is needed.

        ``layout`` is there where it differs by draft.
        """
        how = {} if self.speculation is None else self.speculation.document()
        placed = {} if self.layout is None else {"layout": self.layout}
        return {"draft": self.draft, **how, **placed}


OFF = Arm(draft=None, speculation=None)
