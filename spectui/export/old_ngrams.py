"""Options that all n-gram drafters shared before each had its own."""

from collections.abc import Callable, Mapping, Sequence

from spectui.options.drafters import NGRAMS, NgramMod, NgramSimple, kind_of, numbers_of

_OWN: dict[str, dict[str, str]] = {
    kind_of(drafter): {name: one.option for one in numbers_of(drafter) for name in one.shared}
    for drafter in NGRAMS
    if numbers_of(drafter)
}
"""Replacements of the shared options, by kind."""

SHARED = ("spec-ngram-size-n", "spec-ngram-size-m", "spec-ngram-min-hits")
"""Former options of n-gram drafters alone; draft lengths applied to models, too."""
LENGTHS = ("draft-max", "draft-min")
_SHORTEST = ("draft-min", "spec-ngram-mod-n-min")


def own_option(kind: str, name: str) -> str | None:
    """The option of ``kind`` that replaced the option ``name``; None if none did."""
    return _OWN.get(kind, {}).get(name)


def own_options(
    kind: str, name: str, values: tuple[str, ...], given: Callable[[str], str | None]
) -> dict[str, tuple[str, ...]]:
    """Options of ``kind`` with the effect of the former option ``name``; empty if none.

    Args:
        kind: the drafter's kind.
        name: name of a shared option.
        values: values of that option.
        given: the value of any other option of the command; None where it is not given.
    """
    own = own_option(kind, name)
    if own is None:
        return {}
    if (kind, name) == (kind_of(NgramSimple), "draft-max"):
        return {own: (_as_long_as_looked_up(values[-1], given),)}
    if (kind, name) == (kind_of(NgramMod), "draft-max") and not any(map(given, _SHORTEST)):
        # Its shortest draft was 0 unless told, and is 48 today.
        return {own: values, _SHORTEST[1]: ("0",)}
    return {own: values}


def told_of_length(longest: str, size_m: str) -> str | None:
    """Reason why ``ngram-simple`` drafts more than requested; None if it does not."""
    if longest == size_m:
        return None
    return f"ngram-simple drops drafts shorter than the {size_m} tokens that it looks up"


def _as_long_as_looked_up(longest: str, given: Callable[[str], str | None]) -> str:
    """A longest draft of at least the length that ``ngram-simple`` looks up.

    It cut drafts off there, and today drops all that are shorter (``common_ngram_simple_draft``).
    """
    looked_up = given("spec-ngram-simple-size-n") or given("spec-ngram-size-n")
    size_n = NgramSimple().size_n if looked_up is None else _whole(looked_up)
    n_max = _whole(longest)
    return str(size_n) if n_max is not None and size_n is not None and n_max < size_n else longest


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def told_apart(
    options: Mapping[str, tuple[str, ...]], kinds: Sequence[str], *, has_old_lengths: bool
) -> dict[str, tuple[str, ...]]:
    """Replace the shared options by each drafter's own.

    Args:
        options: values by name.
        kinds: the drafters' kinds.
        has_old_lengths: whether lengths of drafts stand under names that served all drafters.
    """
    ngrams = [kind for kind in kinds if kind in _OWN]
    lengths = LENGTHS if has_old_lengths and kinds and ngrams == list(kinds) else ()
    # Of two that became one, the drafter's own size counts.
    shared = (*SHARED, *lengths)
    found = {name: values for name, values in options.items() if name not in shared}
    for name in shared:
        for kind in ngrams:
            if name in options:
                own = own_options(kind, name, options[name], lambda n: options.get(n, (None,))[-1])
                found = {**own, **found}
    return found
