"""Evaluated prompts kept for reuse: a measurement must not evaluate a prompt again and again."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from spectui.llama.context import Logits
from spectui.llama.mtp import MtpContext
from spectui.llama.pair import DraftContext, TargetContext

_CAPACITY_BYTES = 1 << 30

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetState:
    cache: bytes
    logits: Logits
    """[n_vocab] float32 of the prompt's last token, which the cache does not hold."""
    mtp: bytes | None = None
    """Cache of the target's MTP layers, if they have read the prompt."""

    @property
    def n_bytes(self) -> int:
        return len(self.cache) + self.logits.nbytes + len(self.mtp or b"")


class PromptStore:
    """Least recently used caches of target and draft, up to a fixed number of bytes.

    A restored cache equals the evaluated one bit by bit, so results do not depend on whether a
    prompt was reused.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        """Keep at most ``capacity_bytes``."""
        self._capacity_bytes = capacity_bytes
        self._target: OrderedDict[Tokens, _TargetState] = OrderedDict()
        self._draft: OrderedDict[Tokens, bytes] = OrderedDict()

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

    def restore_draft(self, draft: DraftContext, prompt: Tokens) -> bool:
        """Fill the draft's cache with ``prompt`` if it is known."""
        cache = self._draft.get(prompt)
        if cache is None:
            return False
        self._draft.move_to_end(prompt)
        draft.restore(cache, prompt)
        return True

    def keep_draft(self, draft: DraftContext, prompt: Tokens) -> None:
        """Remember the draft's cache, which holds exactly ``prompt``."""
        if prompt in self._draft:
            return
        self._draft[prompt] = draft.save()
        self._evict()

    def restore_pair(self, target: TargetContext, mtp: MtpContext, prompt: Tokens) -> None:
        """Fill the caches of a target and of its MTP layers with the known part of ``prompt``.

        The target's alone would not do: it has to show the MTP layers what it makes of the prompt.
        """
        state = self._target.get(prompt)
        if state is not None and state.mtp is not None:
            mtp.restore(state.mtp, prompt)
            self.restore_target(target, prompt)

    def keep_mtp(self, mtp: MtpContext, prompt: Tokens) -> None:
        """Remember the cache of the MTP layers beside the target's, if that is remembered.

        One without the other is of no use, so they go together.
        """
        state = self._target.get(prompt)
        if state is not None and state.mtp is None:
            self._target[prompt] = replace(state, mtp=mtp.save())
            self._evict()

    def forget_draft(self) -> None:
        """Drop the draft's caches, since another draft has other ones."""
        self._draft.clear()

    def clear(self) -> None:
        """Drop all caches, since another target has other ones."""
        self._target.clear()
        self._draft.clear()

    def _evict(self) -> None:
        # The draft's caches go first: they are cheap to make again.
        while self._n_bytes() > self._capacity_bytes:
            (self._draft or self._target).popitem(last=False)

    def _n_bytes(self) -> int:
        targets = sum(state.n_bytes for state in self._target.values())
        return targets + sum(map(len, self._draft.values()))
