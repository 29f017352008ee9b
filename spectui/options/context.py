"""Options of contexts: their size, batches, flash attention, compute threads.

Names as in ``options.catalogue``.
"""

from dataclasses import replace

from spectui.options.option import Option, Switch, Whole, Words, default_of
from spectui.options.setup import ContextOptions, CpuOptions, FlashAttention, Numa

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""

THREADS = Option(
    flags=("-t", "--threads"),
    values=Whole(0, MAX_THREADS),
    help="Compute threads (default: one per physical core, efficiency cores left out).",
    default=default_of(ContextOptions, "threads"),
)
THREADS_BATCH = replace(
    THREADS,
    flags=("-tb", "--threads-batch"),
    help="Compute threads for batches (default: as -t).",
    default=default_of(ContextOptions, "threads_batch"),
)
THREADS_DRAFT = replace(
    THREADS,
    flags=("-td", "--threads-draft", "--spec-draft-threads"),
    help="Compute threads of the draft (default: as -t).",
    default=default_of(ContextOptions, "threads_draft"),
)
THREADS_BATCH_DRAFT = replace(
    THREADS,
    flags=("-tbd", "--threads-batch-draft", "--spec-draft-threads-batch"),
    help="Compute threads of the draft for batches (default: as the target's).",
    default=default_of(ContextOptions, "threads_batch_draft"),
)
THREAD_COUNTS = (THREADS, THREADS_BATCH, THREADS_DRAFT, THREADS_BATCH_DRAFT)
CPU_MASK = Option(
    flags=("--cpu-mask", "-C"),
    help="Processors for the compute threads, as hexadecimal bits.",
    metavar="M",
    repeats=True,
)
CPU_RANGE = Option(
    flags=("--cpu-range", "-Cr"),
    help="Processors for them, beside those of --cpu-mask.",
    metavar="LO-HI",
    repeats=True,
)
CPU_STRICT = Option(
    flags=("--cpu-strict",),
    values=Whole(0),
    help="1 gives each thread one of these processors.",
    default=int(CpuOptions().strict),
    metavar="0|1",
    shows_default=False,
)
PRIO = Option(
    flags=("--prio",),
    values=Whole(-1, 3),
    help="Priority of the compute threads: -1 low, 0 normal, 1 medium, 2 high, 3 real-time.",
    default=default_of(CpuOptions, "prio"),
    shows_default=False,
)
POLL = Option(
    flags=("--poll",),
    values=Whole(0),
    help="How long they wait awake for work, from 0 to 100.",
    default=default_of(CpuOptions, "poll"),
)


def _batch(own: Option) -> Option:
    flags = (f"{flag}-batch" if flag.startswith("--") else f"{flag}b" for flag in own.flags)
    return replace(own, flags=tuple(flags), help=f"As {own.long_flag}, for the threads of -tb.")


CPU_MASK_BATCH, CPU_RANGE_BATCH = _batch(CPU_MASK), _batch(CPU_RANGE)
CPU_STRICT_BATCH, POLL_BATCH = _batch(CPU_STRICT), _batch(POLL)
PRIO_BATCH = replace(_batch(PRIO), values=Whole(0, 3))
NUMA = Option(
    flags=("--numa",),
    values=Words(tuple(map(str, Numa))),
    help="Spread the threads over the nodes of a machine that has several.",
)
CPU = (
    *(CPU_MASK, CPU_RANGE, CPU_STRICT, PRIO, POLL),
    *(CPU_MASK_BATCH, CPU_RANGE_BATCH, CPU_STRICT_BATCH, PRIO_BATCH, POLL_BATCH),
)
"""Options of compute threads, those for batches behind the others."""
SWA_FULL = Option(
    flags=("--swa-full",),
    values=Switch(),
    help="Let layers with a sliding window remember the whole context.",
)
CTX_SIZE = Option(
    flags=("-c", "--ctx-size"),
    values=Whole(1),
    help="Tokens that the context holds.",
    default=default_of(ContextOptions, "ctx_size"),
)
CONTEXT = (
    CTX_SIZE,
    Option(
        flags=("-b", "--batch-size"),
        values=Whole(1),
        help="Most tokens per decode.",
        default=default_of(ContextOptions, "batch_size"),
    ),
    Option(
        flags=("-ub", "--ubatch-size"),
        values=Whole(1),
        help="Most tokens computed at once.",
        default=default_of(ContextOptions, "ubatch_size"),
    ),
    Option(
        flags=("-fa", "--flash-attn"),
        values=Words(tuple(map(str, FlashAttention))),
        help="Flash attention.",
        default=default_of(ContextOptions, "flash_attn"),
    ),
    *(*THREAD_COUNTS, *CPU, NUMA, SWA_FULL),
)
"""Options that both contexts share."""
