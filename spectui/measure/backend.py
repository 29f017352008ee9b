"""Decoding of prompts, by the engine in this process or by llama-servers."""

from typing import Protocol

from spectui.engine.commands import Generate, ProbeMargin
from spectui.engine.events import GenerationResult, MarginProbed


class Backend(Protocol):
    """Decoding engine, as far as measuring needs it: an ``Engine`` or its stand-in.

    Who drafts is what was loaded last, by ``Loading``.
    """

    @property
    def n_interruptions(self) -> int:
        """Number of times that others had the engine in between."""
        ...

    @property
    def waited_s(self) -> float:
        """Seconds that others had it."""
        ...

    @property
    def n_beside_off(self) -> int | None:
        """Settings that take turns with the target alone, prompt by prompt.

        None for as many as share a draft. 0 where a change loads models, so that turns are long.
        """
        ...

    def generate(self, command: Generate) -> GenerationResult:
        """Continue a prompt."""
        ...

    def probe_margin(self, command: ProbeMargin) -> MarginProbed | None:
        """Probe how clear the target's choice is; None where a server does not tell."""
        ...


class Loading(Protocol):
    """Loader of models, as far as a search needs it: a ``Loader`` or its stand-in."""

    @property
    def n_cpu_moe(self) -> int | None:
        """Layers whose experts the target keeps in RAM now; None where that is not searched."""
        ...

    @property
    def move_s(self) -> float:
        """Seconds that the last reload of the target took."""
        ...

    def load(self, draft: str | None) -> None:
        """Have a draft ready."""
        ...
