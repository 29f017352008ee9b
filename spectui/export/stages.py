"""Drafters in ``--spec-type``: the forms of llama.cpp and of ik_llama.cpp."""

from spectui.errors import BadInputError
from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    ONLY_BY_SERVER,
    DraftMtp,
    DraftSimple,
    NgramMod,
    kind_of,
    numbers_of,
)

_NONE = "none"
_NAMES = {"draft": MODEL_KIND, "mtp": MTP_KIND}
"""Names of kinds in builds before spring 2026 and in ik_llama.cpp."""
_OWN_ENGINE = (DraftSimple, DraftMtp, *NGRAMS)
_KNOWN = frozenset({_NONE, *map(kind_of, _OWN_ENGINE)})

SPEC_DEFAULT: dict[str, tuple[str, ...]] = {
    "spec-type": (kind_of(NgramMod),),
    **{one.option: (one.argument(one.default),) for one in numbers_of(NgramMod)},
}
"""Options that ``--spec-default`` stands for."""


def drafting(value: str, *, through_server: bool = False) -> dict[str, tuple[str, ...]]:
    """Options that one ``--spec-type`` stands for, by spectui's names.

    In ik_llama.cpp the kind's numbers stand behind it: ``draft:n_max=8,p_min=0.5``.

    Args:
        value: the option's value, unchanged.
        through_server: whether drafters that only llama-server has can be run.

    Raises:
        BadInputError: spectui cannot draft like that.
    """
    kind, colon, settings = value.partition(":")
    named = [_NAMES.get(one, one) for one in (kind if colon else value).split(",")]
    for one in HIDDEN_STATE_KINDS:
        if one in named and not through_server:
            raise BadInputError(
                f"--spec-type {value} asks for {one}: {ONLY_BY_SERVER}; take it out"
            )
    if not _KNOWN.union(HIDDEN_STATE_KINDS).issuperset(named):
        raise _unknown(value)
    found = _settings(value, named, settings) if colon else {}
    # llama-server takes a list with none in it for none.
    return found if _NONE in named else {"spec-type": (",".join(named),), **found}


def joined(earlier: tuple[str, ...], later: tuple[str, ...]) -> tuple[str, ...]:
    """Two values of ``--spec-type`` as one: the option adds to previous values."""
    return (",".join(dict.fromkeys(",".join((*earlier, *later)).split(","))),)


def _settings(value: str, named: list[str], settings: str) -> dict[str, tuple[str, ...]]:
    """Numbers behind one kind.

    Raises:
        BadInputError: one is unknown, or there are several kinds.
    """
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    [kind, *others] = named
    drafter = next((one for one in _OWN_ENGINE if kind_of(one) == kind), None)
    numbers = () if drafter is None else numbers_of(drafter)
    # Of two that became one the last counts.
    keys = {key: one.option for one in numbers for key in one.ik}
    if others or not all(key in keys for key, _, _ in pairs):
        raise _unknown(value)
    given = {key: text for key, _, text in pairs}
    return {name: (given[key],) for key, name in keys.items() if key in given}


def _unknown(value: str) -> BadInputError:
    return BadInputError(
        f"--spec-type {value}: spectui drafts with a model and as "
        f"{', '.join((MTP_KIND, *NGRAM_KINDS))}; take the rest out"
    )
