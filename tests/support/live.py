"""Scripted rounds and machines for the live panels: plain arithmetic, no chance."""

from dataclasses import replace

from spectui.engine.events import PromptEvaluated, Role
from spectui.live.setup import BaselineMeasured
from spectui.live.tally import LiveTally
from spectui.llama.buffers import Buffer, BufferKind, ModelMemory
from spectui.models.weights import WeightTraffic
from spectui.monitor.readings import Reading, Snapshot
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round, RoundEnd, RoundTimes
from tests.support.constructed import snapshots

NO_GPU = "no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found)"


def make_round(
    n_drafted: int, n_accepted: int, times: RoundTimes | None = None, *, step_s: float = 0.004
) -> Round:
    """Return a round that costs what ``times`` says."""
    return Round(
        draft=tuple(range(n_drafted)),
        probabilities=(0.9,) * n_drafted,
        tokens=tuple(range(n_accepted + 1)),
        n_accepted=n_accepted,
        end=RoundEnd.MISMATCH if n_accepted < n_drafted else RoundEnd.EXHAUSTED,
        n_steps=n_drafted,
        chain_s=n_drafted * step_s,
        times=times or round_times(n_drafted),
    )


def round_times(n_drafted: int) -> RoundTimes:
    """Return what a round costs on the scripted machine: 58 ms for one token, 5 more for each."""
    return RoundTimes(
        draft_s=0.004 * n_drafted,
        verify_s=0.058 + 0.005 * n_drafted,
        sample_s=0.0006,
        rollback_s=0.0002,
        other_s=0.0011,
    )


def traffic(**read: int) -> WeightTraffic:
    """What a token reads; nothing but what is named."""
    names = ("cpu_dense_bytes", "cpu_expert_bytes", "gpu_dense_bytes", "gpu_expert_bytes")
    return WeightTraffic(**(dict.fromkeys((*names, "n_experts", "n_experts_used"), 0) | read))


def placed(*sizes: tuple[str, BufferKind, int], reads: WeightTraffic | None) -> ModelMemory:
    """A model with these buffers."""
    return ModelMemory(
        buffers=tuple(Buffer(device=d, kind=k, size_bytes=n) for d, k, n in sizes), traffic=reads
    )


def target_on_gpu_and_cpu() -> ModelMemory:
    """Return a large MoE: experts in RAM, the rest on the GPU."""
    return placed(
        ("CPU_Mapped", BufferKind.WEIGHTS, 37_500_000_000),
        ("CUDA0", BufferKind.WEIGHTS, 15_200_000_000),
        ("CUDA0", BufferKind.KV, 2_100_000_000),
        ("CUDA0", BufferKind.COMPUTE, 900_000_000),
        ("CUDA_Host", BufferKind.OUTPUT, 1_200_000),
        reads=traffic(
            cpu_expert_bytes=37_000_000_000,
            gpu_dense_bytes=15_000_000_000,
            n_experts=128,
            n_experts_used=8,
        ),
    )


def draft_on_gpu() -> ModelMemory:
    """Return a small dense draft on the GPU."""
    return placed(
        ("CUDA0", BufferKind.WEIGHTS, 650_000_000),
        ("CUDA0", BufferKind.KV, 240_000_000),
        reads=traffic(gpu_dense_bytes=640_000_000),
    )


def model_in_ram(weight_bytes: int, kv_bytes: int) -> ModelMemory:
    """Return a dense model that is mapped into RAM."""
    return placed(
        ("CPU_Mapped", BufferKind.WEIGHTS, weight_bytes),
        ("CPU", BufferKind.KV, kv_bytes),
        ("CPU", BufferKind.COMPUTE, 18_400_000),
        reads=traffic(cpu_dense_bytes=weight_bytes),
    )


def without_gpu(snapshot: Snapshot) -> Snapshot:
    """Return the same machine with no GPU, half its memory, and a kernel that counts no reads."""
    host = replace(
        snapshot.host,
        memory_total_bytes=16_000_000_000,
        memory_available_bytes=11_300_000_000,
        disk_read_bytes_per_s=Reading(None, "the kernel does not count disk reads of a process"),
    )
    return Snapshot(gpus=(), gpu_reason=NO_GPU, host=host)


def gpu_machine() -> LiveTally:
    """Return a tally in the middle of an answer, on a GPU with the experts in RAM."""
    return _talking(
        {Role.TARGET: target_on_gpu_and_cpu(), Role.DRAFT: draft_on_gpu()}, list(snapshots())
    )


def cpu_machine() -> LiveTally:
    """Return a tally in the middle of an answer, on a machine without a GPU."""
    models = {
        Role.TARGET: model_in_ram(1_560_000_000, 283_000_000),
        Role.DRAFT: model_in_ram(96_000_000, 94_000_000),
    }
    return _talking(models, [without_gpu(snapshot) for snapshot in snapshots()])


def _talking(models: dict[Role, ModelMemory], machine: list[Snapshot]) -> LiveTally:
    tally = LiveTally()
    tally.snapshot(machine[0])
    for role, memory in models.items():
        tally.loaded(role, memory)
    tally.baseline(BaselineMeasured(tokens_per_s=1 / 0.0605, step_s=0.058))
    tally.generation_started(Speculation(DraftSimple(draft_max=5)))
    tally.prompt_evaluated(PromptEvaluated(n_tokens=412, seconds=1.84, n_reused=0))
    accepted = (5, 5, 3, 5, 0, 4, 5, 2, 5, 5, 1, 5)
    for number, snapshot in enumerate(machine):
        for part in range(3):
            n_accepted = accepted[(3 * number + part) % len(accepted)]
            n_drafted = 5 if (number + part) % 7 else 3
            tally.round_finished(make_round(n_drafted, min(n_accepted, n_drafted)))
        tally.snapshot(snapshot)
    return tally
