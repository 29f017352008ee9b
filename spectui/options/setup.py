"""The setup that runs: models and their placement, context, drafting, sampling, chat template.

Field names are llama-server's long option names where it has one.
"""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from spectui.options.speculation import Speculation

T = TypeVar("T", bound="Setup")


class FlashAttention(StrEnum):
    """``-fa``: on, off, or llama.cpp's own choice."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


MOST_SLOTS = 256
"""``LLAMA_MAX_SEQ``: llama.cpp has no more."""
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Types of caches, as llama-server takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The options that turn a conversation into a prompt, besides the model's own template."""

    template: str | None = None
    """``--chat-template`` or the content of ``--chat-template-file``; None for the model's own."""
    arguments: str = "{}"
    """``--chat-template-kwargs`` with what other options add to them, a JSON object."""


OWN_TEMPLATE = Rendering()
"""The model's own template, as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """The target's sampler chain; by default llama-server's, with a seed that is always the same.

    ``temp`` 0 is greedy.
    """

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0
    ignore_eos: bool = False

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is taken, whatever the seed."""
        return self.temp <= 0

    @property
    def label(self) -> str:
        """The temperature in words."""
        return "greedy" if self.is_greedy else f"temperature {self.temp:g}"

    def sample(self, n: int) -> "SamplingConfig":
        """The sampling of the ``n``-th sample of a prompt, from 0: each draws with its own seed.

        Greedy samples are all the same.
        """
        return self if self.is_greedy else replace(self, seed=(self.seed + n) % 2**32)


GREEDY = SamplingConfig(temp=0.0)
"""Sampling of measurements without other options: counts and texts can be compared."""


EXPERTS = "ffn_(up|down|gate|gate_up)_(ch|)exps"
"""Pattern of the last part of the names of experts' tensors (``LLM_FFN_EXPS_REGEX`` of llama.cpp's
``common/common.h``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOverride:
    """One ``-ot PATTERN=BUFFER``: tensors whose name matches go to a buffer type (such as CPU)."""

    pattern: str
    buffer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvOverride:
    """One ``--override-kv KEY=TYPE:VALUE``: metadata that replaces the file's."""

    key: str
    value: bool | int | float | str

    @property
    def text(self) -> str:
        """The override as llama.cpp reads it."""
        if isinstance(self.value, bool):
            return f"{self.key}=bool:{str(self.value).lower()}"
        return f"{self.key}={type(self.value).__name__}:{self.value}"


class SplitMode(StrEnum):
    """``-sm``: what devices share of a model."""

    LAYER = "layer"
    """Each has some of the layers."""
    NONE = "none"
    """One has all."""
    ROW = "row"
    """Each has rows of every matrix."""


class Numa(StrEnum):
    """``--numa``: how threads are spread over the nodes of a machine that has several."""

    DISTRIBUTE = "distribute"
    ISOLATE = "isolate"
    NUMACTL = "numactl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Devices that a model is put on, beside the processor."""

    rpc: tuple[str, ...] = ()
    """``--rpc``: ``HOST:PORT`` of servers whose devices there are, for every model."""
    names: tuple[str, ...] | None = None
    """``-dev``/``-devd``: such as ``CUDA0`` or ``RPC1``; empty for none, None for all there are."""
    split: tuple[float, ...] = ()
    """``-ts``: shares of the layers, by device; empty for llama.cpp's choice, by free memory."""
    split_mode: SplitMode = SplitMode.LAYER
    main: int = 0
    """``-mg``: index of the device that has all where nothing is split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """``--fit on``: open parts of the placement are chosen by the devices' free memory."""

    targets_mib: tuple[int, ...] = ()
    """``--fit-target``: MiB that stay free, by device; a single one is for all of them."""
    min_ctx: int = 4096
    """``--fit-ctx``: tokens of the shortest context, where its length was not given either."""
    is_open: bool = False
    """Whether the choice is still to be made, by the engine that loads or by a llama-server."""

    def margin_bytes(self, device: int) -> int:
        """Bytes that stay free on a device, by its index among the target's."""
        mib = 1024
        if len(self.targets_mib) == 1:
            mib = self.targets_mib[0]
        elif device < len(self.targets_mib):
            mib = self.targets_mib[device]
        return mib << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """One GGUF and where its parts go."""

    path: Path
    n_gpu_layers: int = -1
    """``-ngl``/``-ngld``: layers on the GPU, -1 for all."""
    devices: Devices = Devices()
    override_tensor: tuple[TensorOverride, ...] = ()
    cpu_moe: bool = False
    """``--cpu-moe``: the expert weights of all layers stay in RAM."""
    n_cpu_moe: int = 0
    """``--n-cpu-moe``: the expert weights of the first N layers stay in RAM."""
    override_kv: tuple[KvOverride, ...] = ()
    """In llama-server one list serves target and draft; keys name the architecture."""
    mmap: bool = True
    mlock: bool = False
    """Weights in RAM are locked there."""
    direct_io: bool = False
    """Files are read past the page cache, and not mapped."""
    repack: bool = True
    """Weights in RAM may be stored in the order that the processor multiplies fastest."""
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    cache_type_k_mtp: str = "f16"
    """``-ctkd`` where a target's own MTP layers draft, which have a cache of their own."""
    cache_type_v_mtp: str = "f16"
    """``-ctvd`` of the same."""
    fit: Fit | None = None
    """Options of ``--fit`` where it may place the target: values above are its choice, and a
    command leaves them to the server. None where the whole placement was given."""

    @property
    def load_mode(self) -> str:
        """``--load-mode`` in current llama-servers."""
        if self.direct_io:
            return "dio"
        if self.mlock:
            return "mmap+mlock" if self.mmap else "mlock"
        return "auto" if self.mmap else "none"

    def absolute(self) -> "ModelOptions":
        """A copy with an absolute path, valid from any folder."""
        return replace(self, path=self.path.absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Context options that target and draft share, as in llama-server."""

    ctx_size: int = 4096
    batch_size: int = 2048
    ubatch_size: int = 512
    flash_attn: FlashAttention = FlashAttention.AUTO
    threads: int = 0
    """``-t``: compute threads per generated token, 0 for as many as llama-server."""
    threads_batch: int = 0
    """``-tb``: compute threads for prompts and verification, 0 for as many as ``threads``."""
    threads_draft: int = 0
    """``-td``: those of a draft in a file of its own, per token; 0 for as many as ``threads``."""
    threads_batch_draft: int = 0
    """``-tbd``: 0 for as many as the target has for batches, whatever ``threads_draft`` is."""
    numa: Numa | None = None
    """Strategy for the whole process; None for none."""
    swa_full: bool = False
    """Layers with a sliding window keep all tokens, not just those within the window."""
    kv_offload: bool = True
    """Caches are where their layers are; else in RAM (``--no-kv-offload``)."""
    op_offload: bool = True
    """Large batches are multiplied on a device, with weights of the host as well."""
    moe_cache_mib: int = 0
    """``--moe-cache-mib``: GPU memory for experts in RAM that were used last, of the target alone;
    0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Complete setup of an engine or a llama-server. Equal setups are one server."""

    target: ModelOptions
    """The target as it lies beside the draft."""
    draft: ModelOptions | None
    """None where no draft model is needed; with MTP, None for the target's own layers."""
    context: ContextOptions
    speculation: Speculation | None
    """None for the target alone."""
    extra: tuple[str, ...] = ()
    """The user's own arguments for llama-server that spectui does not know, as they stand."""
    n_slots: int = 1
    """``-np``: requests that a server decodes at once, each in a context of this size."""

    @property
    def is_off(self) -> bool:
        """Whether nothing drafts."""
        return self.speculation is None

    @property
    def off(self) -> "Setup":
        """The target alone, for a comparison."""
        return self.converted(Setup, draft=None, speculation=None)

    def converted(self, kind: type[T], **changed: Any) -> T:  # noqa: ANN401 - fields of ``kind``
        """A setup of another kind with the same models and options, but for fields that change."""
        same = {one.name: getattr(self, one.name) for one in fields(Setup)}
        return kind(**{**same, **changed})

    def absolute(self) -> Self:
        """The setup with models whose paths are valid from any folder."""
        draft = None if self.draft is None else self.draft.absolute()
        return replace(self, target=self.target.absolute(), draft=draft)

    @property
    def shared_context(self) -> ContextOptions:
        """Context of a whole server, which divides ``-c`` among its slots."""
        return replace(self.context, ctx_size=self.context.ctx_size * self.n_slots)

    @property
    def label(self) -> str:
        """The drafters, and the last one's numbers."""
        if self.speculation is None:
            return "off"
        draft = self.used_draft
        stem = "model" if draft is None else draft.path.stem
        names = [
            stem if one.needs_draft or (one.takes_draft and draft is not None) else one.kind
            for one in self.speculation.chain
        ]
        return f"{', '.join(names)}: {self.speculation.own.summary}"

    @property
    def used_draft(self) -> ModelOptions | None:
        """The draft, if it drafts."""
        return self.draft if self.speculation is not None and self.speculation.takes_draft else None

    @property
    def models(self) -> tuple[ModelOptions, ...]:
        """All that it loads."""
        return (self.target,) if self.used_draft is None else (self.target, self.used_draft)
