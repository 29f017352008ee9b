"""The caches of the chat, put aside while a measurement uses the contexts."""

from collections.abc import Sequence

from spectui.llama.context import Context

_CAPACITY_BYTES = 2 << 30


class Conversation:
    """Knows whether the contexts hold the chat, and keeps its caches when they do not.

    What is lost costs time, never correctness: the chat's prompt is then evaluated again.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        """Put aside at most ``capacity_bytes``; a larger chat is evaluated again."""
        self._capacity_bytes = capacity_bytes
        self._is_present = False
        self._aside: dict[Context, tuple[bytes, list[int]]] = {}

    def put_aside(self, contexts: Sequence[Context]) -> None:
        """Save the chat's caches, if the contexts hold them: others are about to overwrite them."""
        if not self._is_present:
            return
        self._is_present = False
        if sum(context.state_bytes for context in contexts) <= self._capacity_bytes:
            self._aside = {context: (context.save(), context.tokens.copy()) for context in contexts}

    def take_up(self, contexts: Sequence[Context]) -> None:
        """Make the contexts hold the chat, or nothing."""
        if self._is_present:
            return
        for context in contexts:
            context.clear()
            if context in self._aside:
                context.restore(*self._aside[context])
        self._aside = {}
        self._is_present = True

    def forget(self, context: Context) -> None:
        """Forget a context that is about to close."""
        self._aside.pop(context, None)

    def clear(self) -> None:
        """Forget everything."""
        self._aside = {}
        self._is_present = False
