"""Lines of ``tune`` on the target's place: the command's, the best, the best with a draft."""

from collections.abc import Iterator

from spectui.cli.drawing import Words, drawn, table, wrapped
from spectui.format import counted, rate_text
from spectui.measure.speedup import Speedup, gain_text
from spectui.measure.statistics import product
from spectui.tune.document import Tuned
from spectui.tune.places import Placing, text_of


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
    rows = table((Words(), "tokens/s", "over your command"), _rows(found, placing, own))
    return ["", drawn(rows), wrapped(f"{told}.")]


def _rows(found: Tuned, placing: Placing, own: str) -> Iterator[tuple[str, str, str]]:
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
