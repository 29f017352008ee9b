"""NVIDIA's GPUs as NVML tells of them: none, or some that come and go."""

from contextlib import ExitStack
from functools import partial

from spectui.monitor import nvml
from spectui.monitor.metrics import RETRY_S, GpuMeter, RefusedError, SlowMeter
from spectui.monitor.nvml import NvmlError
from spectui.monitor.readings import GpuReading


class _Card:
    """A GPU that was present at least once; its index stays, wherever the driver puts it later."""

    def __init__(self, index: int) -> None:
        self._about = GpuReading(index=index, name=f"GPU {index}")
        self._uuid: str | None = None
        self._meter: GpuMeter | None = None

    @property
    def is_read(self) -> bool:
        """Whether it was found, and not lost since."""
        return self._meter is not None

    def find(self) -> None:
        """Look for it in a new session, and begin to read it."""
        index = self._about.index
        try:
            gpu = nvml.by_index(index) if self._uuid is None else nvml.by_uuid(self._uuid)
            self._uuid = nvml.uuid_of(gpu)
            self._about = GpuReading(index=index, name=nvml.name(gpu), address=nvml.address(gpu))
            queries = {field: partial(query, gpu) for field, query in nvml.QUERIES.items()}
            self._meter = GpuMeter(
                self._about, queries, SlowMeter(partial(nvml.pcie_throughput, gpu))
            )
        except NvmlError as error:
            self.lose(error)

    def lose(self, error: RefusedError) -> None:
        """Stop reading it."""
        self.close()
        name = f"GPU {self._about.index}"
        self._about = self._about.unread(error.reason(name, name))

    def read(self, now_s: float) -> GpuReading:
        """Return its readings, or its description, with a reason for each that is missing."""
        if self._meter is not None:
            try:
                return self._meter.read(now_s)
            except RefusedError as error:
                self.lose(error)
        return self._about

    def close(self) -> None:
        """End what runs in the background."""
        if self._meter is not None:
            self._meter.close()
            self._meter = None


class NvidiaGpus:
    """Reads every GPU that NVML knows. Nothing raises: what fails is a reason."""

    def __init__(self) -> None:
        """Look for GPUs at the first ``read``."""
        self._cards: list[_Card] = []
        self._reason: str | None = None
        self._session = ExitStack()
        self._due_s = float("-inf")
        """When to look for what is missing."""

    def read(self, now_s: float) -> tuple[tuple[GpuReading, ...], str | None]:
        """Return all GPUs, or none and the reason."""
        is_complete = bool(self._cards) and all(card.is_read for card in self._cards)
        if is_complete or now_s >= self._due_s:
            # A card that is lost by this reading is left alone for a while as well.
            self._due_s = now_s + RETRY_S
            if not is_complete:
                self._restart()
        return tuple(card.read(now_s) for card in self._cards), self._reason

    def close(self) -> None:
        """End the session."""
        for card in self._cards:
            card.close()
        self._session.close()

    def _restart(self) -> None:
        """Begin a new session: in an old one a lost GPU stays lost, and handles end with it."""
        self.close()
        self._reason = None
        try:
            self._session.enter_context(nvml.session())
            self._cards = self._cards or [_Card(index) for index in range(nvml.count())]
        except NvmlError as error:
            for card in self._cards:
                card.lose(error)
            self._reason = error.reason("the GPUs")
            return
        if not self._cards:
            self._reason = "the NVIDIA driver finds no GPU"
        for card in self._cards:
            card.find()
