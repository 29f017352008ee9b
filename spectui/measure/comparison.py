"""One setting against the target alone: by prompt and in sum."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from spectui.documents import Json, Known, ending, or_reason
from spectui.engine.events import GenerationResult
from spectui.errors import (
    BadInputError,
    CancelledError,
    HopelessError,
    ServerError,
)
from spectui.measure.lossless import LosslessCheck, check_lossless, lossless_document
from spectui.measure.measurer import (
    NO_ROUNDS,
    NOTHING_DRAFTED,
    Measurer,
    Pair,
    measurements,
    steady,
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
_NO_DETAIL = "llama-server does not tell single rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of one setting on one workload."""

    workload: Workload
    speculation: Speculation
    pairs: tuple[Pair, ...]
    """The prompts, each decoded without and with speculation."""
    speedup: Speedup
    lossless: LosslessCheck | None
    """None with temperature: rounding may then move a sample without a margin to judge it by.
    None also if it ended early."""
    disturbance: DisturbanceSummary
    """Load of the rest of the machine meanwhile."""
    ended: BaseException | None = field(default=None, compare=False)
    """Reason for an early end."""

    @property
    def baseline(self) -> list[GenerationResult]:
        """Results of the target alone."""
        return [pair.baseline for pair in self.pairs]

    @property
    def speculative(self) -> list[GenerationResult]:
        """Results of target and drafter together."""
        return [pair.speculative for pair in self.pairs]

    @property
    def counters(self) -> Counters:
        """Counters of the speculative runs."""
        return total_counters(self.speculative)

    def requests(self, shapes: Sequence[RequestShape]) -> Known[tuple[Request, ...]]:
        """Whole requests of ``shapes``; of what the prompts are where there is none."""
        times = prompt_times(self.pairs, reads=self.speculation.model is not None)
        return requests_of(shapes or (usual_shape(self.workload),), self.speedup, self.pairs, times)

    def document(self) -> Json:
        """Results in documents."""
        return {
            "baseline": throughput_document(self.baseline),
            "speculative": {
                **throughput_document(self.speculative),
                **counters_document(self.counters),
            },
            **self.speedup.document(),
            **lossless_document(self.lossless),
            "disturbance": self.disturbance.document(),
            **ending(self.ended),
            "prompts": [pair.document() for pair in self.pairs],
        }


def compare(
    measurer: Measurer,
    speculation: Speculation,
    *,
    repeats: int,
    on_pair: Callable[[Pair], None],
    watch: MachineWatch,
) -> Comparison:
    """Measure ``speculation`` against the target alone on the loaded models.

    An interrupt after the first prompt, or a server that fails, ends it with what was measured.

    Args:
        measurer: decodes its workload.
        speculation: the setting.
        repeats: how often every prompt is measured.
        on_pair: told of every prompt.
        watch: watches the machine meanwhile; it is started and closed here.

    Raises:
        BadInputError: no prompt made the target decode anything.
        HopelessError: a server does not run as it was started.
    """
    pairs, lossless = list[Pair](), None
    ended: BaseException | None = None
    with watch:
        watch.start()
        try:
            for pair in _decoded(measurer, speculation, repeats):
                pairs.append(pair)
                on_pair(pair)
            if measurer.workload.sampling.is_greedy:
                lossless = check_lossless(measurer.engine, pairs)
        except (KeyboardInterrupt, CancelledError, ServerError) as error:
            if isinstance(error, HopelessError) or not measurements(pairs):
                raise
            ended = error
        disturbance = watch.summary()
    if not measurements(pairs):
        raise nothing_decoded()
    found = steady(pairs)
    return Comparison(
        workload=measurer.workload,
        speculation=speculation,
        pairs=found,
        speedup=paired_speedup(measurements(found)),
        lossless=lossless,
        disturbance=disturbance,
        ended=ended,
    )


def _decoded(measurer: Measurer, speculation: Speculation, repeats: int) -> Iterator[Pair]:
    measurer.warm_up(None)
    measurer.warm_up(speculation)
    yield from measurer.pairs(measurer.workload.items, speculation, repeats)


def nothing_decoded() -> BadInputError:
    """The error of a measurement in which no answer went beyond its first token."""
    return BadInputError(
        "the model ended every answer at once, so there is no decoding to measure; use other "
        "prompts or --ignore-eos"
    )


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
