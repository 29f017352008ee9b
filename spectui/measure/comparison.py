"""One setting against the target alone: by prompt and in sum; its document and its page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from spectui.documents import Json, Known, ending, fields_of, known, or_reason
from spectui.engine.events import GenerationResult
from spectui.errors import BadInputError, CancelledError, HopelessError, ServerError
from spectui.format import counted, percent_text, rate_text, times_text
from spectui.measure.backend import header
from spectui.measure.lossless import NO_MARGIN, LosslessCheck, check_lossless, lossless_document
from spectui.measure.measurer import (
    NO_ROUNDS,
    NOTHING_DRAFTED,
    Measurer,
    Pair,
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
from spectui.measure.verdict import doubt
from spectui.measure.workload import Workload
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.monitor.machine import this_machine
from spectui.monitor.watch import MachineWatch
from spectui.options.request import RequestShape
from spectui.options.speculation import Speculation
from spectui.page import Page, Paragraph
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
        on_pair: called with the results of every prompt.
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
    parts = ("draft", "verify", "sample", "rollback", "other")
    seen = {
        "accepted_per_position": list(counters.accepted_per_position),
        "reached_per_position": list(counters.reached_per_position),
        "time_s": {name: getattr(counters.times, f"{name}_s") for name in parts},
    }
    found = {
        **fields_of(counters, NOTHING_DRAFTED, "n_drafted", "n_accepted", "acceptance_rate"),
        **or_reason("n_rounds", counters.known_rounds, NO_ROUNDS),
        **fields_of(counters, NO_ROUNDS, "mean_accepted_length"),
    }
    if counters.detail is Detail.ROUNDS:
        return {**found, **fields_of(counters, NOTHING_DRAFTED, "alpha"), **seen}
    for name in ("alpha", *seen):
        found |= or_reason(name, None, _NO_DETAIL)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """Result of a benchmark, and what decoded it."""

    found: Comparison
    target: Json
    draft: Json
    backend: Json
    alteration: str | None
    """How the target was altered, in a sentence; None if it was not."""
    n_slots: int = 1
    """Streams at once."""
    notes: tuple[str, ...] = ()
    """Further remarks."""
    said: tuple[str, ...] = ()
    """Remarks that were printed before it began: in the document alone."""
    shapes: tuple[RequestShape, ...] = ()
    """Requests that a user named; empty for those that the prompts are."""

    @property
    def requests(self) -> Known[tuple[Request, ...]]:
        """Whole requests that a user named, or those that the prompts are."""
        one, shapes = self.found, self.shapes or (usual_shape(self.found.workload),)
        times = prompt_times(one.pairs, reads=one.speculation.model is not None)
        return requests_of(shapes, one.speedup, one.pairs, times, one.workload.n_predict)

    def document(self) -> Json:
        """The document ``spectui.bench/1``."""
        one = self.found
        length = one.workload.prompt_length
        return {
            **header("bench", this_machine()),
            "target": self.target,
            "draft": self.draft,
            "config": {
                **one.speculation.document(),
                **one.workload.document(),
                **({} if length is None else {"prompt_length": length}),
                **({"n_slots": self.n_slots} if self.n_slots > 1 else {}),
            },
            **one.document(),
            **known("requests", self.requests),
            **self.backend,
            "notes": [*self.said, *self.notes],
        }

    def page(self) -> Page:
        """The summary, and notes."""
        remarks = (doubt(self.found.speedup), self.alteration, *self.notes)
        notes = [*(f"{note}." for note in remarks if note), *self.found.disturbance.notes]
        lines = (Paragraph(line, indent=_BESIDE) for line in self._lines())
        return [*lines, *(Paragraph(f"note: {note}") for note in notes)]

    def _lines(self) -> Iterator[str]:
        one, counters, speedup = self.found, self.found.counters, self.found.speedup
        each = "" if self.n_slots == 1 else f" in each of {self.n_slots} streams"
        for side, results in (("off", one.baseline), ("on ", one.speculative)):
            yield f"{side}         {rate_text(throughput(results))} tokens/s{each}"
        yield f"speedup     {times_text(speedup.capped.estimate)} ({self._interval(speedup)})"
        rate, length = percent_text(counters.acceptance_rate), counters.tokens_per_round
        per_round = "–" if length is None else f"{length:.2f}"
        accepted = f"{rate} ({counters.n_accepted} of {counters.n_drafted})"
        text = f"{accepted}, {per_round} tokens per round"
        yield f"acceptance  {text if counters.n_drafted else NOTHING_DRAFTED}"
        yield f"lossless    {_lossless(one)}"
        for request in self.requests.value or ():
            yield f"request     {request.summary}"

    def _interval(self, speedup: Speedup) -> str:
        ends = speedup.capped.interval
        if ends is None:
            return speedup.interval_reason or ""
        bounds = " to ".join(map(times_text, ends))
        prompts = f"{speedup.n_prompts} prompts, {self.found.workload.sampling.label}"
        return f"95 % interval {bounds}, {prompts}"


_BESIDE = " " * len("acceptance  ")
"""Indent of lines that continue the line of a heading."""


def _lossless(one: Comparison) -> str:
    check = one.lossless
    if check is None:
        return "not checked: only complete runs of greedy output are compared"
    if check.divergence is None:
        return "yes, every output equals the target's own"
    d, n_others = check.divergence, check.n_different - 1
    others = f"; {counted(n_others, 'prompt')} more" if n_others > 0 else ""
    where = f"prompt {d.prompt_id}, token {d.position}"
    if d.margin is None or d.noise is None:
        return f"the outputs part ({where}{others}); {NO_MARGIN}"
    where += f": margin {d.margin:.2g}, noise {d.noise:.2g}{others}"
    return f"yes, but for rounding ({where})" if check.lossless else f"NO ({where})"
