"""Prompts that are decoded as many at once as a llama-server has slots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.engine.events import GenerationResult
from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.server_backend import ServerBackend
from spectui.measure.workload import WorkItem, Workload
from spectui.options.speculation import Speculation

Timed = tuple[GenerationResult, float]
"""An answer, and the seconds of the whole request: waiting, prompt, and answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPair(Pair):
    """A prompt decoded without and with speculation, beside others that were decoded as well."""

    baseline_s: float
    """Seconds of the whole request without speculation: waiting, prompt, and answer."""
    speculative_s: float
    """The same with speculation."""


@dataclass(eq=False)
class StreamMeasurer(Measurer):
    """Keeps all slots of the servers busy with prompts, which are all measured.

    Blocks of as many prompts as there are slots take turns without and with speculation, as single
    prompts do where there is one slot. Where each change loads models, halves of all prompts do.
    """

    engine: ServerBackend

    @property
    def n_streams(self) -> int:
        """Prompts that are decoded at once."""
        return self.engine.n_slots

    def pairs(
        self,
        items: Sequence[WorkItem],
        speculation: Speculation | None,
        repeats: int = 1,
        *,
        turn: int = 0,
    ) -> Iterator[Pair]:
        """Decode every prompt without and with speculation, ``repeats`` times.

        Arguments as ``Measurer.pairs``. The order of blocks is that of its prompts.
        """
        is_apart = self.n_beside_off == 0
        size = -(-len(items) // 2) if is_apart else self.engine.n_slots
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        # Halves trade places from pass to pass, so that each begins with what is loaded.
        order = (
            (n, block)
            for n in range(turn, turn + repeats)
            for block in blocks[:: -1 if is_apart and n % 2 else 1]
        )
        for number, (n, part) in enumerate(order, turn * len(blocks)):
            block = tuple(self.workload.passes(part, range(n, n + 1)))
            baseline_first = number % 2 == 0 if is_apart else self._begins_with_off(number)
            yield from self._block(block, speculation, baseline_first=baseline_first)

    def streams(
        self, items: Sequence[WorkItem], speculation: Speculation | None, turn: int
    ) -> tuple[Pair, ...]:
        """Decode a block of prompts at once, without and with speculation.

        Args:
            items: as many prompts as there are slots, or fewer.
            speculation: the setting.
            turn: number of the block, as in ``Measurer.block``.
        """
        return self._block(items, speculation, baseline_first=self._begins_with_off(turn))

    def _block(
        self, items: Sequence[WorkItem], speculation: Speculation | None, *, baseline_first: bool
    ) -> tuple[Pair, ...]:
        order = (None, speculation) if baseline_first else (speculation, None)
        begun, ended = (self.decode_together(items, one) for one in order)
        off, on = (begun, ended) if baseline_first else (ended, begun)
        return stream_pairs(items, off, on)

    def decode_together(
        self, items: Sequence[WorkItem], speculation: Speculation | None
    ) -> list[Timed]:
        """Decode prompts at once."""
        n_predict = self.workload.n_predict
        return self.engine.generate_together(
            [self._command(item, speculation, n_predict) for item in items]
        )


def stream_pairs(
    items: Sequence[WorkItem], off: Sequence[Timed], on: Sequence[Timed]
) -> tuple[Pair, ...]:
    """Pairs of prompts that were decoded at once, as far as all three go."""
    return tuple(
        StreamPair(
            item=item,
            baseline=baseline,
            speculative=speculative,
            baseline_s=off_s,
            speculative_s=on_s,
        )
        for item, (baseline, off_s), (speculative, on_s) in zip(items, off, on, strict=False)
    )


def measurer_of(
    backend: Backend,
    workload: Workload,
    *,
    seed: int | None = None,
    baseline_share: float = 1.0,
    alone: bool = False,
) -> Measurer:
    """The measurer of a workload that suits what decodes it.

    Args:
        backend: decodes.
        workload: the prompts.
        seed: as ``Measurer``.
        baseline_share: as ``Measurer``.
        alone: measure one prompt at a time where a server has several slots, which others keep
            busy meanwhile.
    """
    if isinstance(backend, ServerBackend):
        backend.company = tuple(item.tokens for item in workload.items)
        if backend.n_slots > 1 and not alone:
            return StreamMeasurer(backend, workload, seed=seed)
    return Measurer(backend, workload, seed=seed, baseline_share=baseline_share)
