"""Caches of evaluated prompts, as many as memory has room for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from spectui.engine.events import Role
from spectui.llama.context import Logits
from spectui.llama.mtp import MtpContext
from spectui.llama.pair import DraftContext, TargetContext

Tokens = tuple[int, ...]
_Key = tuple[Role, Tokens]

_OFTEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    cache: bytes
    logits: Logits | None = None
    """[n_vocab] float32 of the prompt's last token, which a target's cache does not hold."""
    mtp: bytes | None = None
    """Cache of the target's MTP layers, if they have read the prompt."""

    @property
    def n_bytes(self) -> int:
        n_logits = 0 if self.logits is None else self.logits.nbytes
        return len(self.cache) + n_logits + len(self.mtp or b"")


class PromptStore:
    """Caches of target and draft right behind a prompt.

    A restored cache equals the evaluated one bit by bit, so results do not depend on whether a
    prompt was reused. A prompt may continue another, its prefix: from that it is gone on where it
    is not kept itself.

    Measurements ask for the same prompts again and again. If what was asked for longest ago made
    room for what comes, a store that is a little too small would never hold what is asked for next.
    So what is kept stays, and what does not fit is refused; until it has been asked for three times
    since something that is kept was. That happens to prompts that are measured no more, and to no
    other, even if each pass over the prompts has an order of its own.
    """

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        """Keep nothing yet.

        Args:
            free_bytes: returns how much may be kept beside what is; if negative, how much of that
                has to go.
        """
        self._free_bytes = free_bytes
        self._kept: dict[_Key, _Kept] = {}
        self._n_asked = 0
        self._run: set[Tokens] = set()
        """Prompts that the present run has asked for."""
        self._asked: dict[int, tuple[int, ...]] = {}
        """By the prompt's hash: at which requests it was asked for, the last few."""

    @property
    def n_bytes(self) -> int:
        """Size of all that is kept."""
        return sum(kept.n_bytes for kept in self._kept.values())

    def restore_target(self, target: TargetContext, prompt: Tokens, n_prefix: int = 0) -> bool:
        """Fill the target's cache with ``prompt`` if it is known, or with its first tokens.

        Args:
            target: is empty.
            prompt: the prompt.
            n_prefix: number of its first tokens, which may have been a prompt before; 0 for none.

        Returns:
            Whether either was known.
        """
        for tokens, kept in self._known(Role.TARGET, prompt, n_prefix):
            target.restore(kept.cache, tokens)
            target.prompt_logits = kept.logits
            return True
        return False

    def keep_target(self, target: TargetContext, prompt: Tokens) -> bool:
        """Keep the target's cache, which holds exactly ``prompt``, and its logits, if they fit."""
        key = Role.TARGET, prompt
        if key not in self._kept:
            logits = target.logits(0)
            if not self._make_room(key, target.state_bytes + logits.nbytes):
                return False
            self._kept[key] = _Kept(cache=target.save(), logits=logits.copy())
        return True

    def restore_draft(self, draft: DraftContext, prompt: Tokens, n_prefix: int = 0) -> bool:
        """Fill the draft's cache as ``restore_target`` does the target's."""
        for tokens, kept in self._known(Role.DRAFT, prompt, n_prefix):
            draft.restore(kept.cache, tokens)
            return True
        return False

    def keep_draft(self, draft: DraftContext, prompt: Tokens) -> None:
        """Keep the draft's cache, which holds exactly ``prompt``."""
        key = Role.DRAFT, prompt
        if key not in self._kept and self._make_room(key, draft.state_bytes):
            self._kept[key] = _Kept(cache=draft.save())

    def restore_pair(
        self, target: TargetContext, mtp: MtpContext, prompt: Tokens, n_prefix: int = 0
    ) -> None:
        """Fill the caches of a target and of its MTP layers as ``restore_target`` does, with both.

        The target's alone would not do: it has to show the MTP layers what it makes of the prompt.
        """
        for tokens, kept in self._known(Role.TARGET, prompt, n_prefix):
            if kept.mtp is not None:
                mtp.restore(kept.mtp, tokens)
                target.restore(kept.cache, tokens)
                target.prompt_logits = kept.logits
                return

    def keep_mtp(self, mtp: MtpContext, prompt: Tokens) -> None:
        """Keep the cache of the MTP layers beside the target's, if that is kept.

        One without the other is of no use, so they go together.
        """
        key = Role.TARGET, prompt
        kept = self._kept.get(key)
        if kept is None or kept.mtp is not None:
            return
        if self._make_room(key, mtp.state_bytes):
            self._kept[key] = replace(kept, mtp=mtp.save())

    def forget_draft(self) -> None:
        """Drop the draft's caches, since another draft has other ones."""
        for key in [key for key in self._kept if key[0] is Role.DRAFT]:
            del self._kept[key]

    def forget_mtp(self) -> None:
        """Drop the caches of MTP layers, since others have other ones."""
        self._kept = {key: replace(kept, mtp=None) for key, kept in self._kept.items()}

    def clear(self) -> None:
        """Drop all caches, since another target has other ones."""
        self._kept.clear()
        self._asked.clear()
        self._run.clear()

    def _known(self, role: Role, prompt: Tokens, n_prefix: int) -> Iterator[tuple[Tokens, _Kept]]:
        """Yield what is kept of ``prompt``; then, if that was not enough, of its prefix."""
        self._give_back()
        # The runs of a pair, and the models of a run, ask for the same prompt in a row.
        if prompt not in self._run:
            self._run.clear()
        for tokens in filter(None, (prompt, prompt[:n_prefix])):
            kept = self._ask(role, tokens)
            if kept is not None:
                yield tokens, kept

    def _ask(self, role: Role, prompt: Tokens) -> _Kept | None:
        if prompt not in self._run:
            self._run.add(prompt)
            self._n_asked += 1
            asked = (*self._asked.get(hash(prompt), ()), self._n_asked)
            self._asked[hash(prompt)] = asked[-_OFTEN:]
        return self._kept.get((role, prompt))

    def _asked_last(self, prompt: Tokens) -> int:
        return self._asked.get(hash(prompt), (0,))[-1]

    def _give_back(self) -> None:
        """Drop what was kept last, if others need the memory: the rest is met as before."""
        missing = -self._free_bytes()
        newest_first = [*reversed(self._kept)]
        newest_first.sort(key=lambda key: key[0] is Role.TARGET)
        for key in newest_first:
            if missing > 0:
                missing -= self._kept.pop(key).n_bytes

    def _make_room(self, key: _Key, n_bytes: int) -> bool:
        """Drop what may go in favour of ``n_bytes`` for ``key``, if that is enough."""
        missing = n_bytes - self._free_bytes()
        if missing <= 0:
            return True
        role, prompt = key
        asked = self._asked.get(hash(prompt), ())
        since = asked[0] if len(asked) == _OFTEN else 0

        def may_go(other: _Key) -> bool:
            # A draft's caches are cheap to make again.
            is_cheap = role is Role.TARGET and other[0] is Role.DRAFT
            return is_cheap or self._asked_last(other[1]) < since

        def worth(other: _Key) -> tuple[bool, int]:
            return other[0] is Role.TARGET, self._asked_last(other[1])

        going: list[_Key] = []
        for other in sorted(filter(may_go, self._kept), key=worth):
            if missing > 0:
                going.append(other)
                missing -= self._kept[other].n_bytes
        if missing > 0:
            return False
        for other in going:
            del self._kept[other]
        return True
