"""The cost model as text: tables with curves, and the predictions from them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import bar, wrapped
from spectui.format import percent_text
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.trace.costs import Costs
from spectui.trace.grid import Grid
from spectui.trace.record import Recording
from spectui.trace.replay import Total, replay_trace

_NOTHING_S = 5e-5
"""Seconds per token below which decoding again counts as free."""
_TOKENS = 1000
"""Tokens of context over which growth is reported."""
_ALL = 24
"""Longest draft up to which every length is drawn."""
_STEP = 8
"""Step between the lengths that are drawn beyond that."""


def costs_view(
    costs: Mapping[str, Costs], recordings: Sequence[Recording]
) -> Iterator[RenderableType]:
    """Yield tables of the cost of rounds for each draft, and the throughput that follows."""
    for draft, measured in costs.items():
        yield Text(_headline(draft, measured), style="bold")
        yield _curves(measured)
        yield Text(wrapped(_small_costs(measured)))
        yield from (Text(wrapped(line), style="yellow") for line in cliff_warnings(measured))
        if all(draft in recording.chains for recording in recordings):
            yield Text("")
            yield _predictions(draft, measured, recordings)
            yield from _beyond(draft, measured, recordings)
        yield Text("")


def _headline(draft: str, costs: Costs) -> str:
    drafting = "it drafts without a model"
    if costs.step_s:
        c = costs.step_s / costs.single_s
        drafting = f"a draft step d(1) takes {_ms(costs.step_s)} ms, c = {c:.3f}"
    return f"{draft}: {drafting}"


def _curves(costs: Costs) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in ("n", "V(n) ms", "D(n) ms", "V(n)/V(1)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column()
    one = costs.single_s
    rows = zip(costs.lengths, costs.verify_s, costs.again_s, strict=True)
    for length, verify_s, again_s in rows:
        drawn = bar(verify_s, costs.verify_s[-1])
        ratio = f"{verify_s / one:.2f}"
        table.add_row(str(length + 1), _ms(verify_s), _ms(again_s), ratio, drawn)
    return table


def _small_costs(costs: Costs) -> str:
    return (
        f"The target alone takes {_ms(costs.off_s)} ms per token. A round also takes "
        f"{_ms(costs.token_s)} ms per token for sampling, {_rollback(costs)}, "
        f"{_ms(costs.fixed_s)} ms for the rest. At {costs.n_past:.0f} tokens of "
        f"context; {_growth(costs)}. {_unsteady(costs)}"
    )


def _rollback(costs: Costs) -> str:
    more = f"{_ms(costs.rollback_s)} ms more if a draft is rejected"
    if costs.mark_s:
        more = f"{_ms(costs.mark_s)} ms more for saving the state if it drafts, {more}"
    if costs.rollback_token_s < _NOTHING_S:
        return more
    return f"{more} and {_ms(costs.rollback_token_s)} ms per token that was accepted before"


def _growth(costs: Costs) -> str:
    deeper = costs.at(costs.n_past + _TOKENS)
    one = deeper.verify_s[0] / costs.verify_s[0] - 1
    most = deeper.verify_s[-1] / costs.verify_s[-1] - 1
    if not (one or most):
        return "no growth with depth was seen"
    return (
        f"with {_TOKENS} more, decodes of {costs.lengths[0] + 1} take {percent_text(one)} longer, "
        f"of {costs.lengths[-1] + 1} {percent_text(most)}"
    )


def _unsteady(costs: Costs) -> str:
    if costs.spread is None:
        return (
            "How steady the machine was is not known: too few generations drafted the same lengths."
        )
    return f"The machine was unsteady by {percent_text(costs.spread)}."


def cliff_warnings(costs: Costs) -> Iterator[str]:
    """Yield a line for each length from which on a batch suddenly costs more."""
    curve = tuple(zip(costs.lengths, costs.verify_s, strict=True))
    for (n, near), (m, far) in pairwise(curve):
        if m in costs.cliffs:
            yield (
                f"WARNING: verifying has a cliff: {m + 1} tokens take {far / near:.1f} times as "
                f"long as {n + 1}; keep draft_max below {m}."
            )


def _predictions(draft: str, costs: Costs, recordings: Sequence[Recording]) -> Table:
    depth = min(recording.chains[draft].depth for recording in recordings)
    longest = tuple(n for n in range(1, depth + 1) if n <= _ALL or n % _STEP == 0)
    totals = replay_trace(recordings, draft, Grid(draft_max=longest), costs)
    table = Table(box=None, header_style="bold")
    for heading in ("draft_max", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    others = [f"{one.name} {one.default:g}" for one in numbers_of(DraftSimple)[1:]]
    table.add_column(f"predicted, with {' and '.join(others)}")
    rates = [("off", _off_rate(totals))]
    rates += [(str(total.model.draft_max), total.tokens_per_s or 0.0) for total in totals]
    largest = max(rate for _, rate in rates)
    for name, rate in rates:
        style = "bold green" if rate == largest else "dim" if name == "off" else ""
        table.add_row(name, f"{rate:.2f}", bar(rate, largest), style=style)
    return table


def _beyond(draft: str, costs: Costs, recordings: Sequence[Recording]) -> Iterator[Text]:
    """Note where the predictions leave the measured range."""
    longest = min(recording.chains[draft].longest for recording in recordings)
    if longest > costs.lengths[-1]:
        yield Text(
            wrapped(
                f"Above draft_max {costs.lengths[-1]} nothing was measured: what longer batches "
                "cost is drawn on along a line."
            )
        )


def _off_rate(totals: Sequence[Total]) -> float:
    first = totals[0]
    return first.n_decoded / first.off_s if first.off_s else 0.0


def _ms(seconds: float) -> str:
    milliseconds = 1000 * seconds
    digits = 1 if milliseconds >= 1 else 2
    return f"{milliseconds:.{digits}f}"
