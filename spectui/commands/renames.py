"""Renames of llama.cpp and ik_llama.cpp: kinds of drafters, options, and modes of loading.

``tables/`` has the builds that take each name, and those that took it; ``options/drafters.py`` has
all names of a drafter's numbers. ik_llama.cpp drafts in stages: a kind behind each ``--spec-type``,
with its numbers, such as ``ngram-mod:n_max=32,n_min=2``. The second of two stages drafts where the
first finds nothing. Values of the numbers are checked by its own parser alone.
"""

import re
from collections.abc import Mapping

import msgspec

from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.drafters import (
    MODELS,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    kind_of,
    numbers_of,
)

NONE = "none"
"""Kind of ``--spec-type`` that drafts nothing."""
KINDS = (NONE, *map(kind_of, (*MODELS, *NGRAMS)))
"""All kinds that llama-server knows today."""
IK_KINDS = {kind_of(one): one.ik_kind for one in MODELS if one.ik_kind is not None}
"""ik_llama.cpp's names of kinds that have other names there; once llama.cpp's own."""
FORMER_KINDS = {name: kind for kind, name in IK_KINDS.items()}
MODEL_KINDS = frozenset(map(kind_of, MODELS))
"""Kinds that draft in llama-server's one draft context."""
NEED_DRAFT = frozenset(
    name for one in MODELS if one.needs_draft for name in (kind_of(one), one.ik_kind) if name
)
"""Kinds that need a draft of their own file, under all names."""
BY_LAYERS = frozenset({MTP_KIND, IK_KINDS[MTP_KIND]})
"""Kinds that draft with the target's own layers, or with a file of such."""
BY_SWITCH = "multi-token-prediction"
"""Name of ik_llama.cpp's former switch for them."""
KINDS_BY_NAME = {
    "eagle": "draft-eagle3",
    "mtp": MTP_KIND,
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
}
"""Kinds of drafts, by parts of their files' names."""
BY_ITSELF = (*NGRAM_KINDS, "suffix")
"""Kinds that need no model to draft."""
KNOWN_TO_IK = (NONE, *IK_KINDS.values(), "eagle3", *BY_ITSELF)

SERVED = ("model", "hf-repo", "model-url", "docker-repo", "models-preset", "models-dir")
"""Options that name the served model, or where models are, the most specific first."""
DRAFTS = ("model-draft", "spec-draft-hf")
"""Options that name the draft."""

LOADING = ("no-mmap", "mmap", "mlock", "direct-io", "no-direct-io")
"""Switches that ``--load-mode`` replaced."""
TODAY: Mapping[str, tuple[str, ...]] = {
    "draft-max": ("--spec-draft-n-max",),
    "draft-min": ("--spec-draft-n-min",),
    "no-flash-attn": ("-fa", "off"),
    BY_SWITCH: ("--spec-type", MTP_KIND),
}
"""Today's words for former options, in front of the option's value. For lengths of drafts they are
those of a model: n-gram drafters have their own (``Number.shared``)."""
RULES_TODAY: Mapping[str, str] = {
    **dict.fromkeys(LOADING, "builds before b10114 of 2026-07-24 have no --load-mode"),
    "ctx-size-draft": "the draft has the context of -c",
    "fused-moe": "experts are fused unless -no-fmoe is given",
    "offload-only-active-experts": "it is on unless -no-ooae is given",
}
"""Options of today in place of former ones."""
LENGTHS = ("draft-max", "draft-min")
"""Options that once served all drafters."""
MODEL_FLAGS = {one.option: one.flags[-1] for one in numbers_of(DraftSimple)}
"""Today's flags of a draft model's numbers."""
OWN_OPTIONS: Mapping[str, Mapping[str, str]] = {
    kind_of(drafter): {name: one.option for one in numbers_of(drafter) for name in one.shared}
    for drafter in NGRAMS
}
"""Options of each n-gram drafter in place of those that all of them shared."""
IK_LENGTHS = {one.option: one.ik[-1] for one in numbers_of(DraftSimple)}
"""Keys behind any kind in ik_llama.cpp's ``--spec-type``, by the options of llama.cpp."""
IK_NUMBERS: Mapping[str, Mapping[str, str]] = {
    **{
        kind_of(drafter): {
            **{name: name.removeprefix("spec-").replace("-", "_") for name in SHARED_BY_NGRAMS},
            **{one.option: one.ik[-1] for one in numbers_of(drafter)},
        }
        for drafter in NGRAMS
    },
}
"""Keys behind one kind alone, by options of llama.cpp, as in ``Number.ik``."""
_PAIR = r"""(?:\\.|'[^']*'|"[^"]*"|[^,])+"""
"""A part between commas outside quotes."""


class Stage(msgspec.Struct, kw_only=True):
    """A drafter of ik_llama.cpp with its numbers."""

    kind: str
    numbers: dict[str, str] = msgspec.field(default_factory=dict)
    """Their texts, unchanged."""

    @property
    def words(self) -> tuple[str, ...]:
        """The option that stands for it."""
        settings = ",".join(f"{key}={text}" for key, text in self.numbers.items())
        return ("--spec-type", f"{self.kind}:{settings}" if settings else self.kind)


def stages_of(value: str) -> list[Stage]:
    """The stages that a value of ``--spec-type`` means, whether or not ik_llama.cpp takes it so.

    It is one kind with its numbers, or, as in llama.cpp, kinds between commas.
    """
    kinds, colon, settings = value.partition(":")
    pairs = [pair.partition("=") for pair in re.findall(_PAIR, settings)]
    kinds = kinds.replace("_", "-")
    return [
        Stage(kind=IK_KINDS.get(name, name), numbers={_key(key): text for key, _, text in pairs})
        for name in ([kinds] if colon else kinds.split(","))
    ]


def is_stage(value: str) -> bool:
    """Whether a value of ``--spec-type`` is a kind of ik_llama.cpp, perhaps with its numbers."""
    name, _, settings = value.partition(":")
    pairs = re.findall(_PAIR, settings)
    return name.replace("_", "-") in KNOWN_TO_IK and all("=" in pair for pair in pairs)


def _key(key: str) -> str:
    return key.lstrip("-").replace("-", "_")
