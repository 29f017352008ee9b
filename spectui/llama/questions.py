"""What the process that plans is asked and answers. Pure: who asks need not load llama.cpp."""

from enum import Enum
from pathlib import Path

from spectui.errors import SpectuiError
from spectui.llama.planned import Backend, ModelPlan, ModelRequest
from spectui.models.gguf import FileIdentity
from spectui.models.pairs import Outline


class Ask(Enum):
    """Questions without particulars."""

    ARE_YOU_THERE = "are you there"
    """Answered by itself, once llama.cpp is loaded. It starts no driver."""
    BACKEND = "backend"
    """Answered by a ``Backend``."""
    OUTLINE = "outline"
    """Answered by the ``Outline`` of the model that was planned last."""


Question = Ask | ModelRequest

Answer = Path | Ask | Backend | tuple[FileIdentity, ModelPlan] | Outline | SpectuiError
"""A path says which file is looked at next; the answer itself comes after it."""
