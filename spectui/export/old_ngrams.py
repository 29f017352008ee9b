"""Options that all n-gram drafters shared before each had its own."""

from collections.abc import Mapping, Sequence

from spectui.config import NgramKind

_MAP = {
    "spec-ngram-size-n": "size-n",
    "spec-ngram-size-m": "size-m",
    "spec-ngram-min-hits": "min-hits",
    "draft-max": "size-m",
}
_OWN: dict[str, dict[str, str]] = {
    NgramKind.SIMPLE: {name: own for name, own in _MAP.items() if own != "min-hits"},
    NgramKind.MAP_K: _MAP,
    NgramKind.MAP_K4V: _MAP,
    NgramKind.MOD: {
        "spec-ngram-size-n": "n-match",
        "draft-max": "n-max",
        "draft-min": "n-min",
    },
}
"""What took a shared option's place, by kind; nothing did for ``ngram-cache``."""

SHARED = ("spec-ngram-size-n", "spec-ngram-size-m", "spec-ngram-min-hits")
"""Options of n-gram drafters alone. Lengths of drafts were those of models, too."""
LENGTHS = ("draft-max", "draft-min")


def own_option(kind: str, name: str) -> str | None:
    """Name of the option of ``kind`` that took the place of ``name``; None where none did."""
    own = _OWN.get(kind, {}).get(name)
    return None if own is None else f"spec-{kind}-{own}"


def told_apart(
    options: Mapping[str, tuple[str, ...]], kinds: Sequence[str], *, has_old_lengths: bool
) -> dict[str, tuple[str, ...]]:
    """Options with every drafter's own in the place of the shared ones.

    Args:
        options: by name.
        kinds: who drafts.
        has_old_lengths: whether lengths of drafts stand under names that served all drafters.
    """
    ngrams = [kind for kind in kinds if kind in _OWN]
    lengths = LENGTHS if has_old_lengths and kinds and ngrams == list(kinds) else ()
    # Of two that became one, the drafter's own size counts.
    shared = (*SHARED, *lengths)
    found = {name: values for name, values in options.items() if name not in shared}
    for name in shared:
        for kind in ngrams:
            own = own_option(kind, name)
            if own is not None and name in options:
                found.setdefault(own, options[name])
    return found
