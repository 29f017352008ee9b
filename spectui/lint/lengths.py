"""Rules for draft lengths and limits: changed defaults, values that defeat each other."""

from collections.abc import Iterator

from spectui.export.rewriting.items import Command
from spectui.export.rewriting.lengths import NEW_LENGTHS, OLD_LENGTHS, assumed_lengths
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, added, quoted, replaced
from spectui.options.dialect import Dialect
from spectui.severity import Severity

_OFFLOAD_BATCH = 32
"""Batch size from which llama.cpp copies weights in RAM to a GPU (``offload_op`` of ggml-cuda)."""
_LONG = 8
"""Draft length from which a finding reports drafting regardless of probability."""


_FLAGS = {"draft-max": "--spec-draft-n-max", "draft-p-min": "--spec-draft-p-min"}
"""Present flags of the options whose defaults changed; their names are the former flags."""


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield findings on the draft lengths of models."""
    if not command.drafts_with_model:
        return
    if reader.dialect is not Dialect.IK:
        yield from _changed(command, reader)
    yield from _shorter_than_shortest(command, reader)
    yield from _never(command)
    yield from _to_the_end(command)
    yield from _large_batches(command)


def _changed(command: Command, reader: Reader) -> Iterator[Finding]:
    is_old = command.is_old
    for name, value in assumed_lengths(command, reader).items():
        flag = _FLAGS[name] if reader.is_current else f"--{name}"
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
            replacement=quoted(flag, value),
            edits=added(flag, value),
        )


def _shorter_than_shortest(command: Command, reader: Reader) -> Iterator[Finding]:
    found = command.last("draft-min")
    shortest, longest = command.number("draft-min"), command.number("draft-max")
    if longest is None:
        longest = 3 if reader.is_current and not command.is_old else 16
    if found is None or shortest is None or shortest <= longest:
        return
    at, item = found
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"drafts have at most {longest:.0f} tokens, and below {shortest:.0f} they are dropped",
        why="every draft is computed and none is used",
        replacement=quoted(item.given.flag, "0"),
        edits=replaced(at, item.given.flag, "0"),
        at=at,
    )


def _never(command: Command) -> Iterator[Finding]:
    """Find lengths and probabilities with which nothing is ever drafted."""
    longest, p_min = command.number("draft-max"), command.number("draft-p-min")
    is_empty = longest is not None and longest < 1
    for name, instead, is_wrong, why in (
        ("draft-max", "3", is_empty, "a draft has no tokens, so that nothing is drafted"),
        (
            "draft-p-min",
            "0.75",
            p_min is not None and p_min > 1,
            "no token is more probable than 1, so that nothing is drafted",
        ),
    ):
        found = command.last(name)
        if found is not None and is_wrong:
            at, item = found
            yield Finding(
                flag=item.shown,
                severity=Severity.ERROR,
                what=f"{item.shown} {item.value} ends every draft before it begins",
                why=why,
                replacement=quoted(item.given.flag, instead),
                at=at,
            )


def _to_the_end(command: Command) -> Iterator[Finding]:
    found, p_min = command.last("draft-p-min"), command.number("draft-p-min")
    longest = command.number("draft-max")
    if found is None or p_min is None or longest is None or longest < _LONG or p_min > 0:
        return
    at, item = found
    yield Finding(
        flag=item.shown,
        severity=Severity.NOTE,
        what=f"all {longest:.0f} tokens of a draft are computed, however unlikely they are",
        why=f"{item.shown} {item.value} ends no draft early; spectui tune finds what pays",
        replacement=quoted(item.given.flag, "0.75"),
        at=at,
    )


def _large_batches(command: Command) -> Iterator[Finding]:
    found, longest = command.last("draft-max"), command.number("draft-max")
    overrides = (part for _at, item in command.all("override-tensor") for part in item.given.values)
    in_ram = command.has("cpu-moe", "n-cpu-moe") or any(part.endswith("=CPU") for part in overrides)
    has_gpu = command.value("gpu-layers") != "0"
    if found is None or longest is None or longest < _OFFLOAD_BATCH - 1:
        return
    if in_ram and has_gpu:
        at, item = found
        yield Finding(
            flag=item.shown,
            severity=Severity.WARNING,
            what=f"drafts of {longest:.0f} tokens, beside weights in RAM",
            why=f"from {_OFFLOAD_BATCH} tokens per batch on llama.cpp copies weights from RAM to "
            "the GPU, which costs more than it saves for so few tokens",
            replacement=quoted(item.given.flag, str(_OFFLOAD_BATCH - 2)),
            at=at,
        )
