"""Rules for draft lengths, and for numbers of n-gram drafters."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import (
    NEW_LENGTHS,
    OLD_LENGTHS,
    assumed_lengths,
    kind_of_draft,
    numbers_behind_kinds,
    own_words,
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
    if not command.drafts_with_model:
        return
    if reader.dialect is not Dialect.IK:
        yield from _changed(command, reader)
    yield from _shorter_than_shortest(command, reader)
    yield from _never(command, reader)
    yield from _least_probability(command)
    yield from _large_batches(command, reader)


def _changed(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find lengths that are not given, and whose defaults have changed."""
    is_old = command.is_old and reader.is_current
    meant = "written out, it means the same in every build"
    if is_old:
        meant = "the command's other names are of before, so its author had the old value"
    for name, value in assumed_lengths(command, reader).items():
        flag = MODEL_FLAGS[name] if reader.is_current else f"--{name}"
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
    found, shortest = command.last("draft-min"), command.number("draft-min")
    is_new = reader.is_current and not command.is_old
    given = command.number("draft-max")
    default = float((NEW_LENGTHS if is_new else OLD_LENGTHS)["draft-max"])
    longest = default if given is None else given
    if found is not None and shortest is not None and shortest > longest:
        yield warning(
            found,
            f"drafts have at most {longest:.0f} tokens, and below {shortest:.0f} they are dropped",
            "every draft is computed and none is used",
            write=(found[1].flag, "0"),
        )


def _never(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a longest draft of no tokens, with which nothing is drafted, or the server ends."""
    found, longest = command.last("draft-max"), command.number("draft-max")
    if found is None or longest is None or longest >= 1:
        return
    item, kinds = found[1], command.kinds or (kind_of_draft(command),)
    words = (item.flag, NEW_LENGTHS["draft-max"])
    # A model that computes one token after the other gets to the first.
    if reader.is_current and OF_MODELS.difference(_IN_BLOCKS).issuperset(kinds):
        yield error(
            found,
            f"{item.shown} {item.value} ends llama-server while it answers",
            "a draft gets a token all the same, and no room is kept for its results; to draft "
            "nothing, leave out what names the drafter",
            write=words,
        )
    else:
        what = f"{item.shown} {item.value} ends every draft before it begins"
        yield warning(found, what, "a draft has no tokens, so that nothing is drafted", write=words)


def _least_probability(command: ServerCommand) -> Iterator[Finding]:
    """Find a least probability that ends every draft or none, or that does not decide."""
    found, p_min = command.last("draft-p-min"), command.number("draft-p-min")
    if found is None or p_min is None:
        return
    item, longest = found[1], command.number("draft-max") or 0
    kinds = command.kinds or (kind_of_draft(command),)
    if p_min > 1:
        yield warning(
            found,
            f"{item.shown} {item.value} ends every draft before it begins",
            "no token is more probable than 1, so that nothing is drafted",
            write=(item.flag, OLD_LENGTHS["draft-p-min"]),
        )
    if command.value("spec-draft-sampling") == "probabilistic":
        if p_min > 0 and not {MODEL_KIND, MTP_KIND}.isdisjoint(kinds):
            yield warning(
                found,
                f"{item.text} ends drafts by a probability that does not decide",
                "a sampled token is accepted as often as draft and target agree (1 - TV), which "
                "the draft's top probability does not tell",
                write=(item.flag, "0"),
            )
    elif longest >= _LONG and p_min <= 0:
        yield note(
            found,
            f"all {longest:.0f} tokens of a draft are computed, however unlikely they are",
            f"{item.shown} {item.value} ends no draft early; spectui tune finds what pays",
            write=(item.flag, OLD_LENGTHS["draft-p-min"]),
        )


def _large_batches(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find drafts that are long for experts in RAM."""
    found, paying = command.last("draft-max") or command.last("spec-type"), command.paying_length
    behind = numbers_behind_kinds(command).get("draft-max", "")
    longest = command.number("draft-max") or (int(behind) if behind.isdecimal() else 0)
    patterns = (part for _at, item in command.all("override-tensor") for part in item.values)
    in_ram = command.has("cpu-moe", "n-cpu-moe") or any(part.endswith("=CPU") for part in patterns)
    is_long = longest >= _LONG if paying is None else longest > paying
    if found is None or not in_ram or not is_long:
        return
    flag = MODEL_FLAGS["draft-max"] if reader.is_current else found[1].flag
    # With --no-op-offload nothing is copied.
    offload = command.last("op-offload", "no-op-offload")
    is_copied = offload is None or not offload[1].is_negation
    is_batch = is_copied and longest >= OFFLOAD_BATCH - 1 and command.value("gpu-layers") != "0"
    if paying is not None:
        why = f"spectui tune found on this machine that drafts of at most {paying} tokens pay most"
    elif is_batch:
        why = (
            f"from {OFFLOAD_BATCH} tokens per batch on llama.cpp copies weights from RAM to the "
            "GPU, which costs more than it saves for so few tokens"
        )
    else:
        why = (
            "each token of a draft reads other experts, so that verifying many costs nearly as "
            "much as decoding them; spectui tune finds the length that pays"
        )
    yield warning(
        found,
        f"drafts of {longest:.0f} tokens, beside weights in RAM",
        why,
        write=(flag, str(paying or _SHORT)) if found[1].name == "draft-max" else None,
        topic=Topic.LARGE_BATCH if is_batch and paying is None else None,
    )


def ngrams_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on options that no drafter reads, or that one reads unexpectedly."""
    kinds = command.kinds
    # Which drafter another kind means, nobody knows yet.
    if not reader.is_current or not set(KINDS).issuperset(kinds):
        return
    for at, item in enumerate(command.items):
        own = ngram_of(item.name)
        why = None if own is None else _UNREAD.get(item.name)
        if own is not None and own not in kinds:
            why = f"{own} is not in --spec-type"
        if why is not None:
            yield warning((at, item), f"nothing reads {item.shown}", why, write=())
    if kinds and all(kind.startswith("ngram-") for kind in kinds):
        for at, item in command.all(*MODEL_FLAGS):
            if reader.takes(item.flag) is not False:
                yield _of_models(at, item, command)
    if kind_of(NgramSimple) in kinds:
        yield from _all_dropped(command)


def _of_models(at: int, item: Item, command: ServerCommand) -> Finding:
    """A finding on a model's length beside n-gram drafters alone."""
    why = "it is of draft models; n-gram drafters have lengths of their own"
    if command.kinds == (kind_of(NgramCache),) and item.name == "draft-max":
        why = f"its drafts have at most {NgramCache.LONGEST} tokens, and no option changes that"
    what = f"{', '.join(command.kinds)} does not read {item.shown}"
    return warning((at, item), what, why, write=own_words(item, command))


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
