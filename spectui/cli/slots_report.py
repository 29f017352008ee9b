"""Results by the number of slots, as text."""

from collections.abc import Sequence

from spectui.cli.drawing import drawn, table, wrapped
from spectui.format import factor, percent_text, rate_text
from spectui.measure.slots import SlotResult, by_slots

_HEADINGS = (
    *("slots", "off each", "off all", "on each", "on all"),
    *("speedup", "95 % interval", "rate"),
)
SLOTS_LEGEND = (
    "slots: streams at once. each: tokens/s of a stream while it answers. all: tokens/s of all "
    "streams together, with the evaluation of prompts. speedup: of a stream, over prompts. rate: "
    "accepted of drafted tokens. !: more than the accepted tokens can give; this is noise."
)


def slots_lines(results: Sequence[SlotResult]) -> list[str]:
    """A row for each number of slots, and what that says."""
    return [drawn(table(_HEADINGS, map(_row, results))), "", wrapped(by_slots(results))]


def _row(one: SlotResult) -> tuple[str, ...]:
    found, (off, on) = one.found, one.all_tokens_per_s
    speedup, interval = "–", "–"
    if found.speedup is not None:
        told = found.speedup.capped
        speedup = f"{factor(told.estimate, 3)}{' !' if found.speedup.is_noise else ''}"
        if told.interval is not None:
            interval = " to ".join(factor(end, 3) for end in told.interval)
    return (
        str(one.n_slots),
        rate_text(found.baseline_tokens_per_s),
        rate_text(off),
        rate_text(found.speculative_tokens_per_s),
        rate_text(on),
        speedup,
        interval,
        percent_text(found.counters.acceptance_rate, 1),
    )
