"""Text and document of ``spectui bench``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rich.table import Table

from spectui.cli.drawing import drawn, sentence, table, wrapped
from spectui.cli.next_step import next_lines
from spectui.cli.output import write_result
from spectui.cli.tables import SLOTS_LEGEND, bounds, slots_lines, speedup_cells
from spectui.documents import Json, Known, known, or_reason
from spectui.format import counted, factor, percent_text
from spectui.measure.backend import header
from spectui.measure.comparison import Comparison
from spectui.measure.lossless import UNTOLD
from spectui.measure.measurer import NO_BASELINE
from spectui.measure.requests import Request
from spectui.measure.slots import SlotResult, slots_document
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import NOISE, doubt
from spectui.monitor.machine import Machine, this_machine
from spectui.options.request import RequestShape
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
    next_words: tuple[str, ...] = ()
    """The command to run next; none where none follows."""
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


_BESIDE = " " * len("acceptance  ")
"""Indent of lines that continue the line of a heading."""
_COUNTS = ("n_drafted", "n_accepted", "n_rounds")
_RATIOS = ("acceptance_rate", "mean_accepted_length", "accepted_per_position", "alpha")


def _without_counts(found: Json, reason: str) -> Json:
    """Results of a server that does not report its drafts; ``reason`` says so."""
    bound = {
        **_unknown(("speedup_at_most",), reason),
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
    fields: Json = {}
    for name in names:
        fields |= or_reason(name, None, reason)
    return fields


def report(run: BenchRun, json_path: str | None, *, is_sweep: bool) -> None:
    """Print the results and write the document.

    Args:
        run: the results.
        json_path: value of ``--json``.
        is_sweep: whether several temperatures or lengths were asked for.
    """
    machine = this_machine()
    documents = [run.document(index, machine) for index in range(len(run.found))]
    document = documents[0]
    if is_sweep:
        document = {**header("benches", machine), "runs": documents}
    lines = _lines(run, is_sweep=is_sweep)
    if run.next_words and run.ended is None:
        lines += ["", *next_lines("search for the fastest setting", run.next_words)]
    write_result(document, "\n".join(lines), json_path)


def _lines(run: BenchRun, *, is_sweep: bool) -> list[str]:
    first, *_ = run.found
    if first.speedup is None:
        lines = []
        for one in run.found:
            lines += [*([_heading(one)] if is_sweep else []), *_alone(run, one)]
        lines += ["", wrapped(f"No speedup: {NO_BASELINE}.")]
    elif any(n_slots > 1 for n_slots, _found in run.by_slots):
        lines = []
        for index, one in enumerate(run.found):
            lines += [*([_heading(one)] if is_sweep else []), *slots_lines(run.slots(index))]
        lines += [wrapped(SLOTS_LEGEND)]
    elif is_sweep:
        lines = [drawn(_table(run)), "", wrapped(_LEGEND + _of_noise(run))]
    else:
        lines = _summary(run, first, first.speedup)
    seen = [one.disturbance.value for one in run.comparisons]
    disturbed = [note for one in seen if one is not None for note in one.notes]
    told = [*(f"note: {note}." for note in run.notes), *(f"note: {one}" for one in disturbed)]
    return [*lines, *map(sentence, told)]


def _heading(one: Comparison) -> str:
    length = one.workload.prompt_length
    prompts = "" if length is None else f", prompts of {length} tokens"
    return f"temp {one.workload.sampling.temp:g}{prompts}"


def _alone(run: BenchRun, one: Comparison) -> list[str]:
    """Summary of a server that was compared with nothing."""
    speed, counters = one.speculative_tokens_per_s, one.counters
    drafted = "nothing was drafted" if not counters.n_drafted else _accepted(counters)
    return [
        f"speed       {'–' if speed is None else f'{speed:.2f}'} tokens/s",
        f"acceptance  {run.untold or drafted}",
    ]


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
    return table(_HEADINGS, rows)


def _row(one: Comparison, speedup: Speedup) -> tuple[str, ...]:
    rate, length = one.counters.acceptance_rate, one.counters.tokens_per_round
    return (
        f"{one.workload.sampling.temp:g}",
        f"{median(len(item.tokens) for item in one.workload.items):.0f}",
        f"{one.baseline_tokens_per_s or 0:.2f}",
        f"{one.speculative_tokens_per_s or 0:.2f}",
        *speedup_cells(speedup),
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


def _summary(run: BenchRun, one: Comparison, speedup: Speedup) -> list[str]:
    """Summary of one setting on one workload."""
    counters, length = one.counters, one.counters.tokens_per_round
    told = _possible(run, speedup).capped
    per_round = "–" if length is None else f"{length:.2f}"
    drafted = f"{_accepted(counters)}, {per_round} tokens per round"
    interval = f"({speedup.interval_reason})"
    if speedup.interval is not None:
        prompts = f"{speedup.n_prompts} prompts, {one.workload.sampling.label}"
        interval = f"(95 % interval {bounds(told)}, {prompts})"
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
    return [*(sentence(line, indent=_BESIDE) for line in lines), *map(sentence, notes)]


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
