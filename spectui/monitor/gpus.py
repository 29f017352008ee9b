"""All GPUs: none, some that come and go, and the session with NVML that finds them again."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from spectui.monitor import nvml, queries
from spectui.monitor.gpu import Gpu
from spectui.monitor.nvml import NvmlError
from spectui.monitor.queries import Handle
from spectui.monitor.readings import GpuReading, Reading

RETRY_S = 10.0
"""How long a missing driver or a lost GPU is left alone before the next try."""

_READINGS = [field.name for field in fields(GpuReading) if field.name not in {"index", "name"}]


@dataclass(slots=True, kw_only=True)
class _Card:
    """A GPU that was there once; its index stays, wherever the driver puts it later."""

    index: int
    name: str
    uuid: str | None = None
    gpu: Gpu | None = None
    reason: str | None = None
    """Why there is no ``gpu``."""

    def lose(self, error: NvmlError) -> None:
        """Stop reading it."""
        if self.gpu is not None:
            self.gpu.close()
        self.gpu = None
        self.reason = error.reason(f"GPU {self.index}", f"GPU {self.index}")


class Gpus:
    """Reads every GPU that NVML knows. Nothing raises: what fails is a reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Look for GPUs at the first ``read``; rates refer to ``clock``."""
        self._clock = clock
        self._cards: list[_Card] = []
        self._reason: str | None = None
        self._in_session = False
        self._due_s = float("-inf")
        """When to look for what is missing."""

    def read(self, now_s: float) -> tuple[tuple[GpuReading, ...], str | None]:
        """Return all GPUs, or none and the reason."""
        if now_s >= self._due_s and not self._is_complete():
            self._due_s = now_s + RETRY_S
            self._restart()
        return tuple(self._read(card, now_s) for card in self._cards), self._reason

    def close(self) -> None:
        """End the session."""
        for card in self._cards:
            if card.gpu is not None:
                card.gpu.close()
                card.gpu = None
        if self._in_session:
            nvml.stop()
        self._in_session = False

    def _is_complete(self) -> bool:
        return bool(self._cards) and all(card.gpu is not None for card in self._cards)

    def _restart(self) -> None:
        """Begin a new session: in an old one a lost GPU stays lost, and handles end with it."""
        self.close()
        self._reason = None
        try:
            nvml.start()
            self._in_session = True
            if not self._cards:
                self._cards = [
                    _Card(index=index, name=f"GPU {index}") for index in range(queries.count())
                ]
        except NvmlError as error:
            self._explain(error)
            return
        if not self._cards:
            self._reason = "the NVIDIA driver finds no GPU"
        for card in self._cards:
            self._find(card)

    def _explain(self, error: NvmlError) -> None:
        for card in self._cards:
            card.lose(error)
        if not self._cards:
            self._reason = error.reason("the GPUs")

    def _find(self, card: _Card) -> None:
        try:
            handle = _handle(card)
            card.uuid = queries.uuid_of(handle)
            card.name = queries.name(handle)
            card.gpu = Gpu(card.index, card.name, handle, self._clock)
        except NvmlError as error:
            card.lose(error)

    def _read(self, card: _Card, now_s: float) -> GpuReading:
        if card.gpu is not None:
            try:
                return card.gpu.read(now_s)
            except NvmlError as error:
                card.lose(error)
                self._due_s = now_s + RETRY_S
        missing = dict.fromkeys(_READINGS, Reading(None, card.reason))
        return GpuReading(index=card.index, name=card.name, **missing)


def _handle(card: _Card) -> Handle:
    return queries.by_index(card.index) if card.uuid is None else queries.by_uuid(card.uuid)
