"""Evaluated prompts kept for the next time: measuring must not pay for a prompt again and again."""

from collections import OrderedDict
from dataclasses import dataclass

from spectui.llama.context import Context, Logits
from spectui.llama.pair import TargetContext

_CAPACITY_BYTES = 1 << 30

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetState:
    cache: bytes
    logits: Logits
    """[n_vocab] float32 of the prompt's last token, which the cache does not hold."""


class PromptStore:
    """Least recently used caches of target and draft, up to a fixed number of bytes.

    A restored cache equals the evaluated one bit by bit, so results do not depend on whether a
    prompt was reused.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        """Keep at most ``capacity_bytes``."""
        self._capacity_bytes = capacity_bytes
        self._target: OrderedDict[Tokens, _TargetState] = OrderedDict()
        self._draft: OrderedDict[tuple[Context, Tokens], bytes] = OrderedDict()

    def restore_target(self, target: TargetContext, prompt: Tokens) -> bool:
        """Fill the target's cache with ``prompt`` if it is known."""
        state = self._target.get(prompt)
        if state is None:
            return False
        self._target.move_to_end(prompt)
        target.restore(state.cache, prompt)
        target.prompt_logits = state.logits
        return True

    def keep_target(self, target: TargetContext, prompt: Tokens) -> None:
        """Remember the target's cache, which holds exactly ``prompt``, and its logits."""
        if prompt in self._target:
            return
        self._target[prompt] = _TargetState(cache=target.save(), logits=target.logits(0).copy())
        self._evict()

    def restore_draft(self, draft: Context, prompt: Tokens) -> bool:
        """Fill the draft's cache with ``prompt`` if it is known."""
        cache = self._draft.get((draft, prompt))
        if cache is None:
            return False
        self._draft.move_to_end((draft, prompt))
        draft.restore(cache, prompt)
        return True

    def keep_draft(self, draft: Context, prompt: Tokens) -> None:
        """Remember the draft's cache, which holds exactly ``prompt``."""
        if (draft, prompt) in self._draft:
            return
        self._draft[draft, prompt] = draft.save()
        self._evict()

    def forget_draft(self) -> None:
        """Another draft has other caches."""
        self._draft.clear()

    def clear(self) -> None:
        """Another target has other caches."""
        self._target.clear()
        self._draft.clear()

    def _evict(self) -> None:
        # The draft's caches go first: they are cheap to make again.
        while self._n_bytes() > self._capacity_bytes:
            (self._draft or self._target).popitem(last=False)

    def _n_bytes(self) -> int:
        targets = sum(len(state.cache) + state.logits.nbytes for state in self._target.values())
        return targets + sum(map(len, self._draft.values()))
