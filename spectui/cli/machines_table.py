"""The table of the machines that share a study of a database."""

from collections.abc import Iterator, Sequence

from spectui.cli.drawing import Words, drawn, table
from spectui.commands.launch import placement_text
from spectui.format import rate_text
from spectui.measure.arm import Arm
from spectui.measure.observed import totals
from spectui.measure.promise import Promise
from spectui.measure.speedup import gain_text
from spectui.options.drafters import MTP_KIND
from spectui.tune.studies.listing import StudyEntry


def machine_lines(machines: Sequence[StudyEntry]) -> list[str]:
    """The table, with an empty line behind it; nothing where fewer than two have a verdict.

    It has neither names of hosts nor addresses.
    """
    if sum(one.outcome is not None for one in machines) < 2:  # noqa: PLR2004 - else it says nothing
        return []
    columns = (
        *(Words(head="machine, study"), Words(head="placement"), "off"),
        *(Words(head="best setting"), "tokens/s"),
        *(Words(head="gain", is_whole=True), Words(head="date", is_whole=True)),
    )
    return [drawn(table(columns, _rows(machines))), ""]


def _rows(machines: Sequence[StudyEntry]) -> Iterator[tuple[str, ...]]:
    for one in machines:
        setup = one.outcome if one.promise is None else one.promise.case
        if one.outcome is not None and setup is not None:
            yield (
                f"{one.machine or '-'}\n{one.name}",
                placement_text(setup) or "-",
                *_measured(one.promise),
                f"{one.outcome.ended.astimezone():%Y-%m-%d}",
            )


def _measured(promise: Promise | None) -> Iterator[str]:
    """Tokens/s off, the best setting, its tokens/s and gain."""
    if promise is None:
        yield from ("-", "none confirmed", "-", "-")
        return
    draft, sums = promise.case.draft, totals(promise.observed)
    arm = Arm(
        draft=MTP_KIND if draft is None else draft.path.stem, speculation=promise.case.speculation
    )
    yield rate_text(sums.baseline_tokens_per_s)
    yield arm.label
    yield rate_text(sums.tokens_per_s)
    yield gain_text(promise.speedup)
