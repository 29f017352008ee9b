"""``bench``: one configuration against the baseline."""

from collections.abc import Callable
from dataclasses import dataclass, field

from spectui.engine.events import GenerationResult
from spectui.errors import BadInputError, CancelledError, HopelessError, ServerError
from spectui.measure.backend import Backend
from spectui.measure.lossless import LosslessCheck, check_lossless
from spectui.measure.measurer import Measurer, Pair, measurements, throughput, total_counters
from spectui.measure.statistics import Speedup, paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
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


def compare(
    engine: Backend,
    workload: Workload,
    measurer: Measurer,
    speculation: Speculation,
    *,
    repeats: int,
    on_pair: Callable[[Pair], None],
) -> Comparison:
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
    return Comparison(
        pairs=tuple(pairs),
        speedup=paired_speedup(measured),
        lossless=lossless,
        ended=ended,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One continued prompt."""

    item: WorkItem
    result: GenerationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneResult:
    """Measurement of the target alone."""

    done: tuple[Done, ...]
    ended: BaseException | None = field(default=None, compare=False)
    """Reason for an early end."""

    @property
    def tokens_per_s(self) -> float | None:
        """Throughput over all prompts together."""
        return throughput([one.result for one in self.done])

    @property
    def counters(self) -> Counters:
        """Counters of all prompts together."""
        return total_counters([one.result for one in self.done])


def run_alone(
    workload: Workload, measurer: Measurer, *, repeats: int, on_done: Callable[[Done], None]
) -> AloneResult:
    """Continue every prompt ``repeats`` times.

    An interrupt after the first prompt, or a server that fails, ends it early, with what was
    measured.

    Raises:
        BadInputError: no prompt made it decode anything.
    """
    done: list[Done] = []
    ended: BaseException | None = None
    try:
        for item in workload.items * repeats:
            done.append(Done(item=item, result=measurer.decode(item, None)))
            on_done(done[-1])
    except (KeyboardInterrupt, CancelledError, ServerError) as error:
        if not done:
            raise
        ended = error
    if ended is None and not any(one.result.n_decoded for one in done):
        raise BadInputError(
            "the model ended every answer at once, so there is no decoding to measure; "
            "use other prompts or --ignore-eos"
        )
    return AloneResult(done=tuple(done), ended=ended)
