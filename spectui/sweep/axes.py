"""The axes of a grid: lists of values, under the names of llama-server's options."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from spectui.documents import Json, encoded
from spectui.options import context
from spectui.options.drafters import (
    DRAFTERS,
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    numbers_of,
    owners,
)
from spectui.options.option import INT_MAX
from spectui.options.setup import CACHE_TYPES, MOST_SLOTS

OFF_KIND = "none"
"""The target alone, by the name in ``--spec-type``."""
MODEL_KINDS = (MODEL_KIND, *HIDDEN_STATE_KINDS)
"""Kinds that draft with a file of their own."""
DRAFTING_KINDS = (*MODEL_KINDS, MTP_KIND, *NGRAM_KINDS)

_NonEmpty = msgspec.Meta(min_length=1)
"""An empty list in a file has no clear intention."""
_Count = Annotated[int, msgspec.Meta(ge=1, le=INT_MAX)]
_Counts = Annotated[tuple[_Count, ...], _NonEmpty]
_Thread = Annotated[int, msgspec.Meta(ge=0, le=context.MAX_THREADS)]
_Threads = Annotated[tuple[_Thread, ...], _NonEmpty]
_Slots = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1, le=MOST_SLOTS)], ...], _NonEmpty]
_Temps = Annotated[tuple[Annotated[float, msgspec.Meta(ge=0, le=1000)], ...], _NonEmpty]
_Texts = Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], _NonEmpty]
_Times = Annotated[float, msgspec.Meta(gt=0, le=1000)]


class _Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The axes that do not depend on the drafters."""

    name: str = ""
    """Name of the cells; ``{draft-max}`` stands for a cell's value."""
    spec_type: _Texts = ()
    """Drafters of each alternative: ``ngram-mod,draft-simple`` are two that are asked in turn."""
    draft: _Counts = ()
    """Numbers of the given drafts, from 1; empty for all."""
    threads: _Threads = ()
    cache_type_k: _Texts = ()
    cache_type_v: _Texts = ()
    parallel: _Slots = ()
    """Slots of a llama-server, as many streams at once."""
    prompt_length: _Counts = ()
    temp: _Temps = ()
    n_predict_factor: _Times = 1.0
    """Factor of the tokens that the command generates per prompt."""
    rerun: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Different numbers measure an otherwise equal cell repeatedly, to show how far results
    vary."""

    def __post_init__(self) -> None:
        """Refuse unknown drafters, and options of drafters that are not used."""
        for alternative in self.alternatives:
            _check_kinds(alternative)
        if not self.name.isprintable():
            raise ValueError(f"name {self.name!r} has characters that cannot be printed")
        for value in (*self.cache_type_k, *self.cache_type_v):
            if value not in CACHE_TYPES:
                raise ValueError(
                    f"{value!r} is no type of a cache; there are {', '.join(CACHE_TYPES)}"
                )
        for name, kinds in axis_owners().items():
            if getattr(self, name) and not kinds & self.kinds:
                raise ValueError(
                    f"{name.replace('_', '-')} is an option of {', '.join(sorted(kinds))}, and who "
                    f"drafts here is {', '.join(sorted(self.kinds))}"
                )

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """Drafters of each alternative, in the order in which they are asked."""
        return tuple(
            tuple(dict.fromkeys(part.strip() for part in text.split(",")))
            for text in self.spec_type or (MODEL_KIND,)
        )

    @property
    def kinds(self) -> frozenset[str]:
        """Drafters of all alternatives."""
        return frozenset(kind for alternative in self.alternatives for kind in alternative)

    def document(self) -> Json:
        """The axes that are not empty, in documents."""
        return {name: value for name, value in encoded(self).items() if value not in ((), "")}

    def with_typed(self, typed: Mapping[str, tuple[object, ...]]) -> "Axes":
        """The axes with those of the command line in place of their own.

        Those of drafters that do not draft then are left out, its own as well.

        Raises:
            ValueError: the drafters are not valid.
        """
        replaced = {**msgspec.structs.asdict(self), **{k: v for k, v in typed.items() if v}}
        own = Axes(spec_type=replaced["spec_type"])
        idle = [name for name, kinds in axis_owners().items() if not kinds & own.kinds]
        return Axes(**{**replaced, **dict.fromkeys(idle, ())})


_NUMBERS = tuple(
    {number.parameter: number for one in DRAFTERS for number in numbers_of(one)}.values()
)

if TYPE_CHECKING:

    class Axes(_Axes, frozen=True, kw_only=True):
        """Every combination of these is a cell; ``_Axes``, and a list per drafter's number."""

        def __init__(self, **axes: object) -> None:
            """Take a list per ``Number.parameter``, beside the fields of ``_Axes``."""

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - as many types as axes

else:
    Axes = msgspec.defstruct(
        "Axes",
        [(one.parameter, Annotated[tuple[one.annotation, ...], _NonEmpty], ()) for one in _NUMBERS],
        bases=(_Axes,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        rename="kebab",
        namespace={"__doc__": "Every combination of these is a cell."},
    )


def axis_owners() -> dict[str, frozenset[str]]:
    """Axes that only some drafters have, by the field's name, with the kinds of these drafters."""
    return {**owners(), "draft": frozenset(MODEL_KINDS)}


def _check_kinds(alternative: tuple[str, ...]) -> None:
    for kind in alternative:
        if kind not in (OFF_KIND, *DRAFTING_KINDS):
            known = ", ".join((OFF_KIND, *DRAFTING_KINDS))
            raise ValueError(f"{kind!r} is no drafter; there are {known}")
    named = ",".join(alternative)
    if OFF_KIND in alternative and len(alternative) > 1:
        raise ValueError(f"{named}: {OFF_KIND} is nobody, and drafts with nobody else")
    if len({*MODEL_KINDS, MTP_KIND} & set(alternative)) > 1:
        raise ValueError(f"{named}: llama-server has one draft context; name one of them")
