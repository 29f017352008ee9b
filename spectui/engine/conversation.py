"""The chat's caches, put aside while a measurement uses the contexts, and what it has taught."""

from collections import defaultdict
from collections.abc import Sequence

from spectui.llama.context import Context
from spectui.options.drafters import Ngram
from spectui.speculative.ngram import NgramMemory

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
        self._memories: defaultdict[Ngram, NgramMemory] = defaultdict(NgramMemory)

    def ngram_memory(self, drafter: Ngram) -> NgramMemory:
        """State that an n-gram drafter with these settings has learnt in the chat's turns."""
        return self._memories[drafter]

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
        self._memories.clear()
        self._aside = {}
        self._present = set()
