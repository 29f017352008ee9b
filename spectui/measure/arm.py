"""Settings that are measured against one another."""

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
    n_cpu_moe: int | None = None
    """Layers of the target that keep their experts in RAM, where the study searches that."""

    @property
    def is_off(self) -> bool:
        """Whether nothing drafts."""
        return self.speculation is None

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
        if self.n_cpu_moe is not None:
            settings.append(f"n_cpu_moe {self.n_cpu_moe}")
        told = "; ".join(filter(None, settings))
        return f"{self.drafter}: {told}" if told else self.drafter

    def document(self) -> Json:
        """Drafter and setting in documents; ``draft`` is null where no draft model is needed.

        ``n_cpu_moe`` is there where it is searched.
        """
        how = {} if self.speculation is None else self.speculation.document()
        placed = {} if self.n_cpu_moe is None else {"n_cpu_moe": self.n_cpu_moe}
        return {"draft": self.draft, **how, **placed}


OFF = Arm(draft=None, speculation=None)
