"""The caches of the chat, put aside while a measurement uses the contexts."""

from collections.abc import Sequence

from spectui.llama.context import Context

_CAPACITY_BYTES = 2 << 30


class Conversation:
    """Knows which contexts hold the chat, and keeps its caches when they do not.

    What is lost costs time, never correctness: the chat's prompt is then evaluated again.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        """Put aside at most ``capacity_bytes``; a larger chat is evaluated again."""
        self._capacity_bytes = capacity_bytes
        self._present: set[Context] = set()
        self._aside: dict[Context, tuple[bytes, list[int]]] = {}

    def put_aside(self, contexts: Sequence[Context]) -> None:
        """Save the chat's caches, if ``contexts`` hold them: others are about to overwrite them."""
        leaving = [context for context in contexts if context in self._present]
        self._present.difference_update(leaving)
        kept_bytes = sum(len(cache) for cache, _tokens in self._aside.values())
        if kept_bytes + sum(context.state_bytes for context in leaving) <= self._capacity_bytes:
            self._aside |= {context: (context.save(), context.tokens.copy()) for context in leaving}

    def take_up(self, contexts: Sequence[Context]) -> None:
        """Make the contexts hold the chat, or nothing."""
        for context in contexts:
            if context in self._present:
                continue
            context.clear()
            if context in self._aside:
                context.restore(*self._aside[context])
        self._aside = {}
        self._present = set(contexts)

    def forget(self, context: Context) -> None:
        """Forget a context that is about to close."""
        self._aside.pop(context, None)
        self._present.discard(context)

    def clear(self) -> None:
        """Forget everything."""
        self._aside = {}
        self._present = set()
