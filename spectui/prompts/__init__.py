"""The prompts that measurements run on: the user's own files, or the built-in suite."""

from spectui.prompts.loader import builtin_suite, load_prompts
from spectui.prompts.prompt import ChatMessage, Prompt

__all__ = ["ChatMessage", "Prompt", "builtin_suite", "load_prompts"]
