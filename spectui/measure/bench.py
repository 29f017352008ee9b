"""Results of a benchmark, their document and their page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from statistics import median

from spectui.documents import Json, Known, known, or_reason
from spectui.format import counted, factor, percent_text, rate_text
from spectui.measure.backend import header
from spectui.measure.comparison import Comparison
from spectui.measure.lossless import UNTOLD
from spectui.measure.measurer import NO_BASELINE
from spectui.measure.requests import Request
from spectui.measure.slots import SlotResult, by_slots, slots_document
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import NOISE, doubt
from spectui.monitor.machine import Machine, this_machine
from spectui.options.request import RequestShape
from spectui.page import Line, Page, Paragraph, Part, Table
from spectui.speculative.counters import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """Results of a benchmark, and what decoded them."""

    found: Sequence[Comparison]
    """One for every temperature and length of prompt; with the first number of slots."""
    ended: BaseException | None
    """The error that ended it early."""
    target: Json
    draft: Json
    setting: Json
    """How was drafted."""
    backend: Json
    alteration: str | None
    """How the target was altered, in a sentence; None if it was not."""
    notes: tuple[str, ...] = ()
    """Further remarks."""
    said: tuple[str, ...] = ()
    """Remarks that were printed before it began: in the document alone."""
    cause: str = NOISE
    """Cause of a speedup that speculation cannot have given."""
    untold: str | None = None
    """Reason why the number of drafted tokens is unknown; None if it is known."""
    requests: tuple[RequestShape, ...] = ()
    """Requests that were asked for; empty for those that the prompts are."""
    by_slots: Sequence[tuple[int, Sequence[Comparison]]] = ()
    """Numbers of slots, with ``found`` for each as far as it was measured; empty for one slot that
    nobody asked for."""

    @property
    def n_runs(self) -> int:
        """Number of measurements."""
        return sum(len(one.runs) for one in self.comparisons)

    @property
    def comparisons(self) -> list[Comparison]:
        """All that was measured."""
        groups = [found for _n_slots, found in self.by_slots] or [self.found]
        return [one for found in groups for one in found]

    def slots(self, index: int) -> list[SlotResult]:
        """Results of one temperature and length by the number of slots."""
        return [
            SlotResult(n_slots=n_slots, found=found[index])
            for n_slots, found in self.by_slots
            if index < len(found)
        ]

    def requests_of(self, one: Comparison) -> Known[tuple[Request, ...]]:
        """Whole requests with one of the results: the first temperature evaluates the prompts."""
        length = one.workload.prompt_length
        others = [each for each in self.found if each is not one]
        same = [each.pairs for each in others if each.workload.prompt_length == length]
        return one.requests(self.requests, [pair for pairs in same for pair in pairs])

    def document(self, index: int, machine: Machine) -> Json:
        """``spectui.bench/1`` of one temperature and length; ``slots`` where -np was given."""
        one, slots = self.found[index], self.slots(index)
        length = one.workload.prompt_length
        found = one.document()
        return {
            **header("bench", machine),
            "target": self.target,
            "draft": self.draft,
            "config": {
                **self.setting,
                **one.workload.document(),
                **({} if length is None else {"prompt_length": length}),
                **({"n_slots": slots[0].n_slots} if slots else {}),
            },
            **(found if self.untold is None else _without_counts(found, self.untold)),
            **known("requests", self.requests_of(one)),
            **self.backend,
            "notes": [*self.said, *self.notes],
            **(slots_document(slots) if slots else {}),
        }


_COUNTS = ("n_drafted", "n_accepted", "n_rounds")
_RATIOS = ("acceptance_rate", "mean_accepted_length", "accepted_per_position", "alpha")


def _without_counts(found: Json, reason: str) -> Json:
    """Results of a server that does not report its drafts; ``reason`` says so."""
    bound = {
        **or_reason("speedup_at_most", None, reason),
        "speedup_is_noise": False,
        "speedup_is_capped": False,
    }
    return {
        **found,
        "speculative": {**found["speculative"], **_unknown((*_COUNTS, *_RATIOS), reason)},
        **(bound if "speedup_at_most" in found else {}),
        "prompts": [{**one, **_unknown(_COUNTS, reason)} for one in found["prompts"]],
    }


def _unknown(names: Sequence[str], reason: str) -> Json:
    return reduce(or_, (or_reason(name, None, reason) for name in names))


def bench_document(run: BenchRun, *, is_sweep: bool) -> Json:
    """The document of a run, or of several temperatures or lengths if these were asked for."""
    machine = this_machine()
    documents = [run.document(index, machine) for index in range(len(run.found))]
    return {**header("benches", machine), "runs": documents} if is_sweep else documents[0]


def bench_page(run: BenchRun, *, is_sweep: bool) -> Page:
    """The summary of a run, or the table of several temperatures or lengths; notes.

    Args:
        run: the results.
        is_sweep: whether several temperatures or lengths were asked for.
    """
    first, *_ = run.found
    page: list[Part] = []
    if first.speedup is None:
        for one in run.found:
            page += [*([_heading(one)] if is_sweep else []), *_alone(run, one)]
        page += ["", Paragraph(f"No speedup: {NO_BASELINE}.")]
    elif any(n_slots > 1 for n_slots, _found in run.by_slots):
        for index, one in enumerate(run.found):
            page += [*([_heading(one)] if is_sweep else []), *slots_parts(run.slots(index))]
        page.append(SLOTS_LEGEND)
    elif is_sweep:
        page = [_table(run), "", Paragraph(_LEGEND + _of_noise(run))]
    else:
        page = _summary(run, first, first.speedup)
    seen = [one.disturbance.value for one in run.comparisons]
    disturbed = [note for one in seen if one is not None for note in one.notes]
    notes = [*(f"{note}." for note in run.notes), *disturbed]
    return [*page, *(Line(f"note: {note}") for note in notes)]


def _heading(one: Comparison) -> str:
    length = one.workload.prompt_length
    prompts = "" if length is None else f", prompts of {length} tokens"
    return f"temp {one.workload.sampling.temp:g}{prompts}"


def _alone(run: BenchRun, one: Comparison) -> list[Part]:
    """Summary of a server that was compared with nothing."""
    speed, counters = one.speculative_tokens_per_s, one.counters
    drafted = "nothing was drafted" if not counters.n_drafted else _accepted(counters)
    return [
        f"speed       {'–' if speed is None else f'{speed:.2f}'} tokens/s",
        f"acceptance  {run.untold or drafted}",
    ]


_OF_SLOTS = (
    *("slots", "off each", "off all", "on each", "on all"),
    *("speedup", "95 % interval", "rate"),
)
SLOTS_LEGEND = Paragraph(
    "slots: streams at once. each: tokens/s of a stream while it answers. all: tokens/s of all "
    "streams together, with the evaluation of prompts. speedup: of a stream, over prompts. rate: "
    "accepted of drafted tokens. !: more than the accepted tokens can give; this is noise."
)


def slots_parts(results: Sequence[SlotResult]) -> list[Part]:
    """A row for each number of slots, and what that says."""
    return [Table(_OF_SLOTS, list(map(_slot_row, results))), "", Paragraph(by_slots(results))]


def _slot_row(one: SlotResult) -> tuple[str, ...]:
    found, (off, on) = one.found, one.all_tokens_per_s
    rates = (found.baseline_tokens_per_s, off, found.speculative_tokens_per_s, on)
    return (
        str(one.n_slots),
        *map(rate_text, rates),
        *_speedup_cells(found.speedup),
        percent_text(found.counters.acceptance_rate, 1),
    )


def _speedup_cells(speedup: Speedup | None) -> tuple[str, str]:
    """A speedup, marked where it is noise, and its interval."""
    if speedup is None:
        return "–", "–"
    mark = " !" if speedup.is_noise else ""
    return f"{factor(speedup.capped.estimate, 3)}{mark}", _bounds(speedup)


def _bounds(speedup: Speedup) -> str:
    """The interval of a speedup, such as ``1.250 to 1.310``."""
    interval = speedup.capped.interval
    return "–" if interval is None else " to ".join(factor(end, 3) for end in interval)


_LEGEND = (
    "prompt: tokens, the median. off, on: tokens/s. rate: accepted of drafted tokens. per "
    "round: tokens. lossless: whether the output is the target's own, but for rounding; "
    "compared for complete runs of greedy output only."
)
_HEADINGS = (
    *("temp", "prompt", "off", "on", "speedup", "95 % interval"),
    *("rate", "per round", "lossless"),
)
_LOSSLESS = {True: "yes", False: "NO", None: "–"}


def _possible(run: BenchRun, speedup: Speedup) -> Speedup:
    """A speedup without a ceiling where it is not known what was accepted."""
    return speedup if run.untold is None else replace(speedup, ceiling=None)


def _table(run: BenchRun) -> Table:
    """Table with one row per temperature and prompt length."""
    rows = (_row(one, _possible(run, one.speedup)) for one in run.found if one.speedup is not None)
    return Table(_HEADINGS, list(rows))


def _row(one: Comparison, speedup: Speedup) -> tuple[str, ...]:
    rate, length = one.counters.acceptance_rate, one.counters.tokens_per_round
    return (
        f"{one.workload.sampling.temp:g}",
        f"{median(len(item.tokens) for item in one.workload.items):.0f}",
        f"{one.baseline_tokens_per_s or 0:.2f}",
        f"{one.speculative_tokens_per_s or 0:.2f}",
        *_speedup_cells(speedup),
        percent_text(rate, 1),
        "–" if length is None else f"{length:.2f}",
        _LOSSLESS[None if one.lossless is None else one.lossless.lossless],
    )


def _of_noise(run: BenchRun) -> str:
    if run.untold is not None:
        return f" rate –: {run.untold}."
    told = ""
    if not all(one.counters.n_drafted for one in run.found):
        told += f" Where rate is –, {_nothing_drafted(run.cause)}."
    if any(one.speedup is not None and one.speedup.is_noise for one in run.found):
        told += f" !: more than the tokens that were accepted can give; this is {run.cause}."
    return told


def _nothing_drafted(cause: str) -> str:
    return (
        f"nothing was drafted, so that every round was the target's own: a gain is {cause}, and a "
        "loss as well, but for what asking the drafter costs"
    )


_BESIDE = " " * len("acceptance  ")
"""Indent of lines that continue the line of a heading."""


def _summary(run: BenchRun, one: Comparison, speedup: Speedup) -> list[Part]:
    """Summary of one setting on one workload."""
    counters, length = one.counters, one.counters.tokens_per_round
    told = _possible(run, speedup).capped
    per_round = "–" if length is None else f"{length:.2f}"
    drafted = f"{_accepted(counters)}, {per_round} tokens per round"
    interval = f"({speedup.interval_reason})"
    if speedup.interval is not None:
        prompts = f"{speedup.n_prompts} prompts, {one.workload.sampling.label}"
        interval = f"(95 % interval {_bounds(told)}, {prompts})"
    because = None
    if run.untold is None:
        because = doubt(speedup, run.cause)
        because = because if counters.n_drafted else _nothing_drafted(run.cause)
    lines = [
        f"off         {one.baseline_tokens_per_s or 0:.2f} tokens/s",
        f"on          {one.speculative_tokens_per_s or 0:.2f} tokens/s",
        f"speedup     {factor(told.estimate, 3)}× {interval}",
        f"acceptance  {run.untold or drafted}",
        f"lossless    {_lossless(one)}",
        *_requests(run.requests_of(one).value or ()),
    ]
    notes = [f"note: {note}." for note in (because, run.alteration) if note is not None]
    return [*(Line(line, indent=_BESIDE) for line in lines), *map(Line, notes)]


def _requests(requests: Sequence[Request]) -> Iterator[str]:
    for one in requests:
        yield f"request     {one.told}{f'; {one.pays}' if one.pays else ''}"
        yield f"first token {one.first_told}"


def _accepted(counters: Counters) -> str:
    rate = percent_text(counters.acceptance_rate, 1)
    return f"{rate} ({counters.n_accepted} of {counters.n_drafted})"


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
        return f"the outputs part ({where}{others}); {UNTOLD}"
    where += f": margin {d.margin:.2g}, noise {d.noise:.2g}{others}"
    return f"yes, but for rounding ({where})" if check.lossless else f"NO ({where})"
