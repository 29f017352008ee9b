"""How the dialects of llama-server spell the same thing. Facts only; ``command`` does the writing.

``LLAMA_CPP`` is llama.cpp from spring 2026 on, where each drafter has its own options.
``LEGACY`` is llama.cpp from autumn 2025 until then: ``-fa`` takes a value already, and the draft
has placement options. ``IK`` is ik_llama.cpp with ``--spec-type NAME:key=value,...``.
"""

from dataclasses import dataclass
from enum import StrEnum

from spectui.errors import BadInputError
from spectui.options.drafters import DrafterSetting, DraftSimple, HiddenStateDrafter, numbers_of
from spectui.options.speculation import Speculation


class Dialect(StrEnum):
    """Which llama-server will read the arguments."""

    LLAMA_CPP = "llama.cpp"
    LEGACY = "llama.cpp-legacy"
    IK = "ik"


NGRAM_DIALECTS = frozenset({Dialect.LLAMA_CPP})
"""Those that take n-gram drafters and MTP in any row: a search for others must leave these out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFlags:
    """Options that say where one model's parts go; None where the dialect has no such option."""

    model: str
    gpu_layers: str
    override_tensor: str | None
    cpu_moe: str | None
    n_cpu_moe: str | None
    cache_type_k: str
    cache_type_v: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One dialect's words."""

    target: PlacementFlags
    draft: PlacementFlags
    all_layers: str
    """Value of ``gpu_layers`` that puts every layer on the GPU."""
    no_mmap: tuple[str, ...]
    swa_full: str | None
    """None where the dialect has no such option."""


_TARGET = PlacementFlags(
    model="-m",
    gpu_layers="-ngl",
    override_tensor="-ot",
    cpu_moe="--cpu-moe",
    n_cpu_moe="--n-cpu-moe",
    cache_type_k="-ctk",
    cache_type_v="-ctv",
)

SPELLINGS: dict[Dialect, Spelling] = {
    Dialect.LLAMA_CPP: Spelling(
        target=_TARGET,
        draft=PlacementFlags(
            model="--spec-draft-model",
            gpu_layers="--spec-draft-ngl",
            override_tensor="--spec-draft-override-tensor",
            cpu_moe="--spec-draft-cpu-moe",
            n_cpu_moe="--spec-draft-n-cpu-moe",
            cache_type_k="--spec-draft-type-k",
            cache_type_v="--spec-draft-type-v",
        ),
        all_layers="all",
        # It replaced --no-mmap, which current builds reject.
        no_mmap=("--load-mode", "none"),
        swa_full="--swa-full",
    ),
    Dialect.LEGACY: Spelling(
        target=_TARGET,
        draft=PlacementFlags(
            model="-md",
            gpu_layers="-ngld",
            override_tensor="-otd",
            cpu_moe="--cpu-moe-draft",
            n_cpu_moe="--n-cpu-moe-draft",
            cache_type_k="-ctkd",
            cache_type_v="-ctvd",
        ),
        # "all" is newer than most of these builds; a number above the layer count never was wrong.
        all_layers="999",
        no_mmap=("--no-mmap",),
        swa_full="--swa-full",
    ),
    Dialect.IK: Spelling(
        target=PlacementFlags(
            model="-m",
            gpu_layers="-ngl",
            override_tensor="-ot",
            cpu_moe="--cpu-moe",
            # It has --n-cpu-moe, but counts from the last layer, where llama.cpp counts from the
            # first: what was measured is written as a pattern instead.
            n_cpu_moe=None,
            cache_type_k="-ctk",
            cache_type_v="-ctv",
        ),
        draft=PlacementFlags(
            model="-md",
            gpu_layers="-ngld",
            override_tensor=None,
            cpu_moe=None,
            n_cpu_moe=None,
            cache_type_k="-ctkd",
            cache_type_v="-ctvd",
        ),
        all_layers="999",
        no_mmap=("--no-mmap",),
        swa_full=None,
    ),
}


def speculation_arguments(speculation: Speculation, dialect: Dialect) -> list[str]:
    """The drafting parameters, all of them: their defaults changed between versions.

    Raises:
        BadInputError: the dialect has no words that spectui knows for what drafts.
    """
    if dialect is Dialect.LLAMA_CPP:
        kinds = ",".join(one.kind for one in speculation.chain)
        flags = [word for one in speculation.chain for word in _words(one, -1)]
        return ["--spec-type", kinds, *flags]
    if dialect is Dialect.IK:
        return _ik_stages(speculation)
    for one in speculation.chain:
        if not isinstance(one, DraftSimple):
            # Older builds spell it in several ways, if they know it at all.
            raise BadInputError(
                f"{dialect} has no flags for {one.kind} that spectui knows; export for "
                f"{Dialect.LLAMA_CPP}, or choose a setting with a draft model"
            )
    # A draft model is reason enough for these builds to draft.
    return _words(speculation.own, 0)


def _words(drafter: DrafterSetting, spelling: int) -> list[str]:
    """The numbers of a drafter, by the first or the last of their flags."""
    words = []
    for number in numbers_of(type(drafter)):
        words += [number.flags[spelling], number.argument(getattr(drafter, number.name))]
    return words


def _ik_stages(speculation: Speculation) -> list[str]:
    """A ``--spec-type`` per drafter, its numbers behind it.

    Raises:
        BadInputError: there are more of them than it takes, or it lacks one.
    """
    ahead, own = speculation.ahead, speculation.own
    is_lacking = isinstance(own, HiddenStateDrafter)
    if is_lacking or len(ahead) > 1 or (ahead and speculation.model is None):
        kinds = ", ".join(one.label for one in speculation.chain)
        raise BadInputError(
            f"{Dialect.IK} cannot draft with {kinds}: it takes one drafter, and one n-gram drafter "
            f"ahead of a draft model or of MTP layers; export for {Dialect.LLAMA_CPP}, or choose "
            "another setting"
        )
    return [word for one in speculation.chain for word in ("--spec-type", _ik_stage(one))]


def _ik_stage(drafter: DrafterSetting) -> str:
    numbers = numbers_of(type(drafter))
    # A number that became one of two stands under both.
    keys = [(key, one) for one in numbers for key in one.ik[:-1]]
    keys += [(one.ik[-1], one) for one in numbers]
    settings = ",".join(f"{key}={one.argument(getattr(drafter, one.name))}" for key, one in keys)
    kind = drafter.ik_kind or drafter.kind
    return f"{kind}:{settings}" if settings else kind
