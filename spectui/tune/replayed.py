"""All settings replayed on a trace, as a page and as a document."""

from collections.abc import Sequence
from pathlib import Path

from spectui.documents import Json, fields_of, head
from spectui.format import counted, percent_text, times_text
from spectui.page import Page, Paragraph, Table, Words
from spectui.trace.replay import Total
from spectui.tune.forecast import Forecast, best_of_each_length
from spectui.tune.recorded import Recorded

_NO_COSTS = "the trace holds no costs: they were left out, or nothing was drafted to measure"


def replayed_document(totals: Sequence[Total], path: Path) -> Json:
    """``spectui.replay/1``: every setting; ``path`` is the trace's."""
    return {
        **head("replay"),
        "trace": str(path),
        "configs": [_config(total) for total in totals],
    }


def replayed_page(recorded: Recorded, totals: Sequence[Total]) -> Page:
    """The best setting of each drafter and length, and what an adaptive length could add."""
    n_prompts = counted(len(recorded.recordings), "prompt")
    counts = f"{len(totals):,} settings replayed on {n_prompts}; counts are exact"
    forecasts = recorded.forecasts(totals)
    best = best_of_each_length(forecasts)
    if not best:
        why = "nothing was drafted on these prompts" if forecasts else _NO_COSTS
        return [Paragraph(f"{counts}: --json has them. No speedup is predicted: {why}.")]
    lines = [f"{counts}, and --json has all.", _prediction(best[0])]
    adaptive = recorded.adaptive(forecasts).value
    if adaptive is not None and adaptive.draft == best[0].arm.draft:
        lines.append(adaptive.sentence)
    return [forecasts_table(best), "", *map(Paragraph, lines)]


def _config(total: Total) -> Json:
    return {
        "draft": total.draft,
        **total.speculation.document(),
        **fields_of(total, "", "n_rounds", "n_drafted", "n_accepted", "n_rejections"),
        **fields_of(total, "nothing was drafted", "acceptance_rate"),
        **fields_of(total, "no round was run", "mean_accepted_length"),
        **fields_of(total, _NO_COSTS, "tokens_per_s", "speedup"),
    }


def forecasts_table(best: Sequence[Forecast]) -> Table:
    """Forecasts with their counts."""
    rows = (
        (
            one.arm.drafter,
            one.arm.label.removeprefix(f"{one.arm.drafter}: "),
            str(one.n_drafted),
            str(one.n_accepted),
            percent_text(one.acceptance_rate),
            times_text(one.speedup),
        )
        for one in best
    )
    columns = (Words("drafter"), Words("best setting"), "drafted", "accepted", "rate", "forecast")
    return Table(columns, list(rows))


def _prediction(best: Forecast) -> str:
    gain = f"{times_text(best.speedup)} the target alone"
    if best.speedup > 1:
        return f"Predicted best: {best.arm.label}, {gain}; spectui tune measures it."
    return f"Predicted best: off. The nearest is {best.arm.label}, {gain}."
