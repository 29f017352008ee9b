"""Every name that an option has: spectui's own, the flags of each dialect, the variables.

Facts only. The names are those of llama.cpp's ``common/arg.cpp``, old and current ones.
"""

from dataclasses import dataclass

from spectui.export.dialects import Dialect
from spectui.export.old_ngrams import SHARED
from spectui.options.drafters import NGRAMS, numbers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that a llama-server command can say."""

    name: str
    """The long name without dashes; spectui's own where its command line has the option."""
    flags: tuple[str, ...]
    """Every spelling in any dialect. The first long one is known to old and current builds."""
    variable: str | None = None
    """What current builds read from the environment."""
    legacy_variable: str | None = None
    """What builds before spring 2026 read from it."""
    is_switch: bool = False
    is_ours: bool = True
    """spectui's command line has it, under ``name``."""
    is_written: bool = True
    """The export writes it from a setup. What it does not write must travel as it stands."""

    def variable_in(self, dialect: Dialect) -> str | None:
        """The variable of that dialect; None where it has none, as ik_llama.cpp never has."""
        match dialect:
            case Dialect.LLAMA_CPP:
                return self.variable
            case Dialect.LEGACY:
                return self.legacy_variable
            case Dialect.IK:
                return None

    @property
    def long_flag(self) -> str:
        """The long spelling that old and current builds share."""
        return _long(self.flags)


def _option(
    flags: str,
    variable: str | None = None,
    legacy: str | None = None,
    *,
    switch: bool = False,
    ours: bool = True,
    written: bool = True,
) -> Option:
    """One row; its name is the first long flag."""
    spelled = tuple(flags.split())
    return Option(
        name=_long(spelled).lstrip("-"),
        flags=spelled,
        variable=None if variable is None else f"LLAMA_ARG_{variable}",
        legacy_variable=None if legacy is None else f"LLAMA_ARG_{legacy}",
        is_switch=switch,
        is_ours=ours,
        is_written=written,
    )


def _long(flags: tuple[str, ...]) -> str:
    return next(flag for flag in flags if flag.startswith("--"))


OPTIONS: tuple[Option, ...] = (
    _option("-m --model", "MODEL", "MODEL"),
    _option("-md --model-draft --spec-draft-model", "SPEC_DRAFT_MODEL", "MODEL_DRAFT"),
    _option("-ngl --gpu-layers --n-gpu-layers", "N_GPU_LAYERS", "N_GPU_LAYERS"),
    _option(
        "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl",
        "N_GPU_LAYERS_DRAFT",
        "N_GPU_LAYERS_DRAFT",
    ),
    _option("-ot --override-tensor", "OVERRIDE_TENSOR"),
    _option("-cmoe --cpu-moe", "CPU_MOE", "CPU_MOE", switch=True),
    _option("-ncmoe --n-cpu-moe", "N_CPU_MOE", "N_CPU_MOE"),
    _option("-ctk --cache-type-k", "CACHE_TYPE_K", "CACHE_TYPE_K"),
    _option("-ctv --cache-type-v", "CACHE_TYPE_V", "CACHE_TYPE_V"),
    _option(
        "-ctkd --cache-type-k-draft --spec-draft-type-k",
        "SPEC_DRAFT_CACHE_TYPE_K",
        "CACHE_TYPE_K_DRAFT",
    ),
    _option(
        "-ctvd --cache-type-v-draft --spec-draft-type-v",
        "SPEC_DRAFT_CACHE_TYPE_V",
        "CACHE_TYPE_V_DRAFT",
    ),
    _option("-okv --override-kv"),
    _option("--no-mmap", None, "NO_MMAP", switch=True),
    _option("--mmap", switch=True, ours=False),
    _option("-lm --load-mode", "LOAD_MODE", ours=False),
    _option("-c --ctx-size", "CTX_SIZE", "CTX_SIZE"),
    _option("-b --batch-size", "BATCH", "BATCH"),
    _option("-ub --ubatch-size", "UBATCH", "UBATCH"),
    _option("-fa --flash-attn", "FLASH_ATTN", "FLASH_ATTN"),
    _option("-no-fa --no-flash-attn", switch=True, ours=False),
    _option("--swa-full", "SWA_FULL", "SWA_FULL", switch=True),
    _option("-t --threads", "THREADS", "THREADS"),
    _option("-tb --threads-batch"),
    _option("--draft-max --draft --draft-n --spec-draft-n-max", "SPEC_DRAFT_N_MAX", "DRAFT_MAX"),
    _option("--draft-min --draft-n-min --spec-draft-n-min", "SPEC_DRAFT_N_MIN", "DRAFT_MIN"),
    _option("--draft-p-min --spec-draft-p-min", "SPEC_DRAFT_P_MIN", "DRAFT_P_MIN"),
    _option("--spec-type --spec-stage", "SPEC_TYPE"),
    _option("--spec-default", switch=True, ours=False),
    *(_option(f"--{name}", ours=False) for name in SHARED),
    *(_option(f"--{one.option}") for drafter in NGRAMS for one in numbers_of(drafter)),
    _option("-otd --override-tensor-draft --spec-draft-override-tensor", ours=False),
    _option(
        "-cmoed --cpu-moe-draft --spec-draft-cpu-moe",
        "SPEC_DRAFT_CPU_MOE",
        "CPU_MOE_DRAFT",
        switch=True,
        ours=False,
    ),
    _option(
        "-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe",
        "SPEC_DRAFT_N_CPU_MOE",
        "N_CPU_MOE_DRAFT",
        ours=False,
    ),
    _option("--temp --temperature", "TEMPERATURE", written=False),
    _option("--top-k", "TOP_K", written=False),
    _option("--top-p", "TOP_P", written=False),
    _option("--min-p", "MIN_P", written=False),
    _option("-s --seed", written=False),
    _option("--ignore-eos", switch=True, written=False),
)
"""Everything that the export writes or that spectui's command line has."""

BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
BY_VARIABLE = {
    variable: option
    for option in OPTIONS
    for variable in (option.variable, option.legacy_variable)
    if variable is not None
}
