"""Who drafts: the forms that ``--spec-type`` has in llama.cpp and in ik_llama.cpp."""

from spectui.config import MODEL_KIND, MTP_KIND, ONLY_BY_SERVER, SERVER_KINDS, NgramKind
from spectui.errors import BadInputError

_NONE = "none"
_NAMES = {"draft": MODEL_KIND, "mtp": MTP_KIND}
"""What builds before spring 2026, and ik_llama.cpp, call them."""
_MODEL_KEYS = {"n_max": "draft-max", "n_min": "draft-min", "p_min": "draft-p-min"}
_MOD_KEYS = {"n_max": "n-max", "n_min": "n-min", "ngram_size_n": "n-match"}
_MAP_KEYS = {
    "n_max": "size-m",
    "ngram_size_n": "size-n",
    "ngram_size_m": "size-m",
    "ngram_min_hits": "min-hits",
}
"""Of the first and the third, which became one, the third counts."""
_KNOWN = frozenset({MODEL_KIND, MTP_KIND, _NONE, *NgramKind})

SPEC_DEFAULT: dict[str, tuple[str, ...]] = {
    "spec-type": (str(NgramKind.MOD),),
    "spec-ngram-mod-n-match": ("24",),
    "spec-ngram-mod-n-min": ("48",),
    "spec-ngram-mod-n-max": ("64",),
}
"""What ``--spec-default`` stands for."""


def drafting(value: str, *, through_server: bool = False) -> dict[str, tuple[str, ...]]:
    """Options that one ``--spec-type`` stands for, by spectui's names.

    In ik_llama.cpp the kind's numbers stand behind it: ``draft:n_max=8,p_min=0.5``.

    Args:
        value: as it stands.
        through_server: whether drafters that only llama-server has can be run.

    Raises:
        BadInputError: spectui cannot draft like that.
    """
    kind, colon, settings = value.partition(":")
    named = [_NAMES.get(one, one) for one in (kind if colon else value).split(",")]
    for one in SERVER_KINDS:
        if one in named and not through_server:
            raise BadInputError(
                f"--spec-type {value} asks for {one}: {ONLY_BY_SERVER}; take it out"
            )
    if not _KNOWN.union(SERVER_KINDS).issuperset(named):
        raise _unknown(value)
    found = _settings(value, named, settings) if colon else {}
    # llama-server takes a list with none in it for none.
    return found if _NONE in named else {"spec-type": (",".join(named),), **found}


def joined(earlier: tuple[str, ...], later: tuple[str, ...]) -> tuple[str, ...]:
    """Two values of ``--spec-type`` as one: the option adds to what was given before it."""
    return (",".join(dict.fromkeys(",".join((*earlier, *later)).split(","))),)


def _settings(value: str, named: list[str], settings: str) -> dict[str, tuple[str, ...]]:
    """Numbers behind one kind.

    Raises:
        BadInputError: one is unknown, or there are several kinds.
    """
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    [kind, *others] = named
    match kind:
        case NgramKind.MOD:
            keys = {key: f"spec-{kind}-{name}" for key, name in _MOD_KEYS.items()}
        case NgramKind.SIMPLE | NgramKind.MAP_K | NgramKind.MAP_K4V:
            # Of the first there is no min-hits here: it would not be read.
            read = [key for key in _MAP_KEYS if kind != NgramKind.SIMPLE or key != "ngram_min_hits"]
            keys = {key: f"spec-{kind}-{_MAP_KEYS[key]}" for key in read}
        case "draft-simple" | "draft-mtp":
            keys = _MODEL_KEYS
        case _:
            keys = {}
    if others or not all(key in keys for key, _, _ in pairs):
        raise _unknown(value)
    given = {key: text for key, _, text in pairs}
    return {name: (given[key],) for key, name in keys.items() if key in given}


def _unknown(value: str) -> BadInputError:
    return BadInputError(
        f"--spec-type {value}: spectui drafts with a model and as "
        f"{', '.join((MTP_KIND, *NgramKind))}; take the rest out"
    )
