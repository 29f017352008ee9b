"""Writes a setup as arguments of llama-server, in the options of a dialect."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from spectui.commands.home import is_at_home
from spectui.commands.renames import Stage
from spectui.commands.server_options import flags_of
from spectui.errors import BadInputError
from spectui.options import catalogue, placement
from spectui.options.catalogue import BY_FLAG
from spectui.options.drafters import DrafterSetting, DraftSimple, HiddenStateDrafter, numbers_of
from spectui.options.option import Dialect, Option
from spectui.options.setup import (
    EXPERTS,
    ContextOptions,
    Devices,
    Fit,
    ModelOptions,
    TensorOverride,
)
from spectui.options.speculation import Speculation

_N_CPU_MOE = (placement.N_CPU_MOE, placement.N_CPU_MOE_DRAFT)
_CACHE_TYPE = placement.CACHE_TYPE_K.default

_Given = tuple[Option | str, str | bool]
"""An option or its flag, with a value, or whether a switch is given; empty values are left out."""


def server_arguments(
    target: ModelOptions,
    draft: ModelOptions | None,
    context: ContextOptions,
    speculation: Speculation | None,
    *,
    dialect: Dialect,
) -> list[str]:
    """Arguments for llama-server, without the program's name.

    ``speculation`` None means off: not one speculative option is written, whatever ``draft`` is. An
    n-gram drafter needs no draft, so that none is written then either.

    Raises:
        BadInputError: the dialect has no option for a placement or a drafter of the setup.
        ValueError: speculation is on without a draft.
    """
    words = _words((*_target(target, dialect), *_context(context)), dialect)
    if speculation is None:
        return words
    if speculation.is_mtp and draft is None:
        own = replace(
            target, cache_type_k=target.cache_type_k_mtp, cache_type_v=target.cache_type_v_mtp
        )
        words += _words(_cache_types(own), dialect, draft=own)
    elif speculation.takes_draft and draft is None and speculation.needs_draft:
        raise ValueError("speculation is on, but there is no draft to write")
    elif speculation.takes_draft and draft is not None:
        # In ik_llama.cpp and older llama.cpp the draft's cache types default to the target's.
        explicit = {target.cache_type_k, target.cache_type_v} != {_CACHE_TYPE}
        placed = _placement(draft, dialect, beside=target)
        words += _words((*placed, *_cache_types(draft, explicit=explicit)), dialect, draft=draft)
        threads = (
            (catalogue.THREADS_DRAFT, _positive(context.threads_draft)),
            (catalogue.THREADS_BATCH_DRAFT, _positive(context.threads_batch_draft)),
        )
        words += _words(threads, dialect)
    return [*words, *_drafting(speculation, dialect)]


def _words(
    given: Iterable[_Given], dialect: Dialect, *, draft: ModelOptions | None = None
) -> list[str]:
    """Options as words; with ``draft`` those of the draft in place of the target's.

    Raises:
        BadInputError: the dialect has no option of the same meaning.
    """
    words: list[str] = []
    for option, value in given:
        if value:
            flag = option if isinstance(option, str) else _flag(option, dialect, draft)
            words += [flag] if value is True else [flag, value]
    return words


def _flag(option: Option, dialect: Dialect, draft: ModelOptions | None) -> str:
    flag = _flag_in(option, dialect, is_draft=draft is not None)
    if flag is not None:
        return flag
    lacking = option.long_flag if draft is None else f"{option.long_flag}-draft"
    raise BadInputError(
        f"{dialect} has no {lacking} that spectui knows; measure without it, or export for "
        "another dialect"
    )


def _flag_in(option: Option, dialect: Dialect, *, is_draft: bool) -> str | None:
    """The flag that is written in a dialect; None where it has none of the same meaning."""
    own = BY_FLAG.get(f"{option.long_flag}-draft") if is_draft else option
    if own is None or (dialect is Dialect.IK and own in _N_CPU_MOE):
        # ik_llama.cpp counts from the last layer.
        return None
    if dialect is Dialect.LLAMA_CPP and own.written:
        return own.written
    return next((flag for flag in own.flags if flag in flags_of(dialect)), None)


def _target(target: ModelOptions, dialect: Dialect) -> Iterator[_Given]:
    # Before options that name devices: the server knows those of RPC servers from here on.
    yield placement.RPC, ",".join(target.devices.rpc)
    yield from _placement(target, dialect)
    yield from _cache_types(target)
    default, devices = Devices(), target.devices
    yield placement.SPLIT_MODE, _unless(devices.split_mode, default.split_mode)
    yield placement.MAIN_GPU, _unless(devices.main, default.main)
    if _is_fitted(target, dialect) and target.fit is not None:
        mib = ",".join(map(str, target.fit.targets_mib))
        yield placement.FIT_TARGET.long_flag, mib
        yield placement.FIT_CTX.long_flag, _unless(target.fit.min_ctx, Fit().min_ctx)
    else:
        yield placement.TENSOR_SPLIT, ",".join(f"{one:g}" for one in devices.split)
    # Target and draft have one list; builds deprecate a repeated option.
    texts = [override.text for override in target.override_kv]
    for text in [_csv_row(texts)] if dialect is Dialect.LLAMA_CPP else texts:
        yield placement.OVERRIDE_KV, text
    # One load mode serves both models in every dialect: the target's, by far the larger.
    yield from _loading(target, dialect)


def _placement(
    model: ModelOptions, dialect: Dialect, *, beside: ModelOptions | None = None
) -> Iterator[_Given]:
    """Yield a model's placement; ``beside`` is the target of a draft, which has its devices."""
    yield placement.MODEL, _path(model.path)
    # "All layers" is written out. The server's default is another thing in each dialect: current
    # llama.cpp fits layers and experts into the free memory, old builds put no layer on the GPU.
    # A written -ngl also makes that fit step aside, and a written -c keeps the context's size.
    # A choice of --fit is not written where the server fits as well.
    is_fitted = _is_fitted(model, dialect)
    if not is_fitted:
        # "all" is newer than most other builds; a number above the layer count never was wrong.
        every = "all" if dialect is Dialect.LLAMA_CPP else "999"
        yield placement.GPU_LAYERS, every if model.n_gpu_layers < 0 else str(model.n_gpu_layers)
    names = model.devices.names
    if names is not None and (beside is None or names != beside.devices.names):
        yield placement.DEVICE, ",".join(names) or "none"
    # First match wins in the server, so the user's own patterns come before the MoE options.
    overrides = [] if is_fitted else list(model.override_tensor)
    n_layers = 0 if model.cpu_moe else model.n_cpu_moe
    if n_layers and _flag_in(placement.N_CPU_MOE, dialect, is_draft=beside is not None) is None:
        overrides.append(first_experts(n_layers))
        n_layers = 0
    yield placement.OVERRIDE_TENSOR, _override_value(overrides)
    yield placement.CPU_MOE, model.cpu_moe
    yield placement.N_CPU_MOE, _positive(n_layers)


def _is_fitted(model: ModelOptions, dialect: Dialect) -> bool:
    return model.fit is not None and dialect is Dialect.LLAMA_CPP


def _loading(target: ModelOptions, dialect: Dialect) -> Iterator[_Given]:
    """Yield the options of loading that differ from their defaults."""
    if dialect is Dialect.LLAMA_CPP:
        # It replaced three switches, which current builds reject.
        yield placement.LOAD_MODE, _unless(target.load_mode, "auto")
    else:
        yield placement.NO_MMAP, not target.mmap and not target.direct_io
        yield placement.MLOCK, target.mlock
        yield placement.DIRECT_IO, target.direct_io
    yield placement.NO_REPACK, not target.repack


def _cache_types(model: ModelOptions, *, explicit: bool = False) -> Iterator[_Given]:
    for option, value in (
        (placement.CACHE_TYPE_K, model.cache_type_k),
        (placement.CACHE_TYPE_V, model.cache_type_v),
    ):
        yield option, value if explicit else _unless(value, _CACHE_TYPE)


def _context(context: ContextOptions) -> Iterator[_Given]:
    # Always written, since their defaults differ between builds. -fa in its value form: the bare
    # one ended in autumn 2025.
    yield "-c", str(context.ctx_size)
    yield "-b", str(context.batch_size)
    yield "-ub", str(context.ubatch_size)
    yield "-fa", context.flash_attn.value
    yield catalogue.THREADS, _positive(context.threads)
    yield catalogue.THREADS_BATCH, _positive(context.threads_batch)
    yield placement.NO_KV_OFFLOAD, not context.kv_offload
    yield placement.NO_OP_OFFLOAD, not context.op_offload
    yield catalogue.SWA_FULL, context.swa_full
    yield placement.MOE_CACHE_MIB, _positive(context.moe_cache_mib)
    yield catalogue.NUMA, "" if context.numa is None else str(context.numa)


def _unless(value: object, default: object) -> str:
    """The value as a text; empty where it is the default."""
    return "" if value == default else str(value)


def _positive(number: int) -> str:
    return str(number) if number > 0 else ""


def _path(path: Path) -> str:
    """The path as an argument that is not mistaken for an option, or for a home folder."""
    text = str(path)
    return f"./{text}" if text.startswith("-") or is_at_home(text) else text


def _csv_row(values: list[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(values)
    return row.getvalue()


def first_experts(n_layers: int) -> TensorOverride:
    """The override for ``-ot`` that is equivalent to ``--n-cpu-moe`` in llama.cpp."""
    layers = "|".join(map(str, range(n_layers)))
    return TensorOverride(pattern=rf"blk\.({layers})\.{EXPERTS}", buffer="CPU")


def puts_elsewhere(overrides: str) -> bool:
    """Whether a value of ``-ot`` puts weights anywhere but into RAM."""
    return any(not part.endswith("=CPU") for part in overrides.split(","))


def _override_value(overrides: list[TensorOverride]) -> str:
    """All overrides in one value: llama-server deprecates a repeated ``-ot``."""
    for override in overrides:
        # The server splits at commas first and at the first "=" then; neither can be escaped.
        if "," in override.pattern + override.buffer or "=" in override.pattern:
            raise BadInputError(
                f"the tensor pattern {override.pattern!r} contains ',' or '=', which llama-server "
                f"cannot read in -ot; write the pattern without them"
            )
    return ",".join(f"{override.pattern}={override.buffer}" for override in overrides)


def _drafting(speculation: Speculation, dialect: Dialect) -> list[str]:
    """All drafting options, defaults included, since these changed between versions.

    Raises:
        BadInputError: the dialect has no options that spectui knows for the drafters.
    """
    if dialect is Dialect.LLAMA_CPP:
        kinds = ",".join(one.kind for one in speculation.chain)
        return ["--spec-type", kinds, *_numbers(speculation.chain, -1)]
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
    return _numbers(speculation.chain, 0)


def _numbers(chain: Iterable[DrafterSetting], spelling: int) -> list[str]:
    """The numbers of drafters, by the first or the last of their flags."""
    return [
        word
        for drafter in chain
        for one in numbers_of(type(drafter))
        for word in (one.flags[spelling], one.argument(getattr(drafter, one.name)))
    ]


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
    return [word for one in speculation.chain for word in _ik_stage(one).words]


def _ik_stage(drafter: DrafterSetting) -> Stage:
    numbers = numbers_of(type(drafter))
    texts = [(one.ik, one.argument(getattr(drafter, one.name))) for one in numbers]
    # A number with two keys is written under both.
    found = {key: text for keys, text in texts for key in keys[:-1]}
    found |= {keys[-1]: text for keys, text in texts}
    return Stage(kind=drafter.ik_kind or drafter.kind, numbers=found)
