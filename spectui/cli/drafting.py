"""How to draft: the options of commands that run one setting, under llama-server's own names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import click

from spectui.cli.options_placement import Decorator
from spectui.cli.values import INT_MAX, DrafterKind, Fraction, ListOf, WholeNumber
from spectui.config import (
    CACHE_LONGEST,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_LARGEST,
    SERVER_KINDS,
    NgramConfig,
    NgramKind,
    SpeculationConfig,
    ngram_flags,
    ngram_setting,
)
from spectui.errors import UsageError

# Click offers the names of an enumeration's members, not what they stand for.
_KIND_NAMES = [kind.value for kind in NgramKind]
_LONGEST = {
    NgramKind.SIMPLE: 48,
    NgramKind.MAP_K: 48,
    NgramKind.MAP_K4V: 48,
    NgramKind.MOD: 64,
    NgramKind.CACHE: CACHE_LONGEST,
}
"""Longest drafts by default, as llama-server has them."""
_SMALLEST = {"n_min": 0}
_HELP = {
    "size_n": "Tokens that {kind} looks up.",
    "size_m": "Most tokens per draft of {kind}.",
    "min_hits": "Lookups that must find an n-gram before {kind} drafts from it.",
    "n_match": "Tokens that {kind} looks up.",
    "n_min": "Drafts of {kind} that end before this length are dropped.",
    "n_max": "Most tokens per draft of {kind}.",
}
_WITHOUT_EFFECT = "No effect: llama.cpp does not look at it for {kind}."
"""``common_ngram_map_draft`` drafts from a key alone before it counts the hits."""

MODEL_PARAMETERS = ("draft_max", "draft_min", "draft_p_min")
"""What click calls the options of a draft model, which MTP layers have as well."""
_MODEL: tuple[Decorator, ...] = (
    click.option(
        "--draft-max",
        "--draft",
        "--draft-n",
        "--spec-draft-n-max",
        "draft_max",
        type=WholeNumber(1, INT_MAX),
        default=3,
        show_default=True,
        metavar="N",
        help="Most tokens per draft.",
    ),
    click.option(
        "--draft-min",
        "--draft-n-min",
        "--spec-draft-n-min",
        "draft_min",
        type=WholeNumber(0, INT_MAX),
        default=0,
        show_default=True,
        metavar="N",
        help="Drop drafts shorter than this.",
    ),
    click.option(
        "--draft-p-min",
        "--spec-draft-p-min",
        "draft_p_min",
        type=Fraction(0, 1),
        default=0.0,
        show_default=True,
        metavar="P",
        help="Stop drafting below this probability.",
    ),
)

_WITH_SERVER = f" {', '.join(SERVER_KINDS)} with --backend server."


def _kinds(*more: str) -> Decorator:
    return click.option(
        "--spec-type",
        type=ListOf(DrafterKind([MODEL_KIND, MTP_KIND, *_KIND_NAMES, *more])),
        metavar="LIST",
        help=(
            f"Who drafts: {MODEL_KIND}, {MTP_KIND} (the target's own MTP layers), "
            f"{', '.join(NgramKind)}; of several, separated by commas, the first that has "
            f"something to propose (default: {MODEL_KIND}).{_WITH_SERVER if more else ''}"
        ),
    )


def _ngram_options() -> Iterator[Decorator]:
    for kind in NgramKind:
        for flag, (name, default) in zip(ngram_flags(kind), defaults_of(kind).items(), strict=True):
            yield click.option(
                flag,
                parameter_of(kind, name),
                type=_range(name),
                default=default,
                show_default=True,
                metavar="N",
                help=_help(kind, name),
            )


def _replayed_options() -> Iterator[Decorator]:
    """The same as lists, for replays of many settings."""
    for kind in NgramKind:
        for flag, (name, default) in zip(ngram_flags(kind), defaults_of(kind).items(), strict=True):
            yield click.option(
                flag,
                parameter_of(kind, name),
                type=ListOf(_range(name)),
                default=(),
                metavar="N,...",
                help=f"{_help(kind, name)[:-1]} (default: {default}).",
            )


def _help(kind: NgramKind, name: str) -> str:
    is_idle = kind is NgramKind.MAP_K and name == "min_hits"
    return (_WITHOUT_EFFECT if is_idle else _HELP[name]).format(kind=kind)


def defaults_of(kind: NgramKind) -> dict[str, int]:
    """Llama-server's own."""
    return NgramConfig(kind=kind).options(_LONGEST[kind])


def _range(name: str) -> WholeNumber:
    return WholeNumber(_SMALLEST.get(name, 1), NGRAM_LARGEST)


def parameter_of(kind: NgramKind, name: str) -> str:
    """What click calls an option of ``kind``."""
    return f"spec_{kind.replace('-', '_')}_{name}"


DRAFTING: tuple[Decorator, ...] = (_kinds(), *_MODEL, *_ngram_options())
MEASURED: tuple[Decorator, ...] = (_kinds(*SERVER_KINDS), *_MODEL, *_ngram_options())
"""The same where llama-server may be what measures."""

REPLAYED_NGRAMS: tuple[Decorator, ...] = (
    click.option(
        "--spec-type",
        type=ListOf(DrafterKind([MODEL_KIND, *_KIND_NAMES])),
        default=(),
        metavar="LIST",
        help=(
            "Also replay these n-gram drafters; naming one of their options does as well. With "
            f"{MODEL_KIND} among them, which is whoever the trace recorded, MTP layers included, "
            "they are asked before that, instead of alone."
        ),
    ),
    *_replayed_options(),
)


def take_drafting(parsed: Mapping[str, Any]) -> tuple[SpeculationConfig, dict[str, Any]]:
    """Split what click parsed into the setting and the options of other groups.

    Raises:
        UsageError: the setting would never draft.
    """
    names = {"spec_type", *MODEL_PARAMETERS}
    names |= {parameter_of(kind, name) for kind in NgramKind for name in defaults_of(kind)}
    rest = {name: value for name, value in parsed.items() if name not in names}
    return _setting(parsed, parsed["spec_type"] or (MODEL_KIND,)), rest


def _setting(parsed: Mapping[str, Any], wanted: Sequence[str]) -> SpeculationConfig:
    # Llama-server's precedence, in whatever order they are named.
    settings = [_ngram(parsed, kind) for kind in NgramKind if kind in wanted]
    contexts = [kind for kind in (MODEL_KIND, MTP_KIND, *SERVER_KINDS) if kind in wanted]
    if len(contexts) > 1:
        raise UsageError(
            f"--spec-type {','.join(contexts)}: llama-server has one draft context; name one"
        )
    if contexts:
        longest, shortest, floor = (parsed[name] for name in MODEL_PARAMETERS)
        setting = model_setting(longest, shortest, floor)
        reader = next((kind for kind in SERVER_KINDS if kind in wanted), None)
        settings.append(replace(setting, mtp=MTP_KIND in wanted, reader=reader))
    *ahead, own = settings
    return own.after(ahead)


def _ngram(parsed: Mapping[str, Any], kind: NgramKind) -> SpeculationConfig:
    return _checked(kind, {name: parsed[parameter_of(kind, name)] for name in defaults_of(kind)})


def replayed_ngrams(parsed: Mapping[str, Any]) -> Iterator[SpeculationConfig]:
    """Every combination of what was given of a kind; nothing of kinds that were not named.

    Raises:
        UsageError: a setting would never draft.
    """
    if MODEL_KIND not in parsed["spec_type"]:
        yield from chain.from_iterable(_replayed_kinds(parsed))


def replayed_ahead(parsed: Mapping[str, Any]) -> Iterator[tuple[SpeculationConfig, ...]]:
    """Every combination of the named n-gram drafters that is to be asked before the drafts.

    Raises:
        UsageError: a setting would never draft.
    """
    kinds = _replayed_kinds(parsed)
    if MODEL_KIND in parsed["spec_type"] and kinds:
        yield from product(*kinds)


def _replayed_kinds(parsed: Mapping[str, Any]) -> list[list[SpeculationConfig]]:
    """Settings of each kind that was named, in llama-server's precedence."""
    found = []
    for kind in NgramKind:
        defaults = defaults_of(kind)
        given = {name: parsed[parameter_of(kind, name)] for name in defaults}
        if kind in parsed["spec_type"] or any(given.values()):
            lists = [values or (defaults[name],) for name, values in given.items()]
            options = [dict(zip(given, values, strict=True)) for values in product(*lists)]
            found.append([_checked(kind, one) for one in options])
    return found


def _checked(kind: NgramKind, given: Mapping[str, int]) -> SpeculationConfig:
    if kind is NgramKind.SIMPLE and given["size_n"] > given["size_m"]:
        raise UsageError(
            f"--spec-{kind}-size-n {given['size_n']} with --spec-{kind}-size-m {given['size_m']} "
            "would draft nothing; choose n up to m"
        )
    return ngram_setting(kind, given)


def model_setting(draft_max: int, draft_min: int, draft_p_min: float) -> SpeculationConfig:
    """Check the bounds against each other.

    Raises:
        UsageError: ``draft_min`` is above ``draft_max``, so that every draft would be dropped.
    """
    if draft_min > draft_max:
        raise UsageError(
            f"--draft-min {draft_min} is above --draft-max {draft_max}, so every draft would be "
            "dropped; lower it"
        )
    return SpeculationConfig(draft_max=draft_max, draft_min=draft_min, draft_p_min=draft_p_min)
