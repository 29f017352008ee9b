"""``bench``: one configuration against the baseline."""

from collections.abc import Callable
from dataclasses import dataclass, field

from spectui.errors import BadInputError, CancelledError, HopelessError, ServerError
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.tune.decoding import Decoding
from spectui.tune.lossless import LosslessCheck, check_lossless
from spectui.tune.measurement import Measurer, Pair, measurements, throughput, total_counters
from spectui.tune.statistics import Speedup, paired_speedup
from spectui.tune.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """Result of one configuration, by prompt and in sum."""

    pairs: tuple[Pair, ...]
    speedup: Speedup
    lossless: LosslessCheck | None
    """None with temperature: rounding may then move a sample without a margin to judge it by.
    None also if it ended early."""
    ended: BaseException | None = field(default=None, compare=False)
    """Reason for an early end."""

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Throughput of the target alone."""
        return throughput([pair.baseline for pair in self.pairs])

    @property
    def speculative_tokens_per_s(self) -> float | None:
        """Throughput of target and draft together."""
        return throughput([pair.speculative for pair in self.pairs])

    @property
    def counters(self) -> Counters:
        """Counters of the speculative runs."""
        return total_counters([pair.speculative for pair in self.pairs])

    @property
    def c(self) -> float | None:
        """One draft step over one single-token step of the target; None without a draft model."""
        baseline = total_counters([pair.baseline for pair in self.pairs])
        step_s = self.counters.draft_step_s
        if step_s is None or not baseline.n_rounds:
            return None
        return step_s / (baseline.times.verify_s / baseline.n_rounds)


def run_bench(
    engine: Decoding,
    workload: Workload,
    measurer: Measurer,
    speculation: Speculation,
    *,
    repeats: int,
    on_pair: Callable[[Pair], None],
) -> BenchResult:
    """Measure ``speculation`` against the target alone on the loaded pair.

    An interrupt after the first prompt, or a server that fails, ends it early, with what was
    measured.

    Raises:
        BadInputError: no prompt made the target decode anything.
        HopelessError: a server does not run as it was started.
    """
    measurer.warm_up(None)
    measurer.warm_up(speculation)
    pairs: list[Pair] = []
    lossless = None
    ended: BaseException | None = None
    try:
        for pair in measurer.pairs(workload.items, speculation, repeats):
            pairs.append(pair)
            on_pair(pair)
        if workload.sampling.temp <= 0:
            lossless = check_lossless(engine, pairs)
    except (KeyboardInterrupt, CancelledError, ServerError) as error:
        if not measurements(pairs) or isinstance(error, HopelessError):
            raise
        ended = error
    measured = measurements(pairs)
    if not measured:
        raise BadInputError(
            "the model ended every answer at once, so there is no decoding to measure; "
            "use other prompts or --ignore-eos"
        )
    return BenchResult(
        pairs=tuple(pairs),
        speedup=paired_speedup(measured),
        lossless=lossless,
        ended=ended,
    )
