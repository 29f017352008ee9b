"""What a loaded model takes of memory and reads from it. Pure: a screen need not load llama.cpp."""

from dataclasses import dataclass

from spectui.llama.buffers import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTraffic:
    """Weights that decoding reads, split by where they live.

    A decode reads every dense weight once, and of the experts those that its tokens are routed to.
    """

    cpu_dense_bytes: int
    cpu_expert_bytes: int
    """All experts of all layers, used or not; as ``gpu_expert_bytes``."""
    gpu_dense_bytes: int
    gpu_expert_bytes: int
    n_experts: int
    """Per layer, 0 for a model without."""
    n_experts_used: int
    """Per layer and token."""

    @property
    def cpu_bytes(self) -> int:
        """All weights in RAM that decoding may read."""
        return self.cpu_dense_bytes + self.cpu_expert_bytes

    def cpu_bytes_per_decode(self, n_tokens: int) -> float:
        """Bytes that a decode of ``n_tokens`` reads from RAM."""
        return self.cpu_dense_bytes + self._expert_share(n_tokens) * self.cpu_expert_bytes

    def gpu_bytes_per_decode(self, n_tokens: int) -> float:
        """Bytes that a decode of ``n_tokens`` reads from the GPUs' memory."""
        return self.gpu_dense_bytes + self._expert_share(n_tokens) * self.gpu_expert_bytes

    def _expert_share(self, n_tokens: int) -> float:
        """Expected share of the experts that at least one of ``n_tokens`` is routed to.

        As if routing were uniform and independent: 1 - (1 - used/all)^n. Real neighbouring tokens
        share experts, so that this is an upper estimate for n > 1.
        """
        if self.n_experts == 0:
            return 0.0
        return 1 - (1 - self.n_experts_used / self.n_experts) ** n_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """One model with its context."""

    buffers: tuple[Buffer, ...]
    traffic: WeightTraffic | None
    """None if its file does not tell."""
    mtp_traffic: WeightTraffic | None = None
    """Of its MTP layers, where these may draft."""
