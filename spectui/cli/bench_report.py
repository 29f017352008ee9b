"""Text output of ``spectui bench``."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from spectui.cli.drawing import drawn, wrapped
from spectui.format import counted, factor, percent_text
from spectui.measure.comparison import Comparison
from spectui.measure.lossless import UNTOLD
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import NOISE, doubt
from spectui.measure.workload import Workload
from spectui.speculative.counters import Counters


def _nothing_drafted(cause: str) -> str:
    return (
        f"nothing was drafted, so that every round was the target's own: a gain is {cause}, and a "
        "loss as well, but for what asking the drafter costs"
    )


_LOSSLESS = {True: "yes", False: "NO", None: "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Reasons why measured numbers are noise or incomplete."""

    cause: str = NOISE
    """Cause of a speedup that speculation cannot have given."""
    untold: str | None = None
    """Reason why the number of drafted tokens is unknown; None if it is known."""


_PLAIN = Telling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Benched:
    """A workload and its benchmark result."""

    workload: Workload
    result: Comparison


def table(found: Sequence[Benched], telling: Telling = _PLAIN) -> str:
    """Table with one row per temperature and prompt length."""
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
        "compared for complete runs of greedy output only." + _of_noise(found, telling)
    )


def _of_noise(found: Sequence[Benched], telling: Telling) -> str:
    if telling.untold is not None:
        return f" rate –: {telling.untold}."
    told, cause = [], telling.cause
    if not all(one.result.counters.n_drafted for one in found):
        told.append(f" Where rate is –, {_nothing_drafted(cause)}.")
    if any(one.result.speedup.is_noise for one in found):
        told.append(f" !: more than the tokens that were accepted can give; this is {cause}.")
    return "".join(told)


def _row(one: Benched) -> tuple[str, ...]:
    result, counters = one.result, one.result.counters
    rate, length = counters.acceptance_rate, counters.tokens_per_round
    return (
        f"{one.workload.sampling.temp:g}",
        f"{median(len(item.tokens) for item in one.workload.items):.0f}",
        f"{result.baseline_tokens_per_s or 0:.2f}",
        f"{result.speculative_tokens_per_s or 0:.2f}",
        f"{factor(result.speedup.estimate, 3)}{' !' if result.speedup.is_noise else ''}",
        _bounds(result.speedup),
        percent_text(rate, 1),
        "–" if length is None else f"{length:.2f}",
        _LOSSLESS[None if result.lossless is None else result.lossless.lossless],
    )


def _bounds(speedup: Speedup) -> str:
    if speedup.low is None or speedup.high is None:
        return "–"
    return f"{factor(speedup.low, 3)} to {factor(speedup.high, 3)}"


def summary(result: Comparison, alteration: str | None, telling: Telling = _PLAIN) -> str:
    """Summary of one setting on one workload; ``alteration`` says how the target was altered."""
    speedup = result.speedup
    lines = [
        f"off         {result.baseline_tokens_per_s or 0:.2f} tokens/s",
        f"on          {result.speculative_tokens_per_s or 0:.2f} tokens/s",
        f"speedup     {factor(speedup.estimate, 3)}× {_interval(speedup)}",
        f"acceptance  {telling.untold or _acceptance(result.counters)}",
        f"lossless    {_lossless(result)}",
    ]
    because = _doubt(result, telling)
    if because is not None:
        lines.append(f"NOTE: {because}.")
    if alteration is not None:
        lines.append(f"NOTE: {alteration}.")
    return "\n".join(lines)


def _acceptance(counters: Counters) -> str:
    rate, length = counters.acceptance_rate, counters.tokens_per_round
    return (
        f"{percent_text(rate, 1)} "
        f"({counters.n_accepted} of {counters.n_drafted}), "
        f"{'–' if length is None else f'{length:.2f}'} tokens per round"
    )


def _doubt(result: Comparison, telling: Telling) -> str | None:
    if telling.untold is not None:
        return None
    if not result.counters.n_drafted:
        return _nothing_drafted(telling.cause)
    return doubt(result.speedup, telling.cause)


def _interval(speedup: Speedup) -> str:
    if speedup.low is None or speedup.high is None:
        return f"({speedup.interval_reason})"
    return f"(95 % interval {_bounds(speedup)}, {speedup.n_prompts} prompts)"


def _lossless(result: Comparison) -> str:
    check = result.lossless
    if check is None:
        return "not checked: only complete runs of greedy output are compared"
    if check.divergence is None:
        return "yes, every output equals the target's own"
    d = check.divergence
    where, others = f"prompt {d.prompt_id}, token {d.position}", _others(check.n_different - 1)
    if d.margin is None or d.noise is None:
        return f"the outputs part ({where}{others}); {UNTOLD}"
    where += f": margin {d.margin:.2g}, noise {d.noise:.2g}{others}"
    return f"yes, but for rounding ({where})" if check.lossless else f"NO ({where})"


def _others(n: int) -> str:
    return f"; {counted(n, 'prompt')} more" if n > 0 else ""
