"""A prompt of a measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One input of a measurement: raw text, or messages for the model's chat template.

    Raises:
        ValueError: not exactly one of ``text`` and ``messages`` is given.
    """

    id: str
    category: str
    text: str | None = None
    """Fed to the model as it stands."""
    messages: tuple[ChatMessage, ...] = ()

    def __post_init__(self) -> None:
        if (self.text is None) == (not self.messages):
            raise ValueError(f"prompt {self.id!r} needs exactly one of text and messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPrompt(Prompt):
    """A prompt of a chat, with the answer that is there already."""

    answer: str
    name: str
    """Name of the answer on screen."""
    model: str | None
    """Name of the model that wrote it, where the export has one."""
