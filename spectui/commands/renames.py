"""Renames of llama.cpp and ik_llama.cpp: kinds of drafters, options, and modes of loading.

When a name went, and who takes it, stands in ``tables/``; a drafter's numbers under all of their
names stand in ``options/drafters.py``.
"""

from collections.abc import Iterable, Mapping

import msgspec

from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.drafters import (
    MODELS,
    MTP_KIND,
    NGRAMS,
    DraftSimple,
    kind_of,
    numbers_of,
)
from spectui.options.placement import LOAD_MODES

NONE = "none"
"""Kind of ``--spec-type`` that drafts nothing."""
KINDS = (NONE, *map(kind_of, (*MODELS, *NGRAMS)))
"""All kinds that llama-server knows today."""
IK_KINDS = {kind_of(one): one.ik_kind for one in MODELS if one.ik_kind is not None}
"""ik_llama.cpp's names of kinds that have other names there; once llama.cpp's own."""
FORMER_KINDS = {name: kind for kind, name in IK_KINDS.items()}
OF_MODELS = frozenset(map(kind_of, MODELS))
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

SERVED = ("model", "hf-repo", "model-url", "docker-repo", "models-preset", "models-dir")
"""Options that name the served model, or where models are, the most specific first."""
DRAFTS = ("model-draft", "spec-draft-hf")
"""Options that name the draft."""

VALUE = "VALUE"


class Rename(msgspec.Struct, frozen=True, kw_only=True):
    """A former option of llama-server."""

    words: tuple[str, ...] = ()
    """Today's words, with ``VALUE`` for its value; none where it has no effect any more."""
    now: str | None = None
    """Rule that holds in its place."""

    def today(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """Today's words with these values."""
        return tuple(v for word in self.words for v in (values if word == VALUE else (word,)))


_NO_LOAD_MODE = "builds before b10114 of 2026-07-24 have no --load-mode"
RENAMES: Mapping[str, Rename] = {
    "draft-max": Rename(words=("--spec-draft-n-max", VALUE)),
    "draft-min": Rename(words=("--spec-draft-n-min", VALUE)),
    "no-flash-attn": Rename(words=("-fa", "off")),
    BY_SWITCH: Rename(words=("--spec-type", MTP_KIND)),
    "mmap": Rename(words=("--load-mode", "mmap"), now=_NO_LOAD_MODE),
    **{
        switches[0]: Rename(words=("--load-mode", mode), now=_NO_LOAD_MODE)
        for mode, switches in LOAD_MODES.items()
        if len(switches) == 1
    },
    "ctx-size-draft": Rename(now="the draft has the context of -c"),
    "fused-moe": Rename(now="experts are fused unless -no-fmoe is given"),
    "offload-only-active-experts": Rename(now="it is on unless -no-ooae is given"),
}
"""Former options by their names. Of drafts' lengths these are a model's: n-gram drafters have their
own (``Number.shared``)."""
LENGTHS = ("draft-max", "draft-min")
"""Options that once served all drafters."""
MODEL_FLAGS = {one.option: one.flags[-1] for one in numbers_of(DraftSimple)}
"""Today's flags of a draft model's numbers."""
OWN_OPTIONS: Mapping[str, Mapping[str, str]] = {
    kind_of(drafter): {name: one.option for one in numbers_of(drafter) for name in one.shared}
    for drafter in NGRAMS
    if numbers_of(drafter)
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
    "suffix": {
        "suffix-pattern-len": "suffix_min_match_len",
        "suffix-max-depth": "suffix_max_depth",
        "suffix-corpus": "suffix_corpus",
    },
}
"""Keys behind one kind alone; what the keys stand for in llama.cpp, ``Number.ik`` has as well."""


def load_mode(switches: Iterable[str]) -> str:
    """The mode of loading that these switches stand for together."""
    given = set(switches)
    return next(mode for mode, names in LOAD_MODES.items() if given == set(names))
