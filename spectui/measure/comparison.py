"""One setting against the target alone, or a server as it stands: by prompt and in sum."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from spectui.documents import Json, Known, ending, known, or_reason
from spectui.engine.events import GenerationResult
from spectui.errors import (
    BadInputError,
    CancelledError,
    HopelessError,
    ServerError,
)
from spectui.measure.lossless import LosslessCheck, check_lossless, lossless_document
from spectui.measure.measurer import (
    NO_BASELINE,
    NO_ROUNDS,
    NOTHING_DRAFTED,
    Measurer,
    Pair,
    Run,
    measurements,
    steady,
    throughput,
    throughput_document,
    total_counters,
)
from spectui.measure.reading import prompt_times
from spectui.measure.requests import Request, requests_of, usual_shape
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import Workload
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.monitor.watch import MachineWatch
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Detail

NO_MODEL = "n-gram drafters need no draft model"
UNWATCHED: Known[DisturbanceSummary] = Known(None, "the machine was not watched")
_NO_DETAIL = "llama-server does not tell single rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of one setting on one workload."""

    workload: Workload
    speculation: Speculation | None
    """None where nothing was compared."""
    runs: tuple[Run, ...]
    """All that were made: pairs, or single ones where nothing was compared."""
    speedup: Speedup | None
    """None where nothing was compared."""
    lossless: LosslessCheck | None
    """None with temperature: rounding may then move a sample without a margin to judge it by.
    None also if it ended early."""
    disturbance: Known[DisturbanceSummary] = UNWATCHED
    """Load of the rest of the machine meanwhile."""
    ended: BaseException | None = field(default=None, compare=False)
    """Reason for an early end."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The prompts that were decoded without speculation as well."""
        return pairs_of(self.runs)

    @property
    def baseline(self) -> list[GenerationResult]:
        """Results of the target alone."""
        return [pair.baseline for pair in self.pairs]

    @property
    def speculative(self) -> list[GenerationResult]:
        """Results of target and drafter together."""
        return [run.speculative for run in self.runs]

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Throughput of the target alone."""
        return throughput(self.baseline)

    @property
    def speculative_tokens_per_s(self) -> float | None:
        """Throughput of target and drafter together."""
        return throughput(self.speculative)

    @property
    def counters(self) -> Counters:
        """Counters of the speculative runs."""
        return total_counters(self.speculative)

    @property
    def c(self) -> float | None:
        """One draft step over one single-token step of the target; None without a draft model."""
        baseline = total_counters(self.baseline)
        step_s = self.counters.draft_step_s
        if step_s is None or not baseline.n_rounds:
            return None
        return step_s / (baseline.times.verify_s / baseline.n_rounds)

    def requests(
        self, shapes: Sequence[RequestShape], alike: Sequence[Pair] = ()
    ) -> Known[tuple[Request, ...]]:
        """Whole requests of ``shapes``; of what the prompts are where there is none.

        Args:
            shapes: lengths of the requests.
            alike: pairs with the same models, which may have evaluated the prompts before.
        """
        if self.speculation is None:
            return Known(None, NO_BASELINE)
        reads = self.speculation.model is not None
        times = prompt_times(self.pairs, alike=alike, reads=reads)
        return requests_of(shapes or (usual_shape(self.workload),), self.speedup, self.pairs, times)

    def document(self) -> Json:
        """Results in documents."""
        off = throughput_document(self.baseline) if self.baseline else None
        on = {**throughput_document(self.speculative), **counters_document(self.counters)}
        if self.speedup is None:
            compared: Json = {"n_compared": 0, "divergence": None}
            for name in ("speedup", "speedup_ci95", "lossless"):
                compared |= or_reason(name, None, NO_BASELINE)
        else:
            on |= or_reason("c", self.c, self._no_c())
            compared = {
                **self.speedup.document(),
                "n_slow_rounds": sum(pair.n_slow for pair in self.pairs),
                **lossless_document(self.lossless),
            }
        return {
            **or_reason("baseline", off, NO_BASELINE),
            "speculative": on,
            **compared,
            **known("disturbance", self.disturbance),
            **ending(self.ended),
            "prompts": [run.document() for run in self.runs],
        }

    def _no_c(self) -> str:
        if self.counters.detail is not Detail.ROUNDS:
            return _NO_DETAIL
        return NOTHING_DRAFTED if self.speculation and self.speculation.model else NO_MODEL


def pairs_of(runs: Sequence[Run]) -> tuple[Pair, ...]:
    """The runs that have one of the target alone to be compared with."""
    return tuple(run for run in runs if isinstance(run, Pair))


def compare(
    measurer: Measurer,
    speculation: Speculation | None,
    *,
    repeats: int,
    on_run: Callable[[Run], None],
    watch: Known[MachineWatch],
    has_time: Callable[[], bool] = lambda: True,
) -> Comparison:
    """Measure ``speculation`` against the target alone on the loaded models.

    An interrupt after the first prompt, or a server that fails, ends it early, with what was
    measured.

    Args:
        measurer: decodes its workload.
        speculation: the setting; None where there is nothing to compare: every prompt is decoded
            as the backend stands.
        repeats: how often every prompt is measured.
        on_run: told of every prompt.
        watch: watches the machine that decodes; it is started and closed here.
        has_time: asked after every prompt whether there is time for another one.

    Raises:
        BadInputError: no prompt made the target decode anything.
        HopelessError: a server does not run as it was started.
    """
    runs, ended, lossless = list[Run](), None, None
    with watch.value or nullcontext():
        if watch.value is not None:
            watch.value.start()
        try:
            for run in _decoded(measurer, speculation, repeats):
                runs.append(run)
                on_run(run)
                if not has_time():
                    break
            if measurer.workload.sampling.is_greedy and speculation is not None:
                lossless = check_lossless(measurer.engine, pairs_of(runs))
        except (KeyboardInterrupt, CancelledError, ServerError) as error:
            if isinstance(error, HopelessError) or not any(run.has_decoded for run in runs):
                raise
            ended = error
        seen = None if watch.value is None else watch.value.summary()
    if not any(run.has_decoded for run in runs):
        raise nothing_decoded()
    pairs = steady(pairs_of(runs))
    measured = measurements(pairs)
    return Comparison(
        workload=measurer.workload,
        speculation=speculation,
        runs=pairs or tuple(runs),
        speedup=paired_speedup(measured) if measured else None,
        lossless=lossless,
        disturbance=Known(seen, watch.reason),
        ended=ended,
    )


def nothing_decoded() -> BadInputError:
    """The error of a measurement in which no answer went beyond its first token."""
    return BadInputError(
        "the model ended every answer at once, so there is no decoding to measure; use other "
        "prompts or --ignore-eos"
    )


def _decoded(measurer: Measurer, speculation: Speculation | None, repeats: int) -> Iterator[Run]:
    """Runs of every prompt; single ones where there is no setting to compare."""
    items = measurer.workload.items
    if speculation is None:
        yield from measurer.alone(items, repeats)
        return
    measurer.warm_up(None)
    measurer.warm_up(speculation)
    yield from measurer.pairs(items, speculation, repeats)


def counters_document(counters: Counters) -> Json:
    """Counts over all rounds, as far as they are known."""
    is_seen = counters.detail is Detail.ROUNDS
    known = counters.known_rounds
    no_length = "no round was run" if known is not None else NO_ROUNDS
    accepted, reached = counters.accepted_per_position, counters.reached_per_position
    times = {
        name: getattr(counters.times, f"{name}_s")
        for name in ("draft", "verify", "sample", "rollback", "other")
    }
    return {
        **or_reason("n_rounds", known, NO_ROUNDS),
        "n_drafted": counters.n_drafted,
        "n_accepted": counters.n_accepted,
        **or_reason("acceptance_rate", counters.acceptance_rate, NOTHING_DRAFTED),
        **or_reason("mean_accepted_length", counters.mean_accepted_length, no_length),
        **or_reason("accepted_per_position", list(accepted) if is_seen else None, _NO_DETAIL),
        **or_reason("reached_per_position", list(reached) if is_seen else None, _NO_DETAIL),
        **or_reason("alpha", counters.alpha, NOTHING_DRAFTED if is_seen else _NO_DETAIL),
        **or_reason("time_s", times if is_seen else None, _NO_DETAIL),
    }
