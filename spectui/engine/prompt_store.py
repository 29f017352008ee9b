"""Caches of evaluated prompts, as many as memory has room for."""

import time
from collections.abc import Callable, Sequence

from spectui.llama.context import Context, Logits
from spectui.llama.pair import TargetContext
from spectui.speculative.models import Outputs

Tokens = tuple[int, ...]
_Key = tuple[type[Context], Tokens]


_Kept = tuple[bytes, Logits | None]
"""A cache and, of a target, the [n_vocab] float32 logits of the prompt's last token, which it does
not hold."""


def _n_bytes(kept: _Kept) -> int:
    cache, logits = kept
    return len(cache) + (0 if logits is None else logits.nbytes)


class PromptStore:
    """Caches of target, draft and MTP layers right behind a prompt.

    A restored cache equals the evaluated one bit by bit, so results do not depend on whether a
    prompt was reused.

    Measurements use the same prompts again and again, in order. A store that is a little too small
    and drops the least recently used prompt would never hold the next one. So what is kept stays,
    and what does not fit is refused.
    """

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        """Keep nothing yet.

        Args:
            free_bytes: returns how many bytes may be kept beside the present ones; if negative,
                how many of those have to go.
        """
        self._free_bytes = free_bytes
        self._kept: dict[_Key, _Kept] = {}

    @property
    def n_bytes(self) -> int:
        """Size of all that is kept."""
        return sum(map(_n_bytes, self._kept.values()))

    def restore(self, contexts: Sequence[Context], prompt: Tokens) -> bool:
        """Fill the caches of all ``contexts`` with ``prompt``.

        Those of a target and its MTP layers belong together: to read on, the layers need what the
        target makes of the prompt.

        Args:
            contexts: are empty.
            prompt: the prompt.

        Returns:
            Whether the caches of all contexts are kept; if not, the contexts stay empty.
        """
        self._drop_excess()
        if not all((type(one), prompt) in self._kept for one in contexts):
            return False
        for context in contexts:
            cache, logits = self._kept[type(context), prompt]
            context.restore(cache, prompt)
            if isinstance(context, TargetContext):
                context.prompt_logits = logits
        return True

    def keep(self, context: Context, prompt: Tokens) -> bool:
        """Keep the cache of a context that has just evaluated ``prompt``; False without room."""
        key = type(context), prompt
        if key not in self._kept:
            logits = context.logits(0) if isinstance(context, TargetContext) else None
            n_logits = 0 if logits is None else logits.nbytes
            if context.state_bytes + n_logits > self._free_bytes():
                return False
            self._kept[key] = context.save(), None if logits is None else logits.copy()
        return True

    def read(self, context: Context, prompt: Tokens) -> float | None:
        """Have an empty context hold ``prompt``, and keep it if there is room.

        Returns:
            Seconds of its evaluation; None where it was kept before.
        """
        if self.restore((context,), prompt):
            return None
        began = time.perf_counter()
        context.decode(prompt, Outputs.LAST)
        read_s = time.perf_counter() - began
        self.keep(context, prompt)
        return read_s

    def forget(self, kind: type[Context]) -> None:
        """Drop the caches of a kind of context, since other models have other ones."""
        self._kept = {key: one for key, one in self._kept.items() if not issubclass(key[0], kind)}

    def clear(self) -> None:
        """Drop all caches, since another target has other ones."""
        self._kept.clear()

    def _drop_excess(self) -> None:
        """Drop what was kept last, if others need the memory: earlier prompts still hit."""
        missing = -self._free_bytes()
        while missing > 0 and self._kept:
            missing -= _n_bytes(self._kept.popitem()[1])
