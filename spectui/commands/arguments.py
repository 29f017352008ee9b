"""The arguments of llama-server for a setting, in a dialect's words."""

import csv
import io
from dataclasses import replace
from pathlib import Path

from spectui.commands.home import is_at_home
from spectui.commands.server_options import flags_of
from spectui.errors import BadInputError
from spectui.options import placement
from spectui.options.context import CPU, NUMA, SWA_FULL, THREADS_BATCH_DRAFT, THREADS_DRAFT
from spectui.options.dialect import Dialect
from spectui.options.drafters import DrafterSetting, DraftSimple, HiddenStateDrafter, numbers_of
from spectui.options.option import Option
from spectui.options.setup import (
    DENSE,
    EXPERTS,
    ContextOptions,
    CpuOptions,
    Devices,
    Fit,
    LazyMode,
    ModelOptions,
    TensorOverride,
)
from spectui.options.speculation import Speculation

_DEFAULT_CACHE_TYPE = placement.CACHE_TYPE_K.default


_Pair = tuple[Option, Option]
"""An option of the target, and the draft's."""
_MODEL: _Pair = (placement.MODEL, placement.MODEL_DRAFT)
_LAYERS: _Pair = (placement.GPU_LAYERS, placement.GPU_LAYERS_DRAFT)
_OVERRIDE: _Pair = (placement.OVERRIDE_TENSOR, placement.OVERRIDE_TENSOR_DRAFT)
_DEVICE: _Pair = (placement.DEVICE, placement.DEVICE_DRAFT)
_CPU_MOE: _Pair = (placement.CPU_MOE, placement.CPU_MOE_DRAFT)
_N_CPU_MOE: _Pair = (placement.N_CPU_MOE, placement.N_CPU_MOE_DRAFT)
_CACHE_K: _Pair = (placement.CACHE_TYPE_K, placement.CACHE_TYPE_K_DRAFT)
_CACHE_V: _Pair = (placement.CACHE_TYPE_V, placement.CACHE_TYPE_V_DRAFT)
_TARGET, _DRAFT = 0, 1
"""Places in a pair."""


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
        BadInputError: the dialect has no words for a placement or a drafter that was asked for.
        ValueError: speculation is on without a draft.
    """
    arguments = [
        # Before what names a device: the server knows those of its RPC servers from here on.
        *_rpc(target.devices),
        *_placement(target, _TARGET, dialect),
        *_cache_types(target, _TARGET, dialect, explicit=False),
        *_shared_devices(target, dialect),
        *_fit(target, dialect),
        *_metadata(target, dialect),
        # One load mode serves both models in every dialect: the target's, by far the larger.
        *_loading(target, dialect),
        *_context(context, dialect),
        *_processors(context),
    ]
    if speculation is None:
        return arguments
    if speculation.is_mtp and draft is None:
        own = replace(
            target, cache_type_k=target.cache_type_k_mtp, cache_type_v=target.cache_type_v_mtp
        )
        arguments += _cache_types(own, _DRAFT, dialect, explicit=False)
    if not speculation.takes_draft or (draft is None and not speculation.needs_draft):
        return [*arguments, *speculation_arguments(speculation, dialect)]
    if draft is None:
        raise ValueError("speculation is on, but there is no draft to write")
    # ik_llama.cpp and older llama.cpp give the draft the target's cache types unless told.
    explicit = {target.cache_type_k, target.cache_type_v} != {_DEFAULT_CACHE_TYPE}
    return [
        *arguments,
        *_placement(draft, _DRAFT, dialect, inherits=target.devices.names),
        *_cache_types(draft, _DRAFT, dialect, explicit=explicit),
        *_threads_of_draft(context, dialect),
        *speculation_arguments(speculation, dialect),
    ]


def _flag_in(option: Option, dialect: Dialect) -> str | None:
    """The flag that is written in a dialect; None where it has none of the same meaning."""
    if dialect is Dialect.IK and option in _N_CPU_MOE:
        # It counts from the last layer there.
        return None
    if dialect is Dialect.LLAMA_CPP and option.written:
        return option.written
    return next((flag for flag in option.flags if flag in flags_of(dialect)), None)


def all_layers(dialect: Dialect) -> str:
    """The value of ``-ngl`` that puts every layer on the GPU."""
    # "all" is newer than most other builds; a number above the layer count never was wrong.
    return "all" if dialect is Dialect.LLAMA_CPP else "999"


def _loading(target: ModelOptions, dialect: Dialect) -> list[str]:
    """How weights come into RAM, where that is no default."""
    default, mode = LazyMode.AUTO, target.load_mode
    said = (
        (placement.NO_MMAP, not target.mmap and not target.direct_io),
        (placement.MLOCK, target.mlock),
        (placement.DIRECT_IO, target.direct_io),
    )
    words = [option.long_flag for option, is_said in said if is_said]
    if dialect is Dialect.LLAMA_CPP and words:
        # It replaced these switches, which current builds reject.
        words = [placement.LOAD_MODE.long_flag, mode]
    if target.lazy_mode is not default:
        words += [placement.LAZY_MODE.long_flag, target.lazy_mode]
    words += [] if target.repack else [placement.NO_REPACK.long_flag]
    return [*words, placement.NO_HOST.long_flag] if target.no_host else words


def _threads_of_draft(context: ContextOptions, dialect: Dialect) -> list[str]:
    said = (
        (THREADS_DRAFT, context.threads_draft),
        (THREADS_BATCH_DRAFT, context.threads_batch_draft),
    )
    numbers = ((_flag_in(option, dialect), number) for option, number in said)
    return [word for flag, n in numbers if flag is not None and n for word in (flag, str(n))]


def _processors(context: ContextOptions) -> list[str]:
    """Where threads run, and how they wait, where that is no default."""
    words = [] if context.numa is None else [NUMA.long_flag, str(context.numa)]
    half = len(CPU) // 2
    # Those of batches count with a number of threads of their own, and are none else.
    for cpu, options in (
        (context.cpu, CPU[:half]),
        (context.cpu_batch, CPU[half:]),
    ):
        mask, _range, strict, prio, poll = (option.long_flag for option in options)
        default = CpuOptions()
        words += [mask, f"{sum(1 << one for one in cpu.cpus):#x}"] if cpu.cpus else []
        words += [strict, "1"] if cpu.strict else []
        words += [prio, str(cpu.prio)] if cpu.prio != default.prio else []
        words += [poll, str(cpu.poll)] if cpu.poll != default.poll else []
    return words


def _placement(
    options: ModelOptions,
    which: int,
    dialect: Dialect,
    *,
    inherits: tuple[str, ...] | None = None,
) -> list[str]:
    arguments = [_known(_MODEL[which], options, dialect), _path(options.path)]
    # "All layers" is written out. The server's default is another thing in each dialect: current
    # llama.cpp fits layers and experts into the free memory, old builds put no layer on the GPU.
    # A written -ngl also makes that fit step aside, and a written -c keeps the context's size.
    # What --fit has chosen is left to the server, where it fits as well.
    is_fitted = _is_fitted(options, dialect)
    if not is_fitted:
        layers = all_layers(dialect) if options.n_gpu_layers < 0 else str(options.n_gpu_layers)
        arguments += [_known(_LAYERS[which], options, dialect), layers]
    names = options.devices.names
    if names != inherits and names is not None:
        flag = _known(_DEVICE[which], options, dialect)
        arguments += [flag, ",".join(names) or "none"]
    # First match wins in the server, so the user's own patterns come before the MoE options.
    overrides = [] if is_fitted else list(options.override_tensor)
    n_cpu_moe = _flag_in(_N_CPU_MOE[which], dialect)
    n_cpu_ffn = _flag_in(placement.N_CPU_FFN, dialect)
    arguments_moe: list[str] = []
    if options.cpu_moe:
        arguments_moe = [_known(_CPU_MOE[which], options, dialect)]
    elif options.n_cpu_moe > 0 and n_cpu_moe is not None:
        arguments_moe = [n_cpu_moe, str(options.n_cpu_moe)]
    elif options.n_cpu_moe > 0:
        overrides.append(first_experts(options.n_cpu_moe))
    if options.n_cpu_ffn > 0 and n_cpu_ffn is not None:
        arguments_moe += [n_cpu_ffn, str(options.n_cpu_ffn)]
    elif options.n_cpu_ffn > 0:
        overrides.append(first_dense(options.n_cpu_ffn))
    if overrides:
        flag = _known(_OVERRIDE[which], options, dialect)
        arguments += [flag, _override_value(overrides)]
    return arguments + arguments_moe


def _is_fitted(options: ModelOptions, dialect: Dialect) -> bool:
    return options.fit is not None and dialect is Dialect.LLAMA_CPP


def _fit(options: ModelOptions, dialect: Dialect) -> list[str]:
    """Options of ``--fit``, where they are no defaults."""
    if options.fit is None or not _is_fitted(options, dialect):
        return []
    default, words = Fit(), []
    if options.fit.targets_mib != default.targets_mib:
        words += [placement.FIT_TARGET.long_flag, ",".join(map(str, options.fit.targets_mib))]
    if options.fit.min_ctx != default.min_ctx:
        words += [placement.FIT_CTX.long_flag, str(options.fit.min_ctx)]
    return words


def _rpc(devices: Devices) -> list[str]:
    return [placement.RPC.flags[0], ",".join(devices.rpc)] if devices.rpc else []


def _shared_devices(target: ModelOptions, dialect: Dialect) -> list[str]:
    """Options of devices that serve target and draft, where they are no defaults."""
    default, devices = Devices(), target.devices
    split = () if _is_fitted(target, dialect) else devices.split
    said = (
        (placement.SPLIT_MODE, str(devices.split_mode), devices.split_mode != default.split_mode),
        (placement.MAIN_GPU, str(devices.main), devices.main != default.main),
        (placement.TENSOR_SPLIT, ",".join(f"{one:g}" for one in split), split),
    )
    return [word for option, text, is_said in said if is_said for word in (option.flags[0], text)]


def _known(option: Option, options: ModelOptions, dialect: Dialect) -> str:
    flag = _flag_in(option, dialect)
    if flag is None:
        raise BadInputError(
            f"{dialect} cannot place parts of a draft ({option.flags[0]} of {options.path.name}); "
            f"choose another draft or export for another dialect"
        )
    return flag


def first_experts(n_layers: int) -> TensorOverride:
    """The override for ``-ot`` that is equivalent to ``--n-cpu-moe`` in llama.cpp."""
    return _first(n_layers, EXPERTS)


def first_dense(n_layers: int) -> TensorOverride:
    """The override for ``-ot`` that is equivalent to ``--n-cpu-ffn`` in llama.cpp."""
    return _first(n_layers, DENSE)


def _first(n_layers: int, part: str) -> TensorOverride:
    layers = "|".join(str(layer) for layer in range(n_layers))
    return TensorOverride(pattern=rf"blk\.({layers})\.{part}", buffer="CPU")


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


def _metadata(options: ModelOptions, dialect: Dialect) -> list[str]:
    """``--override-kv`` for target and draft together, since builds deprecate a repeated option."""
    texts = [override.text for override in options.override_kv]
    if dialect is Dialect.LLAMA_CPP and texts:
        return ["--override-kv", _csv_row(texts)]
    return [word for text in texts for word in ("--override-kv", text)]


def _csv_row(values: list[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(values)
    return row.getvalue()


def _cache_types(
    options: ModelOptions, which: int, dialect: Dialect, *, explicit: bool
) -> list[str]:
    types = ((_CACHE_K, options.cache_type_k), (_CACHE_V, options.cache_type_v))
    return [
        word
        for pair, value in types
        if explicit or value != _DEFAULT_CACHE_TYPE
        for word in (_known(pair[which], options, dialect), value)
    ]


def _context(context: ContextOptions, dialect: Dialect) -> list[str]:
    # Always written, since their defaults differ between builds. -fa in its value form: the bare
    # one ended in autumn 2025.
    arguments = ["-c", str(context.ctx_size), "-b", str(context.batch_size)]
    arguments += ["-ub", str(context.ubatch_size), "-fa", context.flash_attn.value]
    if context.threads > 0:
        arguments += ["-t", str(context.threads)]
    if context.threads_batch > 0:
        arguments += ["-tb", str(context.threads_batch)]
    if not context.kv_offload:
        arguments.append(placement.NO_KV_OFFLOAD.flags[0])
    cache_mib = context.moe_cache_mib
    for option, is_on in (
        (placement.NO_OP_OFFLOAD, not context.op_offload),
        (SWA_FULL, context.swa_full),
        (placement.MOE_CACHE_MIB, cache_mib > 0),
    ):
        flag = _flag_in(option, dialect)
        if is_on and flag is None:
            raise BadInputError(
                f"{dialect} has no {option.long_flag} that spectui knows; measure without it, or "
                "export for another dialect"
            )
        if is_on and flag is not None:
            arguments += [flag] if option.is_switch else [flag, str(cache_mib)]
    return arguments


def _path(path: Path) -> str:
    """The path as an argument that no program takes for an option, and no shell for another."""
    text = str(path)
    return f"./{text}" if text.startswith("-") or is_at_home(text) else text


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
