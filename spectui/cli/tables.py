"""Tables of ``tune``, ``bench`` and ``studies``: by place, depth, number of slots, and machine."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from spectui.cli.drawing import Words, drawn, sentence, table, wrapped
from spectui.commands.launch import placement_text
from spectui.format import counted, factor, percent_text, rate_text, seconds_text, speedup_percent
from spectui.measure.arm import Arm
from spectui.measure.observed import totals
from spectui.measure.promise import Promise
from spectui.measure.reading import PromptTimes
from spectui.measure.slots import SlotResult, by_slots
from spectui.measure.speedup import Speedup, gain_text
from spectui.measure.statistics import product
from spectui.options.drafters import MTP_KIND
from spectui.tune.depths import Depth, Depths
from spectui.tune.document import Tuned
from spectui.tune.places import Placing, text_of
from spectui.tune.studies.listing import StoredStudy


def place_lines(found: Tuned) -> list[str]:
    """The lines; none where no place was searched."""
    placing = found.tuning.placing
    if placing is None:
        return []
    own = text_of(found.tuning.setup.knobs, placing.given)
    short = ", and time ended the search" if placing.was_short else ""
    if not placing.best:
        told = f"Without a draft no place was shown to be faster than your command's ({own})"
        tried = counted(placing.n_tried, "other")
        return ["", wrapped(f"{told}: {tried} tried{_nearest(placing)}{short}.")]
    told = f"{counted(placing.n_tried, 'other place')} tried without a draft{short}"
    if (requests := placing.requests) is not None:
        told = f"{told}; whole requests gain {gain_text(requests)} by the best"
    rows = table((Words(), "tokens/s", "over your command"), _place_rows(found, placing, own))
    return ["", drawn(rows), wrapped(f"{told}.")]


def _place_rows(found: Tuned, placing: Placing, own: str) -> Iterator[tuple[str, str, str]]:
    knobs, result, best = found.tuning.setup.knobs, found.result, placing.decoding
    yield f"your command, no draft ({own})", rate_text(placing.given_tokens_per_s), ""
    if best is None:
        return
    place = text_of(knobs, placing.best)
    yield f"best place, no draft ({place})", rate_text(placing.best_tokens_per_s), gain_text(best)
    if result.best is not None and result.speedup is not None:
        speedup = result.speedup.capped
        rate = (placing.best_tokens_per_s or 0.0) * speedup.estimate
        yield f"the same, {result.best.label}", rate_text(rate), gain_text(product(best, speedup))


def _nearest(placing: Placing) -> str:
    """The gain of the best one, where it was compared."""
    best: Speedup | None = placing.requests
    return "" if best is None else f", the best with {gain_text(best)} for whole requests"


_OF_DEPTHS = ("depth", "gain", "interval", "rate", "token", "round", "first off", "first on")
_NONE = "–"


def depth_lines(depths: Depths) -> list[str]:
    """A table of what was measured at depth, and what follows; nothing if nothing was."""
    if not depths.found and not depths.left_out:
        return []
    lines = [""]
    if depths.found:
        lines += [drawn(_depth_table(depths.found)), wrapped(_depth_legend(depths.limit))]
    if depths.left_out:
        lengths = ", ".join(f"{n:,}" for n in depths.left_out)
        left = f"note: the time budget had no room for a depth of {lengths} tokens."
        lines.append(sentence(left))
    if any(one.repeats_text for one in depths.found):
        short = (
            "note: all prompts together are shorter than the deepest one, in which they repeat; "
            "give longer prompts."
        )
        lines.append(sentence(short))
    return lines


def _depth_table(found: Sequence[Depth]) -> Table:
    return table(_OF_DEPTHS, map(_depth_row, found))


def _depth_row(one: Depth) -> tuple[str, ...]:
    told = one.speedup.capped
    return (
        f"{one.n_tokens:,}",
        speedup_percent(told.estimate),
        _NONE if told.interval is None else " to ".join(map(speedup_percent, told.interval)),
        percent_text(one.counters.acceptance_rate),
        _milliseconds(one.token_s),
        _milliseconds(one.round_s),
        *_first(one.prompts.value, one.n_prompt),
    )


def _first(times: PromptTimes | None, n_tokens: int) -> tuple[str, str]:
    if times is None:
        return _NONE, _NONE
    return seconds_text(times.off.seconds(n_tokens)), seconds_text(times.on_s(n_tokens))


def _depth_legend(limit: int | None) -> str:
    legend = (
        "depth: tokens of the prompt, 0 for the prompts as they are. interval: that of all "
        "prompts, wider by the error of the few at depth. rate: accepted of drafted tokens. token: "
        "of the target alone. first: until the first token."
    )
    stops = "" if limit is None else f" It stops paying at a depth of about {limit:,} tokens."
    return f"{legend}{stops}"


def _milliseconds(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{1000 * seconds:.3g} ms"


_OF_SLOTS = (
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
    return [drawn(table(_OF_SLOTS, map(_slot_row, results))), "", wrapped(by_slots(results))]


def speedup_cells(speedup: Speedup | None) -> tuple[str, str]:
    """A speedup, marked where it is noise, and its interval."""
    if speedup is None:
        return _NONE, _NONE
    mark = " !" if speedup.is_noise else ""
    return f"{factor(speedup.capped.estimate, 3)}{mark}", bounds(speedup)


def bounds(speedup: Speedup) -> str:
    """The interval of a speedup, such as ``1.250 to 1.310``."""
    interval = speedup.capped.interval
    return _NONE if interval is None else " to ".join(factor(end, 3) for end in interval)


def _slot_row(one: SlotResult) -> tuple[str, ...]:
    found, (off, on) = one.found, one.all_tokens_per_s
    return (
        str(one.n_slots),
        rate_text(found.baseline_tokens_per_s),
        rate_text(off),
        rate_text(found.speculative_tokens_per_s),
        rate_text(on),
        *speedup_cells(found.speedup),
        percent_text(found.counters.acceptance_rate, 1),
    )


def machine_lines(machines: Sequence[StoredStudy]) -> list[str]:
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
    return [drawn(table(columns, _machine_rows(machines))), ""]


def _machine_rows(machines: Sequence[StoredStudy]) -> Iterator[tuple[str, ...]]:
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
