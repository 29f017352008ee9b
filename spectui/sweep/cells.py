"""Cells of a grid, and their measurements: plain data, stored line by line. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair, sha256
from spectui.measure.promise import Observed, observed_of
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.options.drafters import MTP_KIND, numbers_of
from spectui.options.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Placement of target and context; another place requires loading the target again."""

    threads: int = 0
    """``-t``, 0 for one per physical core."""
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    n_slots: int = 1
    """``-np``, streams at once; a llama-server alone has more than one."""

    @property
    def cache_type(self) -> str:
        """Types of the cache; one where K and V have the same."""
        return "/".join(dict.fromkeys((self.cache_type_k, self.cache_type_v)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The prompts of the sweep with a length, a temperature and a number of tokens."""

    prompt_length: int | None = None
    """Tokens per prompt; None if every prompt keeps its own length."""
    temp: float = 0.0
    n_predict: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One configuration. Equal cells are comparable runs of the same configuration."""

    arm: Arm
    """Drafter and setting."""
    place: Place
    task: Task

    @property
    def speculation(self) -> Speculation:
        """The drafting setting."""
        return self.arm.speculation or Speculation()

    @property
    def mtp(self) -> bool:
        """Whether MTP layers draft."""
        return self.speculation.is_mtp

    @property
    def own_mtp(self) -> bool:
        """Whether these are the target's own."""
        return self.mtp and self.arm.draft == MTP_KIND

    def document(self) -> Json:
        """The configuration in documents."""
        place, task = self.place, self.task
        return {
            "drafter": self.arm.drafter,
            **self.arm.document(),
            **or_reason("threads", place.threads or None, "one per physical core"),
            "cache_type_k": place.cache_type_k,
            "cache_type_v": place.cache_type_v,
            "n_slots": place.n_slots,
            **or_reason("prompt_length", task.prompt_length, "every prompt has its own"),
            "temp": task.temp,
            "n_predict": task.n_predict,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One measurement of a cell on all prompts."""

    cell: Cell
    repeat: int


NO_ROUNDS = "no round was run, or the server does not tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRun(Observed):
    """One prompt of a cell."""

    n_prompt_tokens: int
    n_rounds: int | None
    """Rounds with speculation; None if a server does not report them."""
    outputs: tuple[str, str]
    """SHA-256 of the token ids without and with speculation, as decimal numbers, one per line."""
    whole_s: tuple[float, float] | None = None
    """Seconds of the whole requests beside others; None where it was decoded alone."""

    def document(self, repeat: int) -> Json:
        """The run in documents; ``repeat`` counts from 1."""
        measured, whole_s = self.measurement, self.whole_s
        names = ("off_request_s", "on_request_s")
        return {
            "repeat": repeat,
            "prompt": measured.prompt_id,
            "category": measured.category,
            "n_prompt_tokens": self.n_prompt_tokens,
            "off_n_tokens": measured.baseline_tokens,
            "off_decode_s": measured.baseline_s,
            "on_n_tokens": measured.speculative_tokens,
            "on_decode_s": measured.speculative_s,
            "n_drafted": self.n_drafted,
            "n_accepted": self.n_accepted,
            **or_reason("n_rounds", self.n_rounds, NO_ROUNDS),
            "off_output_sha256": self.outputs[0],
            "output_sha256": self.outputs[1],
            **({} if whole_s is None else dict(zip(names, whole_s, strict=True))),
        }


def runs_of(pairs: Sequence[Pair]) -> tuple[PromptRun, ...]:
    """The pairs that decoded something."""
    decoded = [pair for pair in pairs if pair.has_decoded]
    return tuple(map(_prompt_run, decoded, observed_of(decoded)))


def _prompt_run(pair: Pair, observed: Observed) -> PromptRun:
    return PromptRun(
        measurement=observed.measurement,
        n_drafted=observed.n_drafted,
        n_accepted=observed.n_accepted,
        digest=observed.digest,
        n_prompt_tokens=len(pair.item.tokens),
        n_rounds=pair.speculative.counters.known_rounds,
        outputs=(sha256(pair.baseline.tokens), sha256(pair.speculative.tokens)),
        whole_s=pair.whole_s,
    )


class VisitState(StrEnum):
    """State of a visit."""

    COMPLETE = "complete"
    FAILED = "failed"
    """The cell could not be measured; the record says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRecord:
    """One line of a stored sweep."""

    visit: Visit
    state: VisitState
    runs: tuple[PromptRun, ...] = ()
    disturbance: DisturbanceSummary | None = None
    """Load of the rest of the machine meanwhile; None in logs of earlier versions, which did not
    watch it."""
    lossless: LosslessCheck | None = None
    """None with temperature, and if the target cannot be examined."""
    wall_s: float = 0.0
    """Seconds for the whole visit, including loading."""
    error: str | None = None


def coordinates(cell: Cell) -> dict[str, str | int | float]:
    """Coordinates of ``cell`` on all of its axes, by the names of options."""
    found: dict[str, str | int | float | None] = {"drafter": cell.arm.drafter}
    for one in cell.speculation.chain:
        # The name of the axis includes the drafter, since there may be several.
        found |= {number.axis: getattr(one, number.name) for number in numbers_of(type(one))}
    found |= {
        "threads": cell.place.threads,
        "cache-type": cell.place.cache_type,
        "parallel": cell.place.n_slots,
        "prompt-length": cell.task.prompt_length,
        "temp": cell.task.temp,
        "n-predict": cell.task.n_predict,
    }
    return {name: value for name, value in found.items() if value is not None}


Columns = Mapping[str, Callable[[Cell], str]]
"""Values of cells by a heading."""

COLUMNS: Columns = {
    "threads": lambda cell: str(cell.place.threads or "auto"),
    "KV": lambda cell: cell.place.cache_type,
    "slots": lambda cell: str(cell.place.n_slots),
    "prompt": lambda cell: str(cell.task.prompt_length or "own"),
    "temp": lambda cell: f"{cell.task.temp:g}",
    "n": lambda cell: str(cell.task.n_predict),
}
"""Axes of a cell beside its drafter."""


def varying(cells: Iterable[Cell]) -> Columns:
    """Columns for the values that differ between cells and are not in their names."""
    found = tuple(cells)
    return {
        heading: column
        for heading, column in COLUMNS.items()
        if len({column(cell) for cell in found}) > 1
    }
