"""Rules for options of n-gram drafters."""

from collections.abc import Iterator

from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.rewriting.renames import own_words
from spectui.lint.finding import Finding, left_out, quoted, replaced
from spectui.lint.kinds import KINDS
from spectui.options.drafters import Ngram, NgramMod, NgramSimple, kind_of, ngram_of, number_of
from spectui.severity import Severity

_SHORTEST_MATCH = 16
"""Tokens below which llama-server warns about ``ngram-mod``."""
_UNREAD = {
    "spec-ngram-simple-min-hits": "ngram-simple looks up no counts",
    # common_ngram_map_draft
    "spec-ngram-map-k-min-hits": "ngram-map-k drafts from a key alone, before it counts the hits",
}


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
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
        yield from _of_simple(command)
    if kind_of(NgramMod) in kinds:
        yield from _of_mod(command)


def _idle(at: int, item: Item, why: str) -> Finding:
    return left_out(at, item, what=f"nothing reads {item.shown}", why=why)


def _lengths(command: Command, kinds: tuple[str, ...], reader: Reader) -> Iterator[Finding]:
    for at, item in command.all("draft-max", "draft-min", "draft-p-min"):
        if reader.takes(item.given.flag) is False:
            continue
        words = own_words(item, command)
        yield Finding(
            flag=item.shown,
            severity=Severity.WARNING,
            what=f"{', '.join(kinds)} does not read {item.shown}",
            why="it is of draft models; n-gram drafters have lengths of their own",
            replacement=quoted(*words),
            edits=replaced(at, *words),
            at=at,
        )


def _number(command: Command, drafter: type[Ngram], name: str) -> float:
    """The command's number, 0 included, or else the server's default."""
    number = number_of(drafter, name)
    found = command.number(number.option)
    return number.default if found is None else found


def _of_simple(command: Command) -> Iterator[Finding]:
    size_n, size_m = (_number(command, NgramSimple, name) for name in ("size_n", "size_m"))
    found = command.last("spec-ngram-simple-size-m", "spec-ngram-simple-size-n")
    if found is not None and size_n > size_m:
        yield Finding(
            flag=found[1].shown,
            severity=Severity.ERROR,
            what=f"ngram-simple drafts at most {size_m:.0f} tokens, and drops drafts below "
            f"{size_n:.0f}, which is what it looks up",
            why="no draft is long enough"
            if command.has("spec-ngram-simple-size-n")
            else f"its size-n is {size_n:.0f} unless told",
            replacement=quoted("--spec-ngram-simple-size-m", f"{size_n:.0f}"),
            at=found[0],
        )


def _of_mod(command: Command) -> Iterator[Finding]:
    match = command.last("spec-ngram-mod-n-match")
    n_match = command.number("spec-ngram-mod-n-match")
    if match is not None and n_match is not None and n_match < _SHORTEST_MATCH:
        yield Finding(
            flag=match[1].shown,
            severity=Severity.WARNING,
            what=f"{match[1].shown} {match[1].value} is short",
            why=f"below {_SHORTEST_MATCH} tokens chance matches draft what is refused, and "
            "llama-server warns of it",
            replacement=quoted(match[1].given.flag, "24"),
            at=match[0],
        )
    shortest, longest = (_number(command, NgramMod, name) for name in ("n_min", "n_max"))
    found = command.last("spec-ngram-mod-n-max", "spec-ngram-mod-n-min")
    if found is not None and shortest > longest:
        yield Finding(
            flag=found[1].shown,
            severity=Severity.ERROR,
            what=f"ngram-mod drafts at most {longest:.0f} tokens, and drops drafts below "
            f"{shortest:.0f}",
            why="no draft is long enough"
            if command.has("spec-ngram-mod-n-min")
            else "its n-min is 48 unless told",
            replacement=quoted("--spec-ngram-mod-n-min", "0"),
            at=found[0],
        )
