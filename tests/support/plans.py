"""Memory plans by arithmetic."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from spectui.engine.demand import FreeMemory
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.buffers import Buffer, BufferKind
from spectui.llama.planned import ModelPlan, Plan, PlanRequest
from spectui.models.facts import ModelFacts
from spectui.models.weights import WeightTraffic
from spectui.options.setup import ModelOptions
from spectui.speculative.models import Rollback

NOTHING_READ = WeightTraffic(
    cpu_dense_bytes=0,
    cpu_expert_bytes=0,
    gpu_dense_bytes=0,
    gpu_expert_bytes=0,
    n_experts=0,
    n_experts_used=0,
)
REQUEST = PlanRequest(target=ModelOptions(path=Path("target.gguf")))
BAD = ModelOptions(path=Path("bad.gguf"))
HUGE = ModelOptions(path=Path("huge.gguf"))
ODD = ModelOptions(path=Path("odd.gguf"))
OTHER = ModelOptions(path=Path("other.gguf"))
GOOD = ModelOptions(path=Path("good.gguf"))


@dataclass
class Script:
    """Plans by arithmetic: a target whose layers each have experts, and drafts by their names."""

    n_layers: int = 10
    n_experts: int = 4
    expert_bytes: int = 100
    """Per layer."""
    dense_bytes: int = 50
    cache_bytes: int = 1
    """Per token."""
    draft_bytes: int = 10
    n_ctx_train: int = 4096
    mmap: bool = True
    largest: int | None = None
    """Context from which on the plan itself cannot be made."""
    asked: list[PlanRequest] = field(default_factory=list)

    def __call__(self, request: PlanRequest) -> Plan:
        self.asked.append(request)
        if self.largest is not None and request.context.ctx_size > self.largest:
            raise DoesNotFitError("no recurrent state")
        draft = None if request.draft is None else self._draft(request.draft)
        reason = "token 7 differs" if request.draft == OTHER else None
        return Plan(target=self._target(request), draft=draft, incompatibility=reason)

    def _target(self, request: PlanRequest) -> ModelPlan:
        n_in_ram = min(request.target.n_cpu_moe, self.n_layers)
        in_ram = "CPU_Mapped" if self.mmap else "CPU"
        on_gpu_bytes = self.dense_bytes + (self.n_layers - n_in_ram) * self.expert_bytes
        cache_bytes = request.context.ctx_size * self.cache_bytes
        plan = self._plan(
            buffer("CUDA0", BufferKind.WEIGHTS, on_gpu_bytes),
            buffer(in_ram, BufferKind.WEIGHTS, n_in_ram * self.expert_bytes),
            buffer("CUDA0", BufferKind.KV, cache_bytes),
            buffer("CUDA_Host", BufferKind.OUTPUT, 3),
        )
        traffic = replace(
            NOTHING_READ,
            cpu_expert_bytes=n_in_ram * self.expert_bytes,
            gpu_expert_bytes=(self.n_layers - n_in_ram) * self.expert_bytes,
        )
        return replace(plan, traffic=traffic)

    def _draft(self, options: ModelOptions) -> ModelPlan:
        if options == BAD:
            raise BadInputError("bad.gguf is no model")
        if options == ODD:
            raise UsageError("no context can be made for odd.gguf")
        size_bytes = 1_000_000 if options == HUGE else self.draft_bytes
        return self._plan(buffer("CUDA0", BufferKind.WEIGHTS, size_bytes))

    def _plan(self, *buffers: Buffer) -> ModelPlan:
        info = ModelFacts(
            path=Path("target.gguf"),
            arch="llama",
            name="scripted",
            n_params=1,
            size_bytes=1,
            file_bytes=1,
            n_layers=self.n_layers,
            n_ctx_train=self.n_ctx_train,
            n_vocab=10,
            n_experts=self.n_experts,
            kv_bytes_per_token=None,
            read_bytes_per_token=None,
        )
        return ModelPlan(
            info=info, n_ctx=256, rollback=Rollback.TRUNCATE, buffers=buffers, traffic=NOTHING_READ
        )


def room(**by_memory: int) -> FreeMemory:
    return FreeMemory(by_memory=by_memory)


def buffer(device: str, kind: BufferKind, size_bytes: int) -> Buffer:
    return Buffer(device=device, kind=kind, size_bytes=size_bytes)
