"""From parsed options to the configuration of a run."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.errors import UsageError
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND
from spectui.options.setup import (
    ContextOptions,
    FlashAttention,
    KvOverride,
    ModelOptions,
    SamplingConfig,
    Schedule,
    TensorOverride,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options of ``shared_options`` as click parsed them, by its parameter names."""

    model: Path | None
    model_draft: tuple[Path, ...]
    gpu_layers: int
    gpu_layers_draft: int
    override_tensor: tuple[str, ...]
    cpu_moe: bool
    n_cpu_moe: int
    override_kv: tuple[str, ...]
    no_mmap: bool
    cache_type_k: str
    cache_type_v: str
    cache_type_k_draft: str
    cache_type_v_draft: str
    ctx_size: int
    batch_size: int
    ubatch_size: int
    flash_attn: str
    threads: int
    threads_batch: int
    swa_full: bool
    temp: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    ignore_eos: bool
    n_predict: int = -1
    schedule: str = str(Schedule.SERVER)
    preset: str | None = None
    demo: bool = False
    target: str = "dense"
    prompts: Path | None = None
    json_path: str | None = None
    quiet: bool = True
    verbose: bool = False
    draft_dirs: tuple[Path, ...] = ()
    """Folders of drafts, for commands that take several drafts."""
    spec_type: tuple[str, ...] = ()
    """Drafters for the same commands, by llama-server's names; empty for all that are available."""

    @property
    def takes_models(self) -> bool:
        """Whether draft models may draft."""
        kinds = {MODEL_KIND, *HIDDEN_STATE_KINDS}
        return not self.spec_type or not kinds.isdisjoint(self.spec_type)

    @property
    def readers(self) -> tuple[str, ...]:
        """Kinds of hidden-state drafts that were asked for, which only llama-server runs."""
        return tuple(kind for kind in HIDDEN_STATE_KINDS if kind in self.spec_type)

    def check_drafts(self) -> None:
        """Refuse draft models that no requested drafter uses.

        Raises:
            UsageError: drafts were given that ``--spec-type`` leaves out.
        """
        if not self.takes_models and (self.model_draft or self.draft_dirs):
            raise UsageError(
                f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave "
                "out -md"
            )

    @property
    def names_mtp(self) -> bool:
        """Whether the target's MTP layers were named explicitly."""
        return MTP_KIND in self.spec_type

    @property
    def takes_mtp(self) -> bool:
        """Whether the target's MTP layers may draft."""
        return not self.spec_type or self.names_mtp

    def input_files(self) -> tuple[Path | None, ...]:
        """Files that the run reads."""
        preset = None if self.preset is None else Path(self.preset)
        return (self.model, *self.model_draft, self.prompts, preset)

    def target_options(self, path: Path) -> ModelOptions:
        """Placement of the target."""
        return ModelOptions(
            path=path,
            n_gpu_layers=self.gpu_layers,
            override_tensor=tensor_overrides(self.override_tensor),
            cpu_moe=self.cpu_moe,
            n_cpu_moe=self.n_cpu_moe,
            override_kv=kv_overrides(self.override_kv),
            mmap=not self.no_mmap,
            cache_type_k=self.cache_type_k,
            cache_type_v=self.cache_type_v,
        )

    def draft_options(self, path: Path) -> ModelOptions:
        """Placement of a draft."""
        return ModelOptions(
            path=path,
            n_gpu_layers=self.gpu_layers_draft,
            override_kv=kv_overrides(self.override_kv),
            mmap=not self.no_mmap,
            cache_type_k=self.cache_type_k_draft,
            cache_type_v=self.cache_type_v_draft,
        )

    def context_options(self) -> ContextOptions:
        """Context options that target and draft share."""
        return ContextOptions(
            ctx_size=self.ctx_size,
            batch_size=self.batch_size,
            ubatch_size=self.ubatch_size,
            flash_attn=FlashAttention(self.flash_attn),
            threads=self.threads,
            threads_batch=self.threads_batch,
            swa_full=self.swa_full,
        )

    def sampling_config(self) -> SamplingConfig:
        """The target's sampler chain."""
        return SamplingConfig(
            temp=self.temp,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            ignore_eos=self.ignore_eos,
        )

    def schedule_kind(self) -> Schedule:
        """Work per round."""
        return Schedule(self.schedule)


def tensor_overrides(values: Sequence[str]) -> tuple[TensorOverride, ...]:
    """Parse ``-ot`` values; llama-server also takes several in one, separated by commas.

    Raises:
        UsageError: one has no ``=``.
    """
    found = []
    for value in values:
        for part in value.split(","):
            pattern, separator, buffer = part.partition("=")
            if not (pattern and separator and buffer):
                raise UsageError(f"-ot {part}: write PATTERN=BUFFER, such as exps=CPU")
            found.append(TensorOverride(pattern=pattern, buffer=buffer))
    return tuple(found)


_MOST_BYTES = 127
"""Maximum number of bytes of a key and of a text, as in ``llama_model_kv_override``."""
_BOOLEANS = {"true": True, "false": False}
_TYPES: dict[str, Callable[[str], bool | int | float | str]] = {
    "int": int,
    "float": float,
    "bool": _BOOLEANS.__getitem__,
    "str": str,
}


def kv_overrides(values: Sequence[str]) -> tuple[KvOverride, ...]:
    """Parse ``--override-kv`` values; llama-server takes several in one, as a row of CSV.

    Raises:
        UsageError: one is no ``KEY=TYPE:VALUE``.
    """
    return tuple(_kv_override(part) for row in csv.reader(values) for part in row or [""])


def _kv_override(text: str) -> KvOverride:
    key, _, typed = text.partition("=")
    kind, _, value = typed.partition(":")
    is_short = max(len(key.encode()), len(value.encode())) <= _MOST_BYTES
    try:
        if key and is_short:
            return KvOverride(key=key, value=_TYPES[kind](value))
    except (KeyError, ValueError):
        # Said below, with what would be right.
        pass
    raise UsageError(
        f"--override-kv {text}: write KEY=TYPE:VALUE with a type of {', '.join(_TYPES)}, such as "
        "qwen3moe.expert_used_count=int:4"
    )
