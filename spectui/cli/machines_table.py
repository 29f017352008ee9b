"""The table of the machines that share a study of a database."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from spectui.cli.drawing import Words, drawn, table
from spectui.commands.arguments import server_arguments
from spectui.commands.items import divide, words_of
from spectui.format import rate_text
from spectui.measure.arm import Arm
from spectui.measure.observed import totals
from spectui.measure.promise import Promise
from spectui.measure.speedup import gain_text
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ContextOptions, ModelOptions, Setup
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
                _placement(setup) or "-",
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


def _placement(setup: Setup) -> str:
    """llama-server's options for the target's place and threads, where they are no defaults."""
    # The length of the context is that of all machines.
    usual = _items(ModelOptions(path=Path("m")), ContextOptions(ctx_size=setup.context.ctx_size))
    return " ".join(one for one in _items(setup.target, setup.context) if one not in usual)


def _items(target: ModelOptions, context: ContextOptions) -> list[str]:
    words = server_arguments(target, None, context, None, dialect=Dialect.LLAMA_CPP)
    kept = [one for one in divide(words) if not one.is_path and one.flag != "--rpc"]
    return [shlex.join(words_of([one])) for one in kept]
