"""Prompts that are decoded as many at once as a llama-server has slots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer, Pair, Timed
from spectui.measure.server_backend import ServerBackend
from spectui.measure.workload import WorkItem, Workload
from spectui.options.speculation import Speculation


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

    def decode_together(
        self, items: Sequence[WorkItem], speculation: Speculation | None
    ) -> Iterable[Timed]:
        """Decode prompts at once."""
        n_predict = self.workload.n_predict
        return self.engine.generate_together(
            [self._command(item, speculation, n_predict) for item in items]
        )

    def blocks(
        self, items: Sequence[WorkItem], settings: Sequence[Speculation | None], turn: int
    ) -> list[Sequence[Pair]]:
        """Decode a block of prompts at once, without and with each of ``settings``."""
        baseline_first = self._begins_with_off(turn)
        return [tuple(self._in_turn(items, one, baseline_first=baseline_first)) for one in settings]


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
