"""Memory budget of a target with a draft beside it."""

from dataclasses import replace

from spectui.engine.demand import Demand, free_memory
from spectui.format import bytes_text
from spectui.llama.buffers import HOST
from spectui.llama.devices import gpu_memories
from spectui.models.facts import ModelFacts
from spectui.models.ranking import DraftOption


class Room:
    """Memory that a target leaves to a draft.

    Weights are mapped: those that have no room are read from disk. So a target that is larger than
    memory does not rule its drafts out: they share with its cache what is free.
    """

    def __init__(self, target: ModelFacts, *, n_ctx: int, free_bytes: int) -> None:
        """Compute the target's demand.

        Args:
            target: its header's facts.
            n_ctx: tokens that the context holds.
            free_bytes: free bytes of all memories together.
        """
        self._alone = Demand(
            memory=HOST,
            allocated_bytes=n_ctx * (target.kv_bytes_per_token or 0),
            mapped_bytes=target.file_bytes,
            free_bytes=free_bytes,
        )
        kept = self._alone if self._alone.fits else replace(self._alone, mapped_bytes=0)
        self._left_bytes = max(0, kept.left_bytes or 0)

    @property
    def doubt(self) -> str | None:
        """Warning about the target's own memory demand; None if it fits."""
        alone = self._alone
        if alone.fits:
            return None
        cache, free = bytes_text(alone.allocated_bytes), bytes_text(alone.free_bytes or 0)
        if not alone.can_load:
            return f"the target's cache takes {cache}, and {free} are free; give a smaller -c"
        needed = bytes_text(alone.allocated_bytes + alone.mapped_bytes)
        return (
            f"the target takes {needed} with its cache, and {free} are free: weights that have no "
            "room are read from disk again and again, which decides the speed"
        )

    def judge(self, option: DraftOption) -> DraftOption:
        """Return the option, with a reason against it if it does not fit in memory."""
        needed_bytes = option.memory_bytes or option.model.size_bytes
        if option.reason is not None or needed_bytes <= self._left_bytes:
            return option
        beside = "the target" if self._alone.fits else "the target's cache"
        needed, left = bytes_text(needed_bytes), bytes_text(self._left_bytes)
        reason = f"would not fit: needs {needed}, and beside {beside} {left} are free"
        return replace(option, reason=reason)


def free_bytes_of_all() -> int:
    """Free bytes of RAM and of the GPUs that llama.cpp uses.

    What does not fit in both together fits nowhere.
    """
    return free_memory(gpu_memories()).total_bytes
