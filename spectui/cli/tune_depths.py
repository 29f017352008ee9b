"""Depths in the report of ``spectui tune``."""

from collections.abc import Sequence

from rich.table import Table

from spectui.cli.drawing import drawn, sentence, table, wrapped
from spectui.format import gain_percent, percent_text, seconds_text
from spectui.measure.reading import PromptTimes
from spectui.tune.depths import Depth, Depths

_HEADINGS = ("depth", "gain", "interval", "rate", "token", "round", "first off", "first on")
_NONE = "–"


def depth_lines(depths: Depths) -> list[str]:
    """A table of what was measured at depth, and what follows; nothing if nothing was."""
    if not depths.found and not depths.left_out:
        return []
    lines = [""]
    if depths.found:
        lines += [drawn(_table(depths.found)), wrapped(_legend(depths.limit))]
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


def _table(found: Sequence[Depth]) -> Table:
    return table(_HEADINGS, map(_row, found))


def _row(one: Depth) -> tuple[str, ...]:
    told = one.speedup.capped
    return (
        f"{one.n_tokens:,}",
        _gain(told.estimate),
        _NONE if told.interval is None else " to ".join(map(_gain, told.interval)),
        percent_text(one.counters.acceptance_rate),
        _milliseconds(one.token_s),
        _milliseconds(one.round_s),
        *_first(one.prompts.value, one.n_prompt),
    )


def _first(times: PromptTimes | None, n_tokens: int) -> tuple[str, str]:
    if times is None:
        return _NONE, _NONE
    return seconds_text(times.off.seconds(n_tokens)), seconds_text(times.on_s(n_tokens))


def _legend(limit: int | None) -> str:
    legend = (
        "depth: tokens of the prompt, 0 for the prompts as they are. interval: that of all "
        "prompts, wider by the error of the few at depth. rate: accepted of drafted tokens. token: "
        "of the target alone. first: until the first token."
    )
    stops = "" if limit is None else f" It stops paying at a depth of about {limit:,} tokens."
    return f"{legend}{stops}"


def _gain(speedup: float) -> str:
    return gain_percent(100 * (speedup - 1), 0)


def _milliseconds(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{1000 * seconds:.3g} ms"
