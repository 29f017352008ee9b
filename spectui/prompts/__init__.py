"""The prompts that measurements run on: the user's own files, or the built-in suite."""

from spectui.prompts.loader import ChatMessage, Prompt, builtin_suite, load_prompts

__all__ = ["ChatMessage", "Prompt", "builtin_suite", "load_prompts"]
