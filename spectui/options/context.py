"""Options of contexts: their size, batches, flash attention, compute threads.

Names as in ``options.catalogue``.
"""

from spectui.options.option import Form, Option, Whole, Words, default_of
from spectui.options.setup import ContextOptions, FlashAttention, Numa

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""

THREADS = Option(
    ("-t", "--threads"),
    "Compute threads (default: one per physical core, efficiency cores left out).",
    Whole(0, MAX_THREADS),
    default=default_of(ContextOptions, "threads"),
)
THREADS_BATCH = THREADS.twin("-tb --threads-batch", "Compute threads for batches (default: as -t).")
THREADS_DRAFT = THREADS.twin(
    "-td --threads-draft --spec-draft-threads", "Compute threads of the draft (default: as -t)."
)
THREADS_BATCH_DRAFT = THREADS.twin(
    "-tbd --threads-batch-draft --spec-draft-threads-batch",
    "Compute threads of the draft for batches (default: as the target's).",
)
THREAD_COUNTS = (THREADS, THREADS_BATCH, THREADS_DRAFT, THREADS_BATCH_DRAFT)
NUMA = Option(
    ("--numa",),
    "Spread the threads over the nodes of a machine that has several.",
    Words(tuple(map(str, Numa))),
)
SWA_FULL = Option(
    ("--swa-full",), "Let layers with a sliding window remember the whole context.", Form.SWITCH
)
CTX_SIZE = Option(
    ("-c", "--ctx-size"),
    "Tokens that the context holds.",
    Whole(1),
    default=default_of(ContextOptions, "ctx_size"),
)
SIZES = (
    CTX_SIZE,
    Option(
        ("-b", "--batch-size"),
        "Most tokens per decode.",
        Whole(1),
        default=default_of(ContextOptions, "batch_size"),
    ),
    Option(
        ("-ub", "--ubatch-size"),
        "Most tokens computed at once.",
        Whole(1),
        default=default_of(ContextOptions, "ubatch_size"),
    ),
    Option(
        ("-fa", "--flash-attn"),
        "Flash attention.",
        Words(tuple(map(str, FlashAttention))),
        default=default_of(ContextOptions, "flash_attn"),
    ),
    SWA_FULL,
)
COMPUTE = (*THREAD_COUNTS, NUMA)
"""Options of compute threads."""
CONTEXT = (*SIZES, *COMPUTE)
"""Options that both contexts share."""
