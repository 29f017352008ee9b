"""Writes the llama-server command that does what was measured."""

import csv
import io
import shlex
from pathlib import Path

from spectui.config import ContextOptions, ModelOptions, TensorOverride
from spectui.errors import BadInputError
from spectui.export.dialects import (
    SPELLINGS,
    Dialect,
    PlacementFlags,
    Spelling,
    speculation_arguments,
)
from spectui.options.speculation import Speculation

_DEFAULT_CACHE_TYPE = "f16"


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
    spelling = SPELLINGS[dialect]
    arguments = [
        *_placement(target, spelling.target, spelling, dialect),
        *_cache_types(target, spelling.target, explicit=False),
        *_metadata(target, dialect),
        # One load mode serves both models in every dialect: the target's, by far the larger.
        *(() if target.mmap else spelling.no_mmap),
        *_context(context, spelling, dialect),
    ]
    if speculation is None:
        return arguments
    if not speculation.needs_draft:
        return [*arguments, *speculation_arguments(speculation, dialect)]
    if draft is None:
        raise ValueError("speculation is on, but there is no draft to write")
    # ik_llama.cpp and older llama.cpp give the draft the target's cache types unless told.
    explicit = {target.cache_type_k, target.cache_type_v} != {_DEFAULT_CACHE_TYPE}
    return [
        *arguments,
        *_placement(draft, spelling.draft, spelling, dialect),
        *_cache_types(draft, spelling.draft, explicit=explicit),
        *speculation_arguments(speculation, dialect),
    ]


def server_command(
    target: ModelOptions,
    draft: ModelOptions | None,
    context: ContextOptions,
    speculation: Speculation | None,
    *,
    dialect: Dialect,
    program: str = "llama-server",
) -> str:
    """The same as one line that a POSIX shell splits back into exactly these arguments.

    Raises:
        BadInputError: the dialect has no words for a placement or a drafter that was asked for.
        ValueError: speculation is on without a draft.
    """
    arguments = server_arguments(target, draft, context, speculation, dialect=dialect)
    return shlex.join([program, *arguments])


def _placement(
    options: ModelOptions, flags: PlacementFlags, spelling: Spelling, dialect: Dialect
) -> list[str]:
    arguments = [flags.model, _path(options.path)]
    # "All layers" is written out. The server's default is another thing in each dialect: current
    # llama.cpp fits layers and experts into the free memory, old builds put no layer on the GPU.
    # A written -ngl also makes that fit step aside, and a written -c keeps the context's size.
    layers = spelling.all_layers if options.n_gpu_layers < 0 else str(options.n_gpu_layers)
    arguments += [flags.gpu_layers, layers]
    # First match wins in the server, so the user's own patterns come before the MoE options.
    overrides = list(options.override_tensor)
    arguments_moe: list[str] = []
    if options.cpu_moe:
        arguments_moe = [_known(flags.cpu_moe, "--cpu-moe", options, dialect)]
    elif options.n_cpu_moe > 0 and flags.n_cpu_moe:
        arguments_moe = [flags.n_cpu_moe, str(options.n_cpu_moe)]
    elif options.n_cpu_moe > 0:
        overrides.append(first_experts(options.n_cpu_moe))
    if overrides:
        flag = _known(flags.override_tensor, "-ot", options, dialect)
        arguments += [flag, _override_value(overrides)]
    return arguments + arguments_moe


def _known(flag: str | None, wanted: str, options: ModelOptions, dialect: Dialect) -> str:
    if flag is None:
        raise BadInputError(
            f"{dialect} cannot place parts of a draft ({wanted} of {options.path.name}); "
            f"choose another draft or export for another dialect"
        )
    return flag


def first_experts(n_layers: int) -> TensorOverride:
    """What ``--n-cpu-moe`` means in llama.cpp, as a pattern for ``-ot``."""
    layers = "|".join(str(layer) for layer in range(n_layers))
    pattern = rf"blk\.({layers})\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    return TensorOverride(pattern=pattern, buffer="CPU")


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
    """Overrides serve target and draft. Current builds deprecate a repeated option."""
    texts = [override.text for override in options.override_kv]
    if dialect is Dialect.LLAMA_CPP and texts:
        return ["--override-kv", _csv_row(texts)]
    return [word for text in texts for word in ("--override-kv", text)]


def _csv_row(values: list[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(values)
    return row.getvalue()


def _cache_types(options: ModelOptions, flags: PlacementFlags, *, explicit: bool) -> list[str]:
    arguments = []
    if explicit or options.cache_type_k != _DEFAULT_CACHE_TYPE:
        arguments += [flags.cache_type_k, options.cache_type_k]
    if explicit or options.cache_type_v != _DEFAULT_CACHE_TYPE:
        arguments += [flags.cache_type_v, options.cache_type_v]
    return arguments


def _context(context: ContextOptions, spelling: Spelling, dialect: Dialect) -> list[str]:
    # Always written, since their defaults differ between builds. -fa in its value form: the bare
    # one ended in autumn 2025.
    arguments = ["-c", str(context.ctx_size), "-b", str(context.batch_size)]
    arguments += ["-ub", str(context.ubatch_size), "-fa", context.flash_attn.value]
    if context.threads > 0:
        arguments += ["-t", str(context.threads)]
    if context.threads_batch > 0:
        arguments += ["-tb", str(context.threads_batch)]
    if context.swa_full:
        if spelling.swa_full is None:
            raise BadInputError(
                f"{dialect} has no --swa-full that spectui knows; measure without it, or export "
                "for another dialect"
            )
        arguments.append(spelling.swa_full)
    return arguments


def _path(path: Path) -> str:
    """The path as an argument that nobody takes for an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text
