"""Catalogue of the options that spectui's command line has or an export must know. Facts only.

The names are those of llama.cpp's ``common/arg.cpp``, old and current ones. Defaults are those of
the configuration that an option fills, so that each stands in one place.
"""

from spectui.options.context import CONTEXT
from spectui.options.drafters import NGRAMS, DraftSimple, numbers_of
from spectui.options.option import Decimal, Form, Option, Values, Whole, default_of
from spectui.options.placement import MODEL, MODEL_DRAFT, PLACEMENT
from spectui.options.setup import SamplingConfig


def _sampler(flags: str, values: Values, field: str, help_text: str) -> Option:
    return Option(
        tuple(flags.split()),
        help_text,
        values,
        default=default_of(SamplingConfig, field),
        is_written=False,
    )


TEMPERATURE = _sampler("--temp --temperature", Decimal(0), "temp", "Temperature; 0 is greedy.")
SAMPLING = (
    _sampler("--top-k", Whole(0), "top_k", "Draw from the N likeliest; 0 for all."),
    _sampler(
        "--top-p",
        Decimal(0, 1),
        "top_p",
        "Draw from the likeliest that have this probability together; 1 for all.",
    ),
    _sampler(
        "--min-p",
        Decimal(0, 1),
        "min_p",
        "Draw from those with this share of the likeliest one's probability; 0 for all.",
    ),
    _sampler("--seed -s", Whole(0, 2**32 - 1), "seed", "Of sampling, and of the search."),
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
    Option(("--spec-type", "--spec-stage"), "What drafts."),
    Option(("--spec-default",), values=Form.SWITCH, is_ours=False),
    *(Option((f"--{name}",), is_ours=False) for name in SHARED_BY_NGRAMS),
    *NUMBERS,
    *(TEMPERATURE, *SAMPLING),
)
"""Everything that the export writes or that spectui's command line has."""

BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
