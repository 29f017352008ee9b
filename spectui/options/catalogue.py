"""Catalogue of the options that spectui's command line has or an export must know. Facts only.

The names are those of llama.cpp's ``common/arg.cpp``, old and current ones. Defaults are those of
the configuration that an option fills, so that each stands in one place.
"""

from spectui.options.drafters import NGRAMS, DraftSimple, numbers_of
from spectui.options.option import Decimal, Form, Option, Values, Whole
from spectui.options.placement import MODEL, MODEL_DRAFT, PLACEMENT
from spectui.options.setup import ContextOptions, FlashAttention, Numa, SamplingConfig

MAX_THREADS = 512
"""``GGML_MAX_N_THREADS``: beyond it ggml crashes."""

THREADS = Option(
    ("-t", "--threads"),
    "Compute threads (default: one per physical core, efficiency cores left out).",
    Whole(0, MAX_THREADS),
).filling(ContextOptions)
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
    tuple(map(str, Numa)),
)
SWA_FULL = Option(
    ("--swa-full",), "Let layers with a sliding window remember the whole context.", Form.SWITCH
)
_MOST_CTX = 2**24
"""More than any model is made for; of a billion tokens llama.cpp takes gigabytes for a plan."""
_SIZES = (
    Option(("-c", "--ctx-size"), "Tokens that the context holds.", Whole(1, _MOST_CTX)),
    Option(("-b", "--batch-size"), "Most tokens per decode.", Whole(1)),
    Option(("-ub", "--ubatch-size"), "Most tokens computed at once.", Whole(1)),
    Option(("-fa", "--flash-attn"), "Flash attention.", tuple(map(str, FlashAttention))),
)
SIZES = (*(one.filling(ContextOptions) for one in _SIZES), SWA_FULL)
COMPUTE = (*THREAD_COUNTS, NUMA)
"""Options of compute threads."""
CONTEXT = (*SIZES, *COMPUTE)
"""Options that both contexts share."""


def _sampler(flags: str, values: Values, help_text: str) -> Option:
    one = Option(tuple(flags.split()), help_text, values, is_written=False)
    return one.filling(SamplingConfig)


TEMPERATURE = _sampler("--temp --temperature", Decimal(0), "Temperature; 0 is greedy.")
SAMPLING = (
    _sampler("--top-k", Whole(0), "Draw from the N likeliest; 0 for all."),
    _sampler(
        "--top-p",
        Decimal(0, 1),
        "Draw from the likeliest that have this probability together; 1 for all.",
    ),
    _sampler(
        "--min-p",
        Decimal(0, 1),
        "Draw from those with this share of the likeliest one's probability; 0 for all.",
    ),
    _sampler("--seed -s", Whole(0, 2**32 - 1), "Seed of sampling, and of the search."),
    Option(("--ignore-eos",), "Go on after the end of the text.", Form.SWITCH, is_written=False),
)
"""The target's samplers, less the temperature."""

SHARED_BY_NGRAMS = tuple(
    dict.fromkeys(
        name
        for drafter in NGRAMS
        for number in numbers_of(drafter)
        for name in number.shared
        if name.startswith("spec-")
    )
)
"""Former options of n-gram drafters alone; draft lengths applied to models, too."""


NUMBERS = tuple(
    Option(one.flags, one.help, one.values, default=one.default)
    for drafter in (DraftSimple, *NGRAMS)
    for one in numbers_of(drafter)
)
"""Numbers of drafters; MTP layers share those of a draft model."""
RUN = (MODEL, MODEL_DRAFT, *PLACEMENT, *CONTEXT, TEMPERATURE, *SAMPLING)
"""Options of a run, without the drafting."""

OPTIONS: tuple[Option, ...] = (
    *(MODEL, MODEL_DRAFT, *PLACEMENT),
    Option(("--mmap",), values=Form.SWITCH, is_ours=False),
    Option(("-kvo", "--kv-offload"), values=Form.SWITCH, is_ours=False),
    Option(("--op-offload",), values=Form.SWITCH, is_ours=False),
    Option(("--repack",), values=Form.SWITCH, is_ours=False),
    Option(("-ndio", "--no-direct-io"), values=Form.SWITCH, is_ours=False),
    *CONTEXT,
    Option(("-no-fa", "--no-flash-attn"), values=Form.SWITCH, is_ours=False),
    Option(("--spec-type", "--spec-stage"), "Kinds of the drafters."),
    Option(("--spec-default",), values=Form.SWITCH, is_ours=False),
    *(Option((f"--{name}",), is_ours=False) for name in SHARED_BY_NGRAMS),
    *NUMBERS,
    *(TEMPERATURE, *SAMPLING),
)
"""All options that the export writes or that spectui's command line has."""

BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
