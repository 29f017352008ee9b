"""What ``spectui bench`` prints for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from spectui.cli.drawing import drawn, wrapped
from spectui.tune.bench import BenchResult
from spectui.tune.lossless import UNTOLD
from spectui.tune.statistics import Speedup
from spectui.tune.workload import Workload

_NOTHING_DRAFTED = (
    "nothing was drafted, so that every round was the target's own, and the speedup is the "
    "machine's noise"
)

_LOSSLESS = {True: "yes", False: "NO", None: "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Benched:
    """What was decoded, and what came of it."""

    workload: Workload
    result: BenchResult


def table(found: Sequence[Benched]) -> str:
    """One row per temperature and length of prompt."""
    columns = Table(box=None, header_style="bold")
    for heading in (
        "temp",
        "prompt",
        "off",
        "on",
        "speedup",
        "95 % interval",
        "rate",
        "per round",
        "lossless",
    ):
        columns.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        columns.add_row(*_row(one))
    return f"{drawn(columns)}\n\n" + wrapped(
        "prompt: tokens, the median. off, on: tokens/s. rate: accepted of drafted tokens. per "
        "round: tokens. lossless: whether the output is the target's own, but for rounding; "
        "compared for complete runs of greedy output only." + _of_noise(found)
    )


def _of_noise(found: Sequence[Benched]) -> str:
    if all(one.result.counters.n_drafted for one in found):
        return ""
    return f" Where rate is –, {_NOTHING_DRAFTED}."


def _row(one: Benched) -> tuple[str, ...]:
    result, counters = one.result, one.result.counters
    rate, length = counters.acceptance_rate, counters.tokens_per_round
    return (
        f"{one.workload.sampling.temp:g}",
        f"{median(len(item.tokens) for item in one.workload.items):.0f}",
        f"{result.baseline_tokens_per_s or 0:.2f}",
        f"{result.speculative_tokens_per_s or 0:.2f}",
        f"{result.speedup.estimate:.3f}",
        _bounds(result.speedup),
        "–" if rate is None else f"{rate:.1%}",
        "–" if length is None else f"{length:.2f}",
        _LOSSLESS[None if result.lossless is None else result.lossless.lossless],
    )


def _bounds(speedup: Speedup) -> str:
    if speedup.low is None or speedup.high is None:
        return "–"
    return f"{speedup.low:.3f} to {speedup.high:.3f}"


def summary(result: BenchResult, alteration: str | None) -> str:
    """One setting on one workload; ``alteration`` says what its output is not that of."""
    counters, speedup = result.counters, result.speedup
    rate, length = counters.acceptance_rate, counters.tokens_per_round
    acceptance = (
        f"{'–' if rate is None else f'{rate:.1%}'} "
        f"({counters.n_accepted} of {counters.n_drafted}), "
        f"{'–' if length is None else f'{length:.2f}'} tokens per round"
    )
    lines = [
        f"off         {result.baseline_tokens_per_s or 0:.2f} tokens/s",
        f"on          {result.speculative_tokens_per_s or 0:.2f} tokens/s",
        f"speedup     {speedup.estimate:.3f}× {_interval(speedup)}",
        f"acceptance  {acceptance}",
        f"lossless    {_lossless(result)}",
    ]
    if not counters.n_drafted:
        lines.append(f"NOTE: {_NOTHING_DRAFTED}.")
    if alteration is not None:
        lines.append(f"NOTE: {alteration}.")
    return "\n".join(lines)


def _interval(speedup: Speedup) -> str:
    if speedup.low is None or speedup.high is None:
        return f"({speedup.interval_reason})"
    return f"(95 % interval {speedup.low:.3f} to {speedup.high:.3f}, {speedup.n_prompts} prompts)"


def _lossless(result: BenchResult) -> str:
    check = result.lossless
    if check is None:
        return "not checked: only complete runs of greedy output are compared"
    if check.divergence is None:
        return "yes, every output equals the target's own"
    d = check.divergence
    where = f"prompt {d.prompt_id}, token {d.position}"
    if d.margin is None or d.noise is None:
        return f"the outputs part ({where}); {UNTOLD}"
    where += f": margin {d.margin:.2g}, noise {d.noise:.2g}"
    return f"yes, but for rounding ({where})" if check.lossless else f"NO ({where})"
