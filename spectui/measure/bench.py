"""Result of a benchmark, its document and its page."""

from collections.abc import Iterator
from dataclasses import dataclass

from spectui.documents import Json, Known, known
from spectui.format import counted, factor, percent_text
from spectui.measure.backend import header
from spectui.measure.comparison import Comparison
from spectui.measure.lossless import UNTOLD
from spectui.measure.measurer import throughput
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import doubt
from spectui.monitor.machine import this_machine
from spectui.options.request import RequestShape
from spectui.page import Line, Page


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
    """Requests that were asked for; empty for those that the prompts are."""

    @property
    def requests(self) -> Known[tuple[Request, ...]]:
        """Whole requests."""
        return self.found.requests(self.shapes)

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
        notes = [f"{note}." for note in self._remarks()]
        notes += [*(f"{note}." for note in self.notes), *self.found.disturbance.notes]
        lines = (Line(line, indent=_BESIDE) for line in self._lines())
        return [*lines, *(Line(f"note: {note}") for note in notes)]

    def _lines(self) -> Iterator[str]:
        one, counters, speedup = self.found, self.found.counters, self.found.speedup
        each = "" if self.n_slots == 1 else f" in each of {self.n_slots} streams"
        for side, results in (("off", one.baseline), ("on ", one.speculative)):
            yield f"{side}         {throughput(results) or 0:.2f} tokens/s{each}"
        yield f"speedup     {factor(speedup.capped.estimate, 3)}× ({self._interval(speedup)})"
        rate, length = percent_text(counters.acceptance_rate, 1), counters.tokens_per_round
        per_round = "–" if length is None else f"{length:.2f}"
        accepted = f"{rate} ({counters.n_accepted} of {counters.n_drafted})"
        yield f"acceptance  {accepted}, {per_round} tokens per round"
        yield f"lossless    {_lossless(one)}"
        for request in self.requests.value or ():
            yield f"request     {request.told}"

    def _interval(self, speedup: Speedup) -> str:
        ends = speedup.capped.interval
        if ends is None:
            return speedup.interval_reason or ""
        bounds = " to ".join(factor(end, 3) for end in ends)
        prompts = f"{speedup.n_prompts} prompts, {self.found.workload.sampling.label}"
        return f"95 % interval {bounds}, {prompts}"

    def _remarks(self) -> Iterator[str]:
        """Reasons to doubt the numbers."""
        because = doubt(self.found.speedup) if self.found.counters.n_drafted else _NOTHING_DRAFTED
        yield from (one for one in (because, self.alteration) if one is not None)


_BESIDE = " " * len("acceptance  ")
"""Indent of lines that continue the line of a heading."""
_NOTHING_DRAFTED = (
    "nothing was drafted, so that every round was the target's own: a gain is the machine's noise, "
    "and a loss as well, but for what asking the drafter costs"
)


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
