"""How a conversation becomes a prompt."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Options of a command for the chat template, besides the model's own."""

    template: str | None = None
    """``--chat-template`` or the content of ``--chat-template-file``; None for the model's own."""
    arguments: str = "{}"
    """``--chat-template-kwargs`` with what other options add to them, a JSON object."""


PLAIN = Rendering()
"""The model's own template, as it is."""
