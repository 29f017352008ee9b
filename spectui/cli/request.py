"""From parsed options to the configuration of a run."""

from dataclasses import asdict, dataclass
from pathlib import Path

from spectui.errors import UsageError
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND
from spectui.options.reading import context_of, draft_of, target_of
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule


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
        return target_of(asdict(self), path)

    def draft_options(self, path: Path) -> ModelOptions:
        """Placement of a draft."""
        return draft_of(asdict(self), path)

    def context_options(self) -> ContextOptions:
        """Context options that target and draft share."""
        return context_of(asdict(self))

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
