"""Drafting options of commands that run settings: under llama-server's own names, and checked."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, product
from typing import Any

import click

from spectui.cli.click_options import Decorator, click_option, listed
from spectui.cli.given import Given
from spectui.cli.values import DrafterKind, ListOf
from spectui.errors import UsageError
from spectui.options import catalogue
from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    ONLY_BY_SERVER,
    DrafterOptions,
    DrafterSetting,
    Ngram,
    kind_of,
    numbers_of,
    owners,
)
from spectui.options.setup import ContextOptions
from spectui.options.speculation import Speculation, speculation_of

_WITH_SERVER = f" {', '.join(HIDDEN_STATE_KINDS)} with --backend server."


def _kinds(*more: str) -> Decorator:
    return click.option(
        "--spec-type",
        type=ListOf(DrafterKind([MODEL_KIND, MTP_KIND, *NGRAM_KINDS, *more])),
        metavar="LIST",
        help=(
            f"Who drafts: {MODEL_KIND}, {MTP_KIND} (MTP layers, the target's own or those of -md), "
            f"{', '.join(NGRAM_KINDS)}; of several, separated by commas, the first that has "
            f"something to propose (default: {MODEL_KIND}).{_WITH_SERVER if more else ''}"
        ),
    )


_NUMBERS = tuple(map(click_option, catalogue.NUMBERS))
DRAFTING: tuple[Decorator, ...] = (_kinds(), *_NUMBERS)
MEASURED: tuple[Decorator, ...] = (_kinds(*HIDDEN_STATE_KINDS), *_NUMBERS)
"""Drafting options of commands that can measure through llama-server."""

LISTED_NGRAMS: tuple[Decorator, ...] = tuple(
    listed(number) for drafter in NGRAMS for number in numbers_of(drafter)
)
REPLAYED_NGRAMS: tuple[Decorator, ...] = (
    click.option(
        "--spec-type",
        type=ListOf(DrafterKind([MODEL_KIND, *NGRAM_KINDS])),
        default=(),
        metavar="LIST",
        help=(
            "Also replay these n-gram drafters; naming one of their options does as well. With "
            f"{MODEL_KIND} among them, which is whoever the trace recorded, MTP layers included, "
            "they are asked before that, instead of alone."
        ),
    ),
    *LISTED_NGRAMS,
)


def take_drafting(given: Given) -> tuple[Speculation, Given]:
    """Split what a command was given into the setting and the options of other groups.

    Raises:
        UsageError: the setting would never draft.
    """
    speculation = speculation_of(given["spec_type"] or (MODEL_KIND,), given)
    return speculation, given.changed(spec_type=())


def replayed_ngrams(parsed: Mapping[str, Any]) -> Iterator[Speculation]:
    """Every combination of the given options of a kind; nothing for kinds that were not named.

    Raises:
        UsageError: a setting would never draft.
    """
    if MODEL_KIND not in parsed["spec_type"]:
        yield from map(Speculation, chain.from_iterable(_replayed_kinds(parsed)))


def replayed_ahead(parsed: Mapping[str, Any]) -> Iterator[tuple[Ngram, ...]]:
    """Every combination of the named n-gram drafters that are asked before the drafts.

    Raises:
        UsageError: a setting would never draft.
    """
    kinds = _replayed_kinds(parsed)
    if MODEL_KIND in parsed["spec_type"] and kinds:
        yield from product(*kinds)


def _replayed_kinds(parsed: Mapping[str, Any]) -> list[list[Ngram]]:
    """Settings of each kind that was named, in llama-server's precedence."""
    found = []
    for drafter in NGRAMS:
        given = {number.parameter: parsed[number.parameter] for number in numbers_of(drafter)}
        if kind_of(drafter) in parsed["spec_type"] or any(given.values()):
            found.append([_ngram(drafter, one) for one in _combinations(drafter, given)])
    return found


def _combinations(
    drafter: type[DrafterOptions], given: Mapping[str, tuple[float, ...]]
) -> Iterator[dict[str, float]]:
    numbers = numbers_of(drafter)
    lists = [given[number.parameter] or (number.default,) for number in numbers]
    for values in product(*lists):
        yield {number.parameter: one for number, one in zip(numbers, values, strict=True)}


def _ngram(drafter: type[Ngram], values: Mapping[str, float]) -> Ngram:
    (own,) = speculation_of((kind_of(drafter),), values).ngrams
    return own


def check_drafting(context: ContextOptions, speculation: Speculation) -> None:
    """Refuse options that the selected drafters do not have.

    Raises:
        UsageError: a draft is longer than a decode.
    """
    sizes = {"-c": context.ctx_size, "-b": context.batch_size}
    for one in speculation.chain:
        needed = one.longest + 1
        short = {flag: size for flag, size in sizes.items() if size < needed}
        if short:
            given = " with ".join(f"{flag} {size}" for flag, size in short.items())
            length, lower = _longest_draft(one)
            raise UsageError(
                f"{length} is verified in decodes of {needed} tokens, which {given} does not "
                f"hold; raise {' and '.join(short)} to {needed} or more{lower}"
            )


def _longest_draft(one: DrafterSetting) -> tuple[str, str]:
    """The length of a drafter's longest draft as it is given, and how to shorten it."""
    bound = next((number for number in numbers_of(type(one)) if number.bounds_drafts), None)
    if bound is None:
        return f"{one.kind} with its drafts of up to {one.longest}", ""
    default = ", the default," if one.longest == bound.default else ""
    return f"{bound.flags[0]} {one.longest}{default}", ", or lower it"


def check_engine(kinds: Iterable[str]) -> None:
    """Refuse drafters that only llama-server runs.

    Raises:
        UsageError: one of ``kinds`` is such.
    """
    for kind in kinds:
        if kind in HIDDEN_STATE_KINDS:
            raise UsageError(
                f"--spec-type {kind}: {ONLY_BY_SERVER}; add --backend server --server-bin PATH"
            )


def check_typed(given: Given) -> None:
    """Refuse options that were typed for a drafter that is not selected.

    A preset or a command that was taken over may hold more than is used.

    Raises:
        UsageError: there is such an option.
    """
    wanted = given["spec_type"] or (MODEL_KIND,)
    for name, kinds in owners().items():
        if name in given.typed and kinds.isdisjoint(wanted):
            own = sorted(kinds.difference(HIDDEN_STATE_KINDS), reverse=True)
            raise UsageError(
                f"{given.flags[name]} is an option of {' and '.join(own)}, and who drafts here is "
                f"{', '.join(wanted)}; leave it out, or name in --spec-type who takes it"
            )
