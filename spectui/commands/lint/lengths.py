"""Rules for draft lengths, and for numbers of n-gram drafters."""

from collections.abc import Iterator
from contextlib import suppress

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import (
    NEW_LENGTHS,
    OLD_LENGTHS,
    assumed_lengths,
    drafting,
    kind_of_draft,
)
from spectui.commands.finding import (
    OFFLOAD_BATCH,
    Finding,
    Severity,
    Topic,
    about,
    error,
    note,
    warning,
)
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.renames import KINDS, MODEL_FLAGS, OF_MODELS
from spectui.commands.rewriting import as_meant, own_words
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    MODEL_KIND,
    MTP_KIND,
    NgramCache,
    NgramSimple,
    kind_of,
    ngram_of,
    number_of,
)

_LONG = 8
"""Draft length from which a finding reports drafting regardless of probability, or beside experts
in RAM."""
_SHORT = 4
"""Draft length that is proposed in place of a long one."""


_IN_BLOCKS = frozenset({"draft-dflash", "draft-dspark"})
"""Kinds whose drafts are computed at once."""
_UNREAD = {
    "spec-ngram-simple-min-hits": "ngram-simple looks up no counts",
    # common_ngram_map_draft
    "spec-ngram-map-k-min-hits": "ngram-map-k drafts from a key alone, before it counts the hits",
}


def lengths_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on the draft lengths of models."""
    # What is put right drafts, too.
    command = as_meant(command)
    if not command.drafts_with_model:
        return
    if reader.dialect is not Dialect.IK:
        yield from _changed(command, reader)
    yield from _shorter_than_shortest(command, reader)
    yield from _never(command, reader)
    yield from _least_probability(command)
    yield from _large_batches(command, reader)


def _changed(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    is_old = command.is_old and reader.is_current
    for name, value in assumed_lengths(command, reader).items():
        flag = MODEL_FLAGS[name] if reader.is_current else f"--{name}"
        meant = (
            "the command's other names are of before, so its author had the old value"
            if is_old
            else "written out, it means the same in every build"
        )
        yield about(
            Severity.WARNING if is_old else Severity.NOTE,
            flag,
            f"{flag} is not given",
            f"its default was {OLD_LENGTHS[name]} until spring 2026 and is {NEW_LENGTHS[name]} "
            f"since; {meant}",
            write=(flag, value),
            fix=(flag, value) if is_old else None,
        )


def _shorter_than_shortest(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found = command.last("draft-min")
    shortest, longest = command.number("draft-min"), command.number("draft-max")
    if longest is None:
        is_new = reader.is_current and not command.is_old
        longest = float((NEW_LENGTHS if is_new else OLD_LENGTHS)["draft-max"])
    if found is None or shortest is None or shortest <= longest:
        return
    at, item = found
    yield warning(
        (at, item),
        f"drafts have at most {longest:.0f} tokens, and below {shortest:.0f} they are dropped",
        "every draft is computed and none is used",
        write=(item.flag, "0"),
    )


def _never(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find lengths and probabilities with which nothing is ever drafted, or the server ends."""
    found, longest = command.last("draft-max"), command.number("draft-max")
    if found is not None and longest is not None and longest < 1:
        item = found[1]
        words = (item.flag, NEW_LENGTHS["draft-max"])
        if reader.is_current and _is_one_by_one(command):
            yield error(
                found,
                f"{item.shown} {item.value} ends llama-server while it answers",
                "a draft gets a token all the same, and no room is kept for its results; to draft "
                "nothing, leave out what names the drafter",
                write=words,
            )
        else:
            what = f"{item.shown} {item.value} ends every draft before it begins"
            why = "a draft has no tokens, so that nothing is drafted"
            yield warning(found, what, why, write=words)
    found, p_min = command.last("draft-p-min"), command.number("draft-p-min")
    if found is not None and p_min is not None and p_min > 1:
        yield warning(
            found,
            f"{found[1].shown} {found[1].value} ends every draft before it begins",
            "no token is more probable than 1, so that nothing is drafted",
            write=(found[1].flag, OLD_LENGTHS["draft-p-min"]),
        )


def _is_one_by_one(command: ServerCommand) -> bool:
    """Whether all that drafts is a model which computes one token after the other."""
    kinds = command.kinds or (kind_of_draft(command),)
    return OF_MODELS.difference(_IN_BLOCKS).issuperset(kinds)


def _least_probability(command: ServerCommand) -> Iterator[Finding]:
    """Find a least probability that ends no draft, or that does not decide."""
    found, p_min = command.last("draft-p-min"), command.number("draft-p-min")
    longest = command.number("draft-max")
    if found is None or p_min is None:
        return
    item = found[1]
    if command.value("spec-draft-sampling") == "probabilistic":
        kinds = command.kinds or (kind_of_draft(command),)
        if p_min > 0 and any(kind in {MODEL_KIND, MTP_KIND} for kind in kinds):
            yield warning(
                found,
                f"{item.text} ends drafts by a probability that does not decide",
                "a sampled token is accepted as often as draft and target agree (1 - TV), which "
                "the draft's top probability does not tell",
                write=(item.flag, "0"),
            )
    elif longest is not None and longest >= _LONG and p_min <= 0:
        yield note(
            found,
            f"all {longest:.0f} tokens of a draft are computed, however unlikely they are",
            f"{item.shown} {item.value} ends no draft early; spectui tune finds what pays",
            write=(item.flag, OLD_LENGTHS["draft-p-min"]),
        )


def _large_batches(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find drafts that are long for experts in RAM."""
    found = command.last("draft-max") or command.last("spec-type")
    longest = command.number("draft-max") or _behind_kind(command)
    patterns = (part for _at, item in command.all("override-tensor") for part in item.values)
    in_ram = command.has("cpu-moe", "n-cpu-moe") or any(part.endswith("=CPU") for part in patterns)
    paying = command.paying_length
    is_long = longest is not None and (longest >= _LONG if paying is None else longest > paying)
    if found is None or longest is None or not in_ram or not is_long:
        return
    flag = MODEL_FLAGS["draft-max"] if reader.is_current else found[1].flag
    # With --no-op-offload nothing is copied.
    offload = command.last("op-offload", "no-op-offload")
    is_copied = offload is None or not offload[1].is_negation
    is_batch = is_copied and longest >= OFFLOAD_BATCH - 1 and command.value("gpu-layers") != "0"
    yield warning(
        found,
        f"drafts of {longest:.0f} tokens, beside weights in RAM",
        f"spectui tune found on this machine that drafts of at most {paying} tokens pay most"
        if paying is not None
        else f"from {OFFLOAD_BATCH} tokens per batch on llama.cpp copies weights from RAM to "
        "the GPU, which costs more than it saves for so few tokens"
        if is_batch
        else "each token of a draft reads other experts, so that verifying many costs nearly as "
        "much as decoding them; spectui tune finds the length that pays",
        write=(flag, str(paying or _SHORT)) if found[1].name == "draft-max" else None,
        topic=Topic.LARGE_BATCH if is_batch and paying is None else None,
    )


def _behind_kind(command: ServerCommand) -> float | None:
    """The longest draft of ik_llama.cpp's form; None where it is not said."""
    numbers: list[float] = []
    for _at, item in command.all("spec-type"):
        with suppress(BadInputError, ValueError):
            numbers += map(float, drafting(item.value).get("draft-max", ()))
    return max(numbers, default=None)


def ngrams_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on options that no drafter reads, or that one reads unexpectedly."""
    if not reader.is_current:
        return
    kinds = command.kinds
    if not set(KINDS).issuperset(kinds):
        # Which drafter is meant, nobody knows yet.
        return
    for at, item in enumerate(command.items):
        own = ngram_of(item.name)
        if own is not None and own not in kinds:
            yield _idle(at, item, f"{own} is not in --spec-type")
        elif own is not None and item.name in _UNREAD:
            yield _idle(at, item, _UNREAD[item.name])
    if kinds and all(kind.startswith("ngram-") for kind in kinds):
        yield from _lengths(command, kinds, reader)
    if kind_of(NgramSimple) in kinds:
        yield from _all_dropped(command)


def _idle(at: int, item: Item, why: str) -> Finding:
    return warning((at, item), f"nothing reads {item.shown}", why, write=())


def _lengths(command: ServerCommand, kinds: tuple[str, ...], reader: Reader) -> Iterator[Finding]:
    for at, item in command.all(*MODEL_FLAGS):
        if reader.takes(item.flag) is False:
            continue
        words = own_words(item, command)
        fixed_length = kinds == (kind_of(NgramCache),) and item.name == "draft-max"
        yield warning(
            (at, item),
            f"{', '.join(kinds)} does not read {item.shown}",
            f"its drafts have at most {NgramCache.LONGEST} tokens, and no option changes that"
            if fixed_length
            else "it is of draft models; n-gram drafters have lengths of their own",
            write=words,
        )


def _all_dropped(command: ServerCommand) -> Iterator[Finding]:
    """Find lengths of ``ngram-simple`` with which every draft is dropped."""
    shortest, longest = (number_of(NgramSimple, name) for name in ("size_n", "size_m"))
    found = command.last(longest.option, shortest.option)
    least, most = (
        one.default if (given := command.number(one.option)) is None else given
        for one in (shortest, longest)
    )
    if found is None or least <= most:
        return
    yield warning(
        found,
        f"{shortest.kind} drafts at most {most:.0f} tokens, and drops drafts below {least:.0f}, "
        "which is what it looks up",
        "no draft is long enough"
        if command.has(shortest.option)
        else f"its {shortest.name.replace('_', '-')} is {least:.0f} unless told",
        write=(longest.flags[0], f"{least:.0f}"),
    )
