"""Options that say where models go and how much their contexts hold."""

from collections.abc import Callable
from typing import Any

import click

from spectui.cli.values import INT_MAX, GpuLayers, WholeNumber
from spectui.config import CACHE_TYPES, FlashAttention

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""
_MAX_LAYERS = 1024


PLACEMENT: tuple[Decorator, ...] = (
    click.option(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        "gpu_layers",
        type=GpuLayers(),
        default=-1,
        help="Layers of the target on the GPU (default: all).",
    ),
    click.option(
        "-ngld",
        "--gpu-layers-draft",
        "--spec-draft-ngl",
        "gpu_layers_draft",
        type=GpuLayers(),
        default=-1,
        help="Layers of the draft on the GPU (default: all).",
    ),
    click.option(
        "-ot",
        "--override-tensor",
        multiple=True,
        metavar="PATTERN=BUFFER",
        help="Put tensors whose name matches into a buffer type, such as exps=CPU.",
    ),
    click.option("--cpu-moe", "-cmoe", is_flag=True, help="Keep all expert weights in RAM."),
    click.option(
        "--n-cpu-moe",
        "-ncmoe",
        type=WholeNumber(0, _MAX_LAYERS),
        default=0,
        metavar="N",
        help="Keep the expert weights of the first N layers in RAM.",
    ),
    click.option(
        "--override-kv",
        multiple=True,
        metavar="KEY=TYPE:VALUE,...",
        help=(
            "Take this for the model's metadata, such as qwen3moe.expert_used_count=int:4. The "
            "output is another model's then."
        ),
    ),
    click.option("--no-mmap", is_flag=True, help="Read the models instead of mapping them."),
    *(
        click.option(
            short,
            long,
            name,
            type=click.Choice(CACHE_TYPES),
            default="f16",
            show_default=True,
            help=f"Type of the {what} cache.",
        )
        for short, long, name, what in (
            ("-ctk", "--cache-type-k", "cache_type_k", "target's K"),
            ("-ctv", "--cache-type-v", "cache_type_v", "target's V"),
            ("-ctkd", "--cache-type-k-draft", "cache_type_k_draft", "draft's K"),
            ("-ctvd", "--cache-type-v-draft", "cache_type_v_draft", "draft's V"),
        )
    ),
)

_THREADS: Decorator = click.option(
    "-t",
    "--threads",
    type=WholeNumber(0, MAX_THREADS),
    default=0,
    metavar="N",
    help="Compute threads (default: one per physical core).",
)

CONTEXT: tuple[Decorator, ...] = (
    click.option(
        "-c",
        "--ctx-size",
        type=WholeNumber(1, INT_MAX),
        default=4096,
        show_default=True,
        metavar="N",
        help="Tokens that the context holds.",
    ),
    click.option(
        "-b",
        "--batch-size",
        type=WholeNumber(1, INT_MAX),
        default=2048,
        show_default=True,
        metavar="N",
        help="Most tokens per decode.",
    ),
    click.option(
        "-ub",
        "--ubatch-size",
        type=WholeNumber(1, INT_MAX),
        default=512,
        show_default=True,
        metavar="N",
        help="Most tokens computed at once.",
    ),
    click.option(
        "-fa",
        "--flash-attn",
        type=click.Choice([str(f) for f in FlashAttention]),
        default="auto",
        show_default=True,
        help="Flash attention.",
    ),
    _THREADS,
    click.option(
        "-tb",
        "--threads-batch",
        type=WholeNumber(0, MAX_THREADS),
        default=0,
        metavar="N",
        help="Compute threads for batches (default: as -t).",
    ),
    click.option(
        "--swa-full",
        is_flag=True,
        help="Let layers with a sliding window remember the whole context.",
    ),
)

CONTEXT_OF_GRID = tuple(option for option in CONTEXT if option is not _THREADS)
"""For a command to which threads are an axis."""
