"""Drafters: the models and n-grams that draft, their numbers, and rules for these.

A drafter is one class of a sum type. Its fields are its numbers. The annotation of a field holds
the number's range, default, help, and names in llama.cpp and ik_llama.cpp; every option, form,
axis, dialect and check is made from it. A new drafter is a new class here, in ``DRAFTERS``, and an
implementation in ``spectui.speculative``.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import Meta

from spectui.options.option import INT_MAX, Number, described, read_number

NGRAM_LARGEST = 1024
"""Limit of llama-server for any number of an n-gram drafter."""


class DrafterOptions(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base class of all drafters' options. The tag is the kind, as ``--spec-type`` has it."""

    needs_draft: ClassVar[bool] = False
    """Whether it drafts with a model file of its own."""
    takes_draft: ClassVar[bool] = False
    """Whether it can draft with a model file of its own."""
    ik_kind: ClassVar[str | None] = None
    """Name in ik_llama.cpp of a kind that has another name there."""
    bounds: ClassVar[tuple[str, ...]] = ()
    """Fields of the least and the greatest length of a draft, the first at most the second."""

    @property
    def kind(self) -> str:
        """The kind, as ``--spec-type`` has it."""
        return kind_of(type(self))

    @property
    def label(self) -> str:
        """The kind, as tables and documents have it."""
        return self.kind

    @property
    def longest(self) -> int:
        """Most tokens per draft."""
        for number in numbers_of(type(self)):
            if number.bounds_drafts:
                return int(getattr(self, number.name))
        raise NotImplementedError(self.kind)

    @property
    def numbers(self) -> dict[str, Any]:
        """The values by field."""
        return {number.name: getattr(self, number.name) for number in numbers_of(type(self))}

    @property
    def summary(self) -> str:
        """The numbers in a line, for tables and sentences."""
        numbers = numbers_of(type(self))
        return ", ".join(f"{one.short} {one.text(getattr(self, one.name))}" for one in numbers)

    def check(self, spelled: Callable[[Number], str] = lambda number: number.name) -> str | None:
        """Return why it would never draft; None if it can.

        Args:
            spelled: returns a number's name for the reader.
        """
        if not self.bounds:
            return None
        shortest, longest = (number_of(type(self), name) for name in self.bounds)
        least, most = getattr(self, shortest.name), getattr(self, longest.name)
        if least <= most:
            return None
        return (
            f"{spelled(shortest)} {least} is above {spelled(longest)} {most}, so every draft would "
            "be dropped"
        )

    def within_bounds(self) -> Self:
        """These options with the least length lowered to the greatest, so that it can draft."""
        if not self.bounds:
            return self
        shortest, longest = self.bounds
        least = min(getattr(self, shortest), getattr(self, longest))
        return msgspec.structs.replace(self, **{shortest: least})


class ModelDrafter(DrafterOptions, frozen=True, kw_only=True):
    """A model or layers in llama-server's one draft context; the defaults are llama-server's.

    ``draft_p_min`` is compared with the top token's probability (softmax of the top 10 logits).
    """

    needs_draft = takes_draft = True
    bounds = ("draft_min", "draft_max")

    draft_max: Annotated[
        int,
        described(
            1,
            INT_MAX,
            "Most tokens per draft.",
            short="max",
            ik=("n_max",),
            flags=("--draft-max", "--draft", "--draft-n", "--spec-draft-n-max"),
            old_default=16,
            bounds_drafts=True,
            searched=(1, None),
        ),
    ] = 3
    draft_min: Annotated[
        int,
        described(
            0,
            INT_MAX,
            "Drop drafts shorter than this.",
            short="min",
            ik=("n_min",),
            flags=("--draft-min", "--draft-n-min", "--spec-draft-n-min"),
            searched=(0, 4),
        ),
    ] = 0
    draft_p_min: Annotated[
        float,
        described(
            0,
            1,
            "Stop drafting below this probability.",
            short="p_min",
            ik=("p_min",),
            flags=("--draft-p-min", "--spec-draft-p-min"),
            old_default=0.75,
            searched=(0.0, 0.95),
            step=0.05,
        ),
    ] = 0.0


class DraftSimple(ModelDrafter, frozen=True, kw_only=True, tag="draft-simple"):
    """A draft model."""

    ik_kind = "draft"

    @property
    def label(self) -> str:
        """The kind, as tables and documents have it."""
        return "model"


class DraftMtp(ModelDrafter, frozen=True, kw_only=True, tag="draft-mtp"):
    """Layers for multi-token prediction: the target's own, or those of a file beside it."""

    ik_kind = "mtp"
    needs_draft = False


ONLY_BY_SERVER = "llama-server can run it, and spectui's own engine cannot"


class HiddenStateDrafter(ModelDrafter, frozen=True, kw_only=True):
    """A draft that reads the target's hidden states, which llama-server alone runs."""


class DraftEagle3(HiddenStateDrafter, frozen=True, kw_only=True, tag="draft-eagle3"):
    """An EAGLE-3 draft."""


class DraftDflash(HiddenStateDrafter, frozen=True, kw_only=True, tag="draft-dflash"):
    """A DFlash draft."""

    ik_kind = "dflash"


class DraftDspark(HiddenStateDrafter, frozen=True, kw_only=True, tag="draft-dspark"):
    """A DSpark draft."""

    ik_kind = "dspark"


FEWEST_SEARCHED = 2
"""Least length of n-grams in a search: one token says little about the next."""


def _size_n(*replayed: int, most: int = 12) -> Meta:
    return described(
        1,
        NGRAM_LARGEST,
        "Tokens that {kind} looks up.",
        short="n",
        ik=("ngram_size_n",),
        shared=("spec-ngram-size-n",),
        searched=(FEWEST_SEARCHED, most),
        replayed=replayed,
    )


def _longest(short: str, **names: tuple[str, ...]) -> Meta:
    return described(
        1,
        NGRAM_LARGEST,
        "Most tokens per draft of {kind}.",
        short=short,
        bounds_drafts=True,
        searched=(FEWEST_SEARCHED, None),
        **names,
    )


# ik_llama.cpp cuts drafts off at n_max, too.
_SIZE_M = _longest("m", ik=("n_max", "ngram_size_m"), shared=("spec-ngram-size-m", "draft-max"))


def _min_hits(
    help_text: str,
    *,
    is_read: bool = True,
    searched: tuple[int, int] | None = None,
    replayed: tuple[int, ...] = (),
) -> Meta:
    return described(
        1,
        NGRAM_LARGEST,
        help_text,
        short="hits",
        ik=("ngram_min_hits",),
        shared=("spec-ngram-min-hits",),
        is_read=is_read,
        searched=searched,
        replayed=replayed,
    )


class NgramDrafter(DrafterOptions, frozen=True, kw_only=True):
    """A drafter that looks the last tokens up in the text; the defaults are llama-server's."""

    hashes_tokens: ClassVar[bool] = False
    """Whether it keeps tokens in slots by their numbers, so that drafts depend on the vocabulary's
    own numbers."""
    remembers: ClassVar[bool] = True
    """Whether a server's slot remembers earlier requests for it."""


class NgramSimple(NgramDrafter, frozen=True, kw_only=True, tag="ngram-simple"):
    """Copies what followed the last tokens where they stood before.

    Drafts shorter than ``size_n`` are dropped as well (``common_ngram_simple_draft``).
    """

    remembers = False
    bounds = ("size_n", "size_m")

    size_n: Annotated[int, _size_n(2, 3, 4, 6, 8, 12)] = 12
    size_m: Annotated[int, _SIZE_M] = 48


class NgramMapK(NgramDrafter, frozen=True, kw_only=True, tag="ngram-map-k"):
    """N-gram drafter with a table of places, and drafts as long as the last one was accepted."""

    hashes_tokens = True

    size_n: Annotated[int, _size_n(2, 3, 4, 6, 8)] = 12
    size_m: Annotated[int, _SIZE_M] = 48
    min_hits: Annotated[
        # common_ngram_map_draft drafts from a key alone before it counts the hits.
        int, _min_hits("No effect: llama.cpp does not look at it for {kind}.", is_read=False)
    ] = 1


class NgramMapK4V(NgramDrafter, frozen=True, kw_only=True, tag="ngram-map-k4v"):
    """``NgramMapK`` that drafts where one continuation is frequent enough among up to four."""

    hashes_tokens = True

    size_n: Annotated[int, _size_n(2, 3, 4, 6)] = 12
    size_m: Annotated[int, _SIZE_M] = 48
    min_hits: Annotated[
        int,
        _min_hits(
            "Lookups that must find an n-gram before {kind} drafts from it.",
            searched=(1, 3),
            replayed=(1, 2),
        ),
    ] = 1


class NgramMod(NgramDrafter, frozen=True, kw_only=True, tag="ngram-mod"):
    """Follows a table from n-grams to single tokens."""

    hashes_tokens = True

    # It cannot tell n-grams in one slot apart: llama-server warns below 16.
    n_match: Annotated[int, _size_n(4, 8, 16, 24, most=24)] = 24
    n_min: Annotated[
        int,
        described(
            0,
            NGRAM_LARGEST,
            "Drafts of {kind} that end before this length are dropped.",
            short="min",
            ik=("n_min",),
            shared=("draft-min",),
            searched=(0, 4),
            replayed=(0, 2),
        ),
    ] = 48
    n_max: Annotated[int, _longest("max", ik=("n_max",), shared=("draft-max",))] = 64


class NgramCache(NgramDrafter, frozen=True, kw_only=True, tag="ngram-cache"):
    """Follows counts of what came after the last one to four tokens; llama-server has no options.

    Its longest draft is fixed (``common_ngram_cache_draft``).
    """

    LONGEST: ClassVar[int] = 8

    @property
    def longest(self) -> int:
        """Most tokens per draft."""
        return self.LONGEST


Ngram = NgramSimple | NgramMapK | NgramMapK4V | NgramMod | NgramCache
Model = DraftSimple | DraftMtp | DraftEagle3 | DraftDflash | DraftDspark
DrafterSetting = Model | Ngram

NGRAMS: tuple[type[Ngram], ...] = (NgramSimple, NgramMapK, NgramMapK4V, NgramMod, NgramCache)
"""In llama-server's order of precedence."""
MODELS: tuple[type[Model], ...] = (DraftSimple, DraftMtp, DraftEagle3, DraftDflash, DraftDspark)
"""Models that can draft; one of them may be asked, behind the n-gram drafters."""
DRAFTERS: tuple[type[DrafterSetting], ...] = (*NGRAMS, *MODELS)


_T = TypeVar("_T", bound=DrafterOptions)


@cache
def kind_of(drafter: type[DrafterOptions]) -> str:
    """The kind of a drafter's class."""
    return str(drafter.__struct_config__.tag)


@cache
def numbers_of(drafter: type[DrafterOptions]) -> tuple[Number, ...]:
    """The numbers of a drafter, in llama.cpp's order."""
    kind = kind_of(drafter)
    return tuple(read_number(field, kind) for field in msgspec.structs.fields(drafter))


def number_of(drafter: type[DrafterOptions], name: str) -> Number:
    """The number of a field."""
    return next(number for number in numbers_of(drafter) if number.name == name)


def drafter_class(kind: str) -> type[DrafterSetting]:
    """The class of a kind.

    Raises:
        KeyError: there is no such kind.
    """
    return _BY_KIND[kind]


def old_defaults(drafter: type[_T]) -> _T:
    """Options of a drafter as llama-server had them until spring 2026."""
    return drafter(**{one.name: one.earlier_default for one in numbers_of(drafter)})


def with_kind(drafter: ModelDrafter, kind: str) -> Model:
    """The numbers of ``drafter`` for another kind that drafts in the draft context.

    Raises:
        KeyError: there is no such kind.
    """
    return {kind_of(one): one for one in MODELS}[kind](**drafter.numbers)


def ngram_of(option: str) -> str | None:
    """The n-gram drafter whose own option a name is, known or not; None for other names."""
    kinds = (kind for kind in NGRAM_KINDS if option.startswith(f"spec-{kind}-"))
    return max(kinds, key=len, default=None)


_BY_KIND = {kind_of(one): one for one in DRAFTERS}


@cache
def owners() -> dict[str, frozenset[str]]:
    """Kinds of the drafters that take a number, by ``Number.parameter``."""
    found: dict[str, frozenset[str]] = {}
    for drafter in DRAFTERS:
        for number in numbers_of(drafter):
            kinds = found.get(number.parameter, frozenset())
            found[number.parameter] = kinds | {kind_of(drafter)}
    return found


MODEL_KIND = kind_of(DraftSimple)
MTP_KIND = kind_of(DraftMtp)
HIDDEN_STATE_KINDS = tuple(kind_of(one) for one in MODELS if issubclass(one, HiddenStateDrafter))
FILE_KINDS = (MODEL_KIND, *HIDDEN_STATE_KINDS)
"""Kinds that draft with a file of their own."""
NGRAM_KINDS = tuple(map(kind_of, NGRAMS))
