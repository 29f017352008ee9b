"""Where the prompts of a search come from."""

from enum import StrEnum


class PromptSource(StrEnum):
    """What trials decode."""

    BUILTIN = "built-in prompts"
    FILES = "files"
    CHAT = "turns of this chat"
