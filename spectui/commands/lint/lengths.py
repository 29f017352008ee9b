"""Rules for draft lengths, and for numbers of n-gram drafters."""

from collections.abc import Iterator
from contextlib import suppress

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import NEW_LENGTHS, OLD_LENGTHS, assumed_lengths, drafting
from spectui.commands.finding import (
    OFFLOAD_BATCH,
    Finding,
    Topic,
    note,
    warning,
)
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.renames import KINDS, MODEL_FLAGS
from spectui.commands.rewriting import own_words
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    NgramCache,
    NgramDrafter,
    NgramMod,
    NgramSimple,
    kind_of,
    ngram_of,
    number_of,
)
from spectui.options.number import Number
from spectui.severity import Severity

_LONG = 8
"""Draft length from which a finding reports drafting regardless of probability, or beside experts
in RAM."""
_SHORT = 4
"""Draft length that is proposed in place of a long one."""


_BOUNDS: dict[type[NgramDrafter], tuple[str, str]] = {
    NgramSimple: ("size_n", "size_m"),
    NgramMod: ("n_min", "n_max"),
}
"""Numbers of n-gram drafters that bound their drafts: the shortest, and the longest."""
_UNREAD = {
    "spec-ngram-simple-min-hits": "ngram-simple looks up no counts",
    # common_ngram_map_draft
    "spec-ngram-map-k-min-hits": "ngram-map-k drafts from a key alone, before it counts the hits",
}


def lengths_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on the draft lengths of models."""
    if not command.drafts_with_model:
        return
    if reader.dialect is not Dialect.IK:
        yield from _changed(command, reader)
    yield from _shorter_than_shortest(command, reader)
    yield from _never(command)
    yield from _least_probability(command)
    yield from _large_batches(command, reader)


def _changed(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    is_old = command.is_old
    for name, value in assumed_lengths(command, reader).items():
        flag = MODEL_FLAGS[name] if reader.is_current else f"--{name}"
        meant = (
            "the command's other names are of before, so its author had the old value"
            if is_old and reader.is_current
            else "written out, it means the same in every build"
        )
        yield Finding(
            flag=flag,
            severity=Severity.WARNING if is_old and reader.is_current else Severity.NOTE,
            what=f"{flag} is not given",
            why=f"its default was {OLD_LENGTHS[name]} until spring 2026 and is "
            f"{NEW_LENGTHS[name]} since; {meant}",
            replacement=f"{flag} {value}",
            edits={None: (flag, value)} if is_old and reader.is_current else {},
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


def _never(command: ServerCommand) -> Iterator[Finding]:
    """Find lengths and probabilities with which nothing is ever drafted."""
    longest, p_min = command.number("draft-max"), command.number("draft-p-min")
    is_empty = longest is not None and longest < 1
    for name, instead, is_wrong, why in (
        ("draft-max", NEW_LENGTHS, is_empty, "a draft has no tokens, so that nothing is drafted"),
        (
            "draft-p-min",
            OLD_LENGTHS,
            p_min is not None and p_min > 1,
            "no token is more probable than 1, so that nothing is drafted",
        ),
    ):
        found = command.last(name)
        if found is not None and is_wrong:
            at, item = found
            yield warning(
                (at, item),
                f"{item.shown} {item.value} ends every draft before it begins",
                why,
                write=(item.flag, instead[name]),
            )


def _least_probability(command: ServerCommand) -> Iterator[Finding]:
    """Find a least probability that ends no draft, or that does not decide."""
    found, p_min = command.last("draft-p-min"), command.number("draft-p-min")
    longest = command.number("draft-max")
    if found is None or p_min is None:
        return
    item = found[1]
    if command.value("spec-draft-sampling") == "probabilistic":
        if p_min > 0:
            yield warning(
                found,
                f"{item.text} ends drafts by a probability that does not decide",
                "since llama.cpp b12364 a sampled token is accepted as often as draft and target "
                "agree (1 - TV), which the draft's top probability does not tell",
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
    is_batch = longest >= OFFLOAD_BATCH - 1 and command.value("gpu-layers") != "0"
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
    for drafter, bounds in _BOUNDS.items():
        if kind_of(drafter) in kinds:
            yield from _all_dropped(command, *(number_of(drafter, name) for name in bounds))


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


def _all_dropped(command: ServerCommand, shortest: Number, longest: Number) -> Iterator[Finding]:
    """Find lengths of an n-gram drafter with which every draft is dropped."""
    found = command.last(longest.option, shortest.option)
    least, most = (_number(command, one) for one in (shortest, longest))
    if found is None or least <= most:
        return
    looks_up = ", which is what it looks up" if shortest.low else ""
    yield warning(
        found,
        f"{shortest.kind} drafts at most {most:.0f} tokens, and drops drafts below "
        f"{least:.0f}{looks_up}",
        "no draft is long enough"
        if command.has(shortest.option)
        else f"its {shortest.name.replace('_', '-')} is {least:.0f} unless told",
        write=(longest.flags[0], f"{least:.0f}") if shortest.low else (shortest.flags[0], "0"),
    )


def _number(command: ServerCommand, number: Number) -> float:
    """The command's number, 0 included, or else the server's default."""
    found = command.number(number.option)
    return number.default if found is None else found
